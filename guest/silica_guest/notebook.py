"""The IPython gear: an InteractiveShell without terminal, files or threads.

Owns the configuration of IPython, which provides magics, formatters and its
public API. `shell` still runs the cells; IPython shares its namespace.
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
    """Sends the data that `display()` publishes as results."""

    def publish(self, data, metadata=None, *args, **options) -> None:
        """Sends one bundle, with the id by which a later one can update it."""
        name = (options.get("transient") or {}).get("display_id")
        display = None if name is None else (name, bool(options.get("update")))
        shell.current.emit(data, metadata, False, display)

    def clear_output(self, wait=False) -> None:
        """Asks the client to remove what the cell has shown; what was printed before stays printed."""
        shell.current.clear(wait)

    def _setup_execution_tracking(self) -> None:
        """Does nothing: IPython 9 would register two listeners for every cell, which `publish` does not need."""


class ValueHook(DisplayHook):
    """Sends values of code run through IPython's own `run_cell`, as `%%time` does."""

    def write_output_prompt(self) -> None:
        """Does nothing: the frame of a result names its cell."""

    def write_format_data(self, format_dict, md_dict=None) -> None:
        """Sends the value as a result that is not the main one of the cell."""
        shell.current.emit(format_dict, md_dict, False)


class InlineBackend(SingletonConfigurable):
    """Accepts the `%config InlineBackend...` lines found in many notebooks."""

    figure_format = Any().tag(config=True)
    figure_formats = Any().tag(config=True)
    print_figure_kwargs = Any().tag(config=True)
    close_figures = Any().tag(config=True)
    rc = Any().tag(config=True)


class NotebookShell(InteractiveShell):
    """IPython's shell without the parts that use the home directory, a terminal or sqlite."""

    displayhook_class = Type(ValueHook)
    display_pub_class = Type(Publisher)
    profile_dir = Any()
    # A trait in IPython. It has no observers and is set in every cell, so a plain attribute is faster.
    execution_count = 1

    def init_ipython_dir(self, ipython_dir) -> None:
        """Does nothing: no folder is made in the home directory."""

    def init_profile_dir(self, profile_dir) -> None:
        """Sets a dummy profile: IPython 8 only joins paths to its location."""
        self.profile_dir = SimpleNamespace(location=os.devnull)

    def init_virtualenv(self) -> None:
        """Does nothing: `interpreter` has set sys.path."""

    @property
    def db(self) -> dict:
        """IPython's key-value store, kept in memory."""
        return self.__dict__.setdefault("_silica_db", {})

    @db.setter
    def db(self, value: object) -> None:
        """Ignores the value: older versions of IPython set a store on disk."""

    def system(self, cmd: str) -> None:
        """Runs `!cmd` with the process's own stdout and stderr."""
        cmd = self.var_expand(cmd, depth=1)
        interpreter.flush_streams()
        program = os.environ.get("SHELL", "")
        program = program if os.access(program, os.X_OK) else None
        self.user_ns["_exit_code"] = subprocess.call(cmd, shell=True, executable=program)

    def enable_matplotlib(self, gui=None) -> tuple[str, str]:
        """Implements `%matplotlib` with any argument: selects the backend that sends figures as results."""
        import matplotlib.pyplot

        matplotlib.pyplot.switch_backend(shell.FIGURE_BACKEND)
        return gui or "inline", shell.FIGURE_BACKEND

    def enable_gui(self, gui=None) -> None:
        """Does nothing: there is no GUI event loop."""

    # Every cell reads these traits. Reading them from `_trait_values` skips the descriptors of traitlets, which
    # take longer than many cells; `create` reads each trait once so that the entries exist.
    CACHED_TRAITS = (
        "ast_node_interactivity", "ast_transformers", "autocall", "input_transformer_manager", "input_transformers_post",
    )  # fmt: skip

    def is_customised(self) -> bool:
        """Returns whether user code changed how input is read, so that IPython must transform even valid Python."""
        traits = self._trait_values
        return bool(traits["autocall"]) or _count_transformers(traits) != self._plain_counts

    def is_plain(self) -> bool:
        """Returns whether cells show their last expression and run untransformed, as is the default."""
        traits = self._trait_values
        shows_last = traits["ast_node_interactivity"] == "last_expr"
        return shows_last and not (traits["ast_transformers"] or self.is_customised())

    def interactivity(self) -> str:
        """Returns IPython's `ast_node_interactivity`: which expressions of a cell are shown."""
        return self._trait_values["ast_node_interactivity"]

    def transform_ast(self, node):
        """Applies the AST transformers that user code added."""
        return super().transform_ast(node) if self._trait_values["ast_transformers"] else node

    def showtraceback(self, exc_tuple=None, *args, **options) -> None:
        """Writes an error that IPython caught to stderr, in the form of `errors`."""
        from silica_guest import errors

        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        sys.stderr.write("\n".join(errors.format_lines(error)) + "\n")

    def showsyntaxerror(self, *args, **options) -> None:
        """Writes a syntax error like `showtraceback`."""
        self.showtraceback()

    showindentationerror = showsyntaxerror

    def cell_begins(self, code: str) -> None:
        """Records a cell that `shell` is about to run, and fires the events that precede it."""
        self.execution_count = shell.current.count
        self._raw_inputs.append(code)
        # A cell may have replaced it, and code that IPython itself runs expects it.
        sys.displayhook = self.displayhook
        # So that a warning appears again in each cell.
        self.user_ns.pop("__warningregistry__", None)
        listeners = self.events.callbacks
        if listeners["pre_execute"]:
            self._fire("pre_execute")
        if listeners["pre_run_cell"]:
            self._cell_info = ExecutionInfo(code, True, False, True, None)
            self._fire("pre_run_cell", self._cell_info)

    def cell_finished(self) -> None:
        """Fires the events that follow a cell, whether or not it failed."""
        info = self.__dict__.pop("_cell_info", None)
        listeners = self.events.callbacks
        if listeners["post_execute"]:
            self._fire("post_execute")
        if listeners["post_run_cell"]:
            # There is no info if no listener needed it before the cell; the cell may have added this one.
            info = info or ExecutionInfo(shell.current.last_input, True, False, True, None)
            self._fire("post_run_cell", ExecutionResult(info))

    def _fire(self, event: str, *arguments: object) -> None:
        """Calls the listeners of an event. IPython's own `trigger` would swallow a KeyboardInterrupt."""
        for listener in tuple(self.events.callbacks[event]):
            try:
                listener(*arguments)
            except Exception:  # noqa: BLE001 - the failure of a listener is printed, and the cell goes on.
                print(f"Error in callback {listener} (for {event}):")
                self.showtraceback()


def create(own: shell.Shell) -> NotebookShell:
    """Builds the IPython shell on the namespace and history of the plain gear."""
    if hasattr(interactiveshell, "PickleShareDB"):
        # IPython 8 creates this store on disk even if it is never used.
        interactiveshell.PickleShareDB = lambda path: {}
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.NotebookShell.colors = "NoColor"
    config.NotebookShell.xmode = "Plain"
    kept = ("_", "__", "___", "exit", "quit", "open")
    taken = {name: own.namespace[name] for name in kept if name in own.namespace}
    notebook = NotebookShell.instance(config=config, user_module=own.module, user_ns=own.namespace)
    # IPython's `exit` and `open` differ from those of the plain gear, it hides the builtin
    # `exit` while a cell runs, and it would reset `_`, `__` and `___`.
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
    for name in NotebookShell.CACHED_TRAITS:
        getattr(notebook, name)
    notebook._plain_counts = _count_transformers(notebook._trait_values)
    # `cell_begins` clears the registry itself.
    if notebook._clear_warning_registry in notebook.events.callbacks["pre_execute"]:
        notebook.events.unregister("pre_execute", notebook._clear_warning_registry)
    notebook.execution_count = max(own.count, 1)
    notebook.loop_runner = own.run_coroutine
    notebook.configurables.append(InlineBackend.instance())
    # Entered once for the life of the process, not for every cell: no other code runs between cells.
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
    """Adds the `_repr_mimebundle_` of a subclass, which IPython skips for types that have a formatter."""
    method = getattr(type(value), "_repr_mimebundle_", None)
    offered = method(value, include=None, exclude=None) if method else None
    own, about = offered if isinstance(offered, tuple) else (offered, None)
    return {**data, **(own or {})}, {**metadata, **(about or {})}


# IPython matches these names when a value is shown. pandas has moved its classes between versions.
RICH_TYPES = (
    ("matplotlib.figure", "Figure", _format_figure),
    ("pandas", "DataFrame", _format_table),
    ("pandas", "Series", _format_table),
    ("pandas.core.frame", "DataFrame", _format_table),
    ("pandas.core.series", "Series", _format_table),
)
