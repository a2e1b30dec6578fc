"""The IPython gear: an InteractiveShell without terminal, files or threads.

Owns how IPython is configured. It is used for its magics, its formatters and
its public API; running cells stays with `shell`, whose namespace it adopts.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from types import SimpleNamespace

from IPython.core import interactiveshell
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from traitlets import Any, Type
from traitlets.config import Config, SingletonConfigurable

from silica_guest import interpreter, shell


class Publisher(DisplayPublisher):
    """Sends what `display()` publishes as results. There is no screen to clear."""

    def publish(self, data, metadata=None, *args, **options) -> None:
        """Sends one bundle; updates of an earlier one count as new."""
        shell.current.emit(data, metadata, False)

    def clear_output(self, wait=False) -> None:
        """Does nothing: what was sent stays sent."""

    def _setup_execution_tracking(self) -> None:
        """Nothing: IPython 9 would listen to two events of every cell for what `publish` does not ask."""


class ValueHook(DisplayHook):
    """Sends values of code run through IPython's own `run_cell`, as `%%time` does."""

    def write_output_prompt(self) -> None:
        """Results carry their cell number elsewhere."""

    def write_format_data(self, format_dict, md_dict=None) -> None:
        """Sends the value as a result that is not the cell's own."""
        shell.current.emit(format_dict, md_dict, False)


class InlineBackend(SingletonConfigurable):
    """Accepts the `%config InlineBackend...` lines found in many notebooks."""

    figure_format = Any().tag(config=True)
    figure_formats = Any().tag(config=True)
    print_figure_kwargs = Any().tag(config=True)
    close_figures = Any().tag(config=True)
    rc = Any().tag(config=True)


class NotebookShell(InteractiveShell):
    """IPython's shell with everything that touches home, terminal or sqlite left out."""

    displayhook_class = Type(ValueHook)
    display_pub_class = Type(Publisher)
    profile_dir = Any()
    # A trait in IPython; nobody observes it, and it is set with every cell.
    execution_count = 1

    def init_ipython_dir(self, ipython_dir) -> None:
        """No folder in the user's home."""

    def init_profile_dir(self, profile_dir) -> None:
        """No profile either; IPython 8 only wants to join a path to it."""
        self.profile_dir = SimpleNamespace(location=os.devnull)

    def init_virtualenv(self) -> None:
        """sys.path was set up by `interpreter`."""

    @property
    def db(self) -> dict:
        """IPython's small store, kept in memory."""
        return self.__dict__.setdefault("_silica_db", {})

    @db.setter
    def db(self, value: object) -> None:
        """Ignored: older IPython sets a store on disk here."""

    def system(self, cmd: str) -> None:
        """Runs `!cmd` on the real stdout and stderr."""
        cmd = self.var_expand(cmd, depth=1)
        interpreter.flush_streams()
        program = os.environ.get("SHELL", "")
        program = program if os.access(program, os.X_OK) else None
        self.user_ns["_exit_code"] = subprocess.call(cmd, shell=True, executable=program)

    def enable_matplotlib(self, gui=None) -> tuple[str, str]:
        """`%matplotlib` of any kind: figures go out as results."""
        import matplotlib.pyplot

        matplotlib.pyplot.switch_backend(shell.FIGURE_BACKEND)
        return gui or "inline", shell.FIGURE_BACKEND

    def enable_gui(self, gui=None) -> None:
        """There is no event loop of a window system to join."""

    # Every cell asks for these traits. From where traitlets keeps them they come without its own code, which is
    # longer than many a cell; `create` sees to it that they are there.
    ASKED_FOR = (
        "ast_node_interactivity", "ast_transformers", "autocall", "input_transformer_manager", "input_transformers_post",
    )  # fmt: skip

    def is_customised(self) -> bool:
        """Tells whether the user changed how input is read, so that even Python must be translated."""
        traits = self._trait_values
        return bool(traits["autocall"]) or _count_transformers(traits) != self._plain_counts

    def is_plain(self) -> bool:
        """Tells whether the last expression of a cell is shown, and everything read and run as it is."""
        traits = self._trait_values
        shows_last = traits["ast_node_interactivity"] == "last_expr"
        return shows_last and not (traits["ast_transformers"] or self.is_customised())

    def interactivity(self) -> str:
        """Returns which of a cell's expressions are shown."""
        return self._trait_values["ast_node_interactivity"]

    def transform_ast(self, node):
        """Applies the user's transformers, if there are any."""
        return super().transform_ast(node) if self._trait_values["ast_transformers"] else node

    def showtraceback(self, exc_tuple=None, *args, **options) -> None:
        """Writes an error that IPython itself caught, in the same form as all others."""
        from silica_guest import errors

        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        sys.stderr.write("\n".join(errors.format_lines(error)) + "\n")

    def showsyntaxerror(self, *args, **options) -> None:
        """See `showtraceback`."""
        self.showtraceback()

    showindentationerror = showsyntaxerror

    def cell_begins(self, code: str) -> None:
        """Counts a cell run by `shell`, and fires the events that come before it."""
        self.execution_count = shell.current.count
        self._raw_inputs.append(code)
        # A cell may have taken it; IPython's own cells find it in place.
        sys.displayhook = self.displayhook
        # So that each cell is warned anew.
        self.user_ns.pop("__warningregistry__", None)
        listeners = self.events.callbacks
        if listeners["pre_execute"]:
            self._fire("pre_execute")
        if listeners["pre_run_cell"]:
            self._cell_info = ExecutionInfo(code, True, False, True, None)
            self._fire("pre_run_cell", self._cell_info)

    def cell_finished(self) -> None:
        """Fires the events that follow a cell, failed or not."""
        info = self.__dict__.pop("_cell_info", None)
        listeners = self.events.callbacks
        if listeners["post_execute"]:
            self._fire("post_execute")
        if listeners["post_run_cell"]:
            # Nobody may have asked for it before the cell, which may have registered for this itself.
            info = info or ExecutionInfo(shell.current.last_input, True, False, True, None)
            self._fire("post_run_cell", ExecutionResult(info))

    def _fire(self, event: str, *arguments: object) -> None:
        """Calls the listeners of an event as IPython does, which would swallow an interrupt of the cell."""
        for listener in tuple(self.events.callbacks[event]):
            try:
                listener(*arguments)
            except Exception:  # noqa: BLE001 - a listener's failure is told, and the cell goes on.
                print(f"Error in callback {listener} (for {event}):")
                self.showtraceback()


def create(own: shell.Shell) -> NotebookShell:
    """Builds the shell around the namespace and history of the plain gear."""
    if hasattr(interactiveshell, "PickleShareDB"):
        # IPython 8 makes this store on disk whether it is used or not.
        interactiveshell.PickleShareDB = lambda path: {}
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.NotebookShell.colors = "NoColor"
    config.NotebookShell.xmode = "Plain"
    kept = ("_", "__", "___", "exit", "quit", "open")
    taken = {name: own.namespace[name] for name in kept if name in own.namespace}
    notebook = NotebookShell.instance(config=config, user_module=own.module, user_ns=own.namespace)
    # IPython's `exit` and `open` differ from the plain gear's, and it hides the
    # builtin `exit` while a cell runs; `_` and friends it would start anew.
    del own.namespace["exit"], own.namespace["quit"]
    own.namespace.pop("open", None)
    own.namespace.update({"exit": builtins.exit, "quit": builtins.quit, **taken})
    hook = notebook.displayhook
    hook._, hook.__, hook.___ = own.recent
    history = notebook.history_manager
    history.input_hist_parsed[:] = history.input_hist_raw[:] = own.inputs
    history.output_hist.update(own.outputs)
    own.inputs, own.outputs = history.input_hist_parsed, history.output_hist
    notebook._raw_inputs = history.input_hist_raw
    for name in NotebookShell.ASKED_FOR:
        getattr(notebook, name)
    notebook._plain_counts = _count_transformers(notebook._trait_values)
    # `cell_begins` does that itself.
    if notebook._clear_warning_registry in notebook.events.callbacks["pre_execute"]:
        notebook.events.unregister("pre_execute", notebook._clear_warning_registry)
    notebook.execution_count = max(own.count, 1)
    notebook.loop_runner = own.run_coroutine
    notebook.configurables.append(InlineBackend.instance())
    # For good, and not once for every cell: nothing else runs in between.
    notebook.builtin_trap.__enter__()
    notebook.display_trap.__enter__()
    for module, name, formatter in RICH_TYPES:
        notebook.display_formatter.mimebundle_formatter.for_type_by_name(module, name, formatter)
    return notebook


def _count_transformers(traits: dict) -> tuple[int, ...]:
    manager = traits["input_transformer_manager"]
    return (
        len(manager.cleanup_transforms), len(manager.line_transforms),
        len(manager.token_transformers), len(traits["input_transformers_post"]),
    )  # fmt: skip


def _format_figure(figure: object) -> tuple[dict, dict]:
    from silica_guest import figures

    return _add_own(figure, figures.bundle(figure), {})


def _format_table(table: object) -> tuple[dict, dict]:
    from silica_guest import tables

    return _add_own(table, *tables.bundle(table))


def _add_own(value: object, data: dict, metadata: dict) -> tuple[dict, dict]:
    """Adds what a subclass offers itself, which IPython does not ask for once a type has a formatter."""
    method = getattr(type(value), "_repr_mimebundle_", None)
    offered = method(value, include=None, exclude=None) if method else None
    own, about = offered if isinstance(offered, tuple) else (offered, None)
    return {**data, **(own or {})}, {**metadata, **(about or {})}


# Found by name when a value of the type is shown; pandas has moved its classes.
RICH_TYPES = (
    ("matplotlib.figure", "Figure", _format_figure),
    ("pandas", "DataFrame", _format_table),
    ("pandas", "Series", _format_table),
    ("pandas.core.frame", "DataFrame", _format_table),
    ("pandas.core.series", "Series", _format_table),
)
