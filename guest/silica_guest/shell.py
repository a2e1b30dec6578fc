"""Runs cells the IPython way in one user namespace.

Owns the namespace, the history variables, the event loop and the choice of
gear: plain, or IPython. Both gears use this executor; IPython, once loaded,
only translates magics and formats values, so results do not differ.
"""

from __future__ import annotations

import builtins
import os
import sys
from _ast import Expr, Expression, Module

from silica_guest import bundles, interpreter
from silica_guest.watch import ImportWatch

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` is too slow here.
if TYPE_CHECKING:
    from collections.abc import Callable

# Compiler flags by value, since `ast` and `__future__` are not worth importing.
ONLY_AST = 0x0400
TOP_LEVEL_AWAIT = 0x2000
FUTURE_FEATURES = 0x1FE0000
CO_COROUTINE = 0x80
OUTPUTS_MAX = 1000
# Keywords that can open an expression.
KEYWORDS = frozenset(("None", "True", "False", "not", "await", "lambda", "yield"))
# The figure as JSON, and as HTML that loads plotly.js by URL: with the library inline, each
# figure would be over 4 MB. "colab" is plotly's name for such self-contained HTML; the
# "notebook" renderers first send the library as a separate result, on which the figures depend.
PLOTLY_RENDERERS = "plotly_mimetype+colab"
FIGURE_BACKEND = "module://silica_guest.figures"

current: Shell | None = None


class Shell:
    """Runs cells, and holds the state that is kept between them."""

    def __init__(self) -> None:
        global current
        current = self
        self.count = 0
        self.flags = TOP_LEVEL_AWAIT
        self.sources: dict[str, str] = {}
        self.inputs: list[str] = [""]
        self.outputs: dict[int, object] = {}
        self.last_input = ""
        self.recent = ("", "", "")
        self.notebook = None
        self.notebook_state = "unloaded"
        self.event_loop = None
        self.emit = lambda data, metadata, main, display=None: None
        self.clear = lambda wait: None
        self.send_comm = lambda kind, comm_id, target, metadata, parts: None
        self._make_namespace()
        os.environ.setdefault("PLOTLY_RENDERER", PLOTLY_RENDERERS)
        watched = {
            "IPython": self.load_notebook,
            "matplotlib": _choose_figure_backend,
            "matplotlib.axes._axes": _adapt("plots", "accept_labels_in_axes"),
            "matplotlib.pyplot": _adapt("plots", "accept_labels_in_pyplot"),
            "PIL.Image": _adapt("pictures", "show_saved"),
            "PIL.ImageShow": _adapt("pictures", "add_viewer"),
            "linecache": self._fill_linecache,
            "comm": _adapt("comms", "adapt"),
        }
        sys.meta_path[:0] = [interpreter.UserSite(), ImportWatch(watched)]

    def _make_namespace(self) -> None:
        # A real module under the name __main__, so that pickle, dataclasses and
        # forked workers find what cells define.
        module = self.module = type(sys)("__main__")
        sys.modules["__main__"] = module
        self.namespace = module.__dict__
        self.namespace.update(
            __builtins__=builtins, In=self.inputs, Out=self.outputs, _ih=self.inputs, _oh=self.outputs,
            _="", __="", ___="", _i="", _ii="", _iii="",
        )  # fmt: skip
        builtins.display = self._display
        builtins.get_ipython = self._get_ipython

    def run(self, code: str, name: str | None = None) -> None:
        """Runs one cell, under the name of the file it comes from if it has one; raises what its code raises."""
        self._restore()
        if not code.strip():
            return
        self.count += 1
        filename = name or f"Cell In[{self.count}]"
        if name:
            self.namespace["__file__"] = name.rpartition("/")[2]
        self._add_source(filename, code)
        step = self._compile_call(code, filename)
        if step is not None:
            self._begin(code, code)
            self._execute([(step, True)])
            return
        tree, python = self._parse(code, filename)
        self._begin(code, python)
        if self.notebook is not None:
            tree = self.notebook.transform_ast(tree)
        self._execute(self._compile_tree(tree, python, filename))

    def _begin(self, code: str, python: str) -> None:
        self._add_input(code, python)
        if self.notebook is not None:
            self.notebook.cell_begins(code)

    def start_over(self) -> None:
        """Resets the cell count and the history, but not the names that cells defined."""
        for number in range(1, self.count + 1):
            self.namespace.pop(f"_i{number}", None)
        self.namespace.update(_i="", _ii="", _iii="")
        if "linecache" in sys.modules:
            for filename in self.sources:
                sys.modules["linecache"].cache.pop(filename, None)
        self.count = 0
        self.last_input = ""
        self.recent = ("", "", "")
        self.outputs.clear()
        self.sources.clear()
        self.inputs[:] = [""]
        if self.notebook is not None:
            history = self.notebook.history_manager
            history.input_hist_parsed[:] = history.input_hist_raw[:] = [""]
            self.notebook.execution_count = 1

    def finish(self) -> None:
        """Shows the figures that a cell left open, whether or not it failed."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None and helpers.Gcf.figs:
            from silica_guest import figures

            figures.show_all()
        if self.notebook is not None:
            self.notebook.cell_finished()

    def publish(self, data: dict, metadata: object = None) -> None:
        """Shows a bundle, through IPython when loaded so that `%%capture` can catch it."""
        if self.notebook is not None:
            self.notebook.display_pub.publish(data, metadata)
        else:
            self.emit(data, metadata, False)

    def load_notebook(self) -> bool:
        """Switches to the IPython gear; returns False if IPython is missing or fails to load."""
        if self.notebook_state != "unloaded":
            return self.notebook is not None
        self.notebook_state = "loading"
        try:
            from silica_guest import notebook

            self.notebook = notebook.create(self)
        except Exception:  # Without IPython the plain gear goes on, without magics.
            self.notebook_state = "missing"
            return False
        self.notebook_state = "loaded"
        return True

    def run_coroutine(self, coroutine: object) -> object:
        """Runs the coroutine of a cell on the kernel's only event loop, so that its tasks outlive the cell."""
        import asyncio

        if self.event_loop is None or self.event_loop.is_closed():
            self.event_loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.event_loop)
        task = self.event_loop.create_task(coroutine)
        try:
            return self.event_loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            # The loop stopped with the task unfinished; cancel it, as Ctrl-C unwinds synchronous code.
            if not task.done():
                task.cancel()
                self.event_loop.run_until_complete(asyncio.wait([task]))
            raise

    def _restore(self) -> None:
        """Restores the standard streams, which an earlier cell may have closed or made non-blocking."""
        interpreter.restore_streams()
        for fd in (1, 2):
            try:
                # Child processes such as node leave the shared pipe non-blocking.
                os.set_blocking(fd, True)
            except OSError:
                pass  # User code closed it.

    def _parse(self, code: str, filename: str) -> tuple[Module, str]:
        """Returns the tree and the Python code it was parsed from; loads IPython if the code needs it.

        Code that is valid Python skips IPython's translation in both gears.
        """
        customised = self.notebook is not None and self.notebook.is_customised()
        try:
            tree = self._compile(code, filename, "exec", ONLY_AST)
        except SyntaxError:
            if not ((customised or _may_be_magic(code)) and self.load_notebook()):
                raise
        else:
            if not ((customised or self._is_unknown_word(code, tree)) and self.load_notebook()):
                return tree, code
        python = self.notebook.transform_cell(code)
        self._add_source(filename, python)
        return self._compile(python, filename, "exec", ONLY_AST), python

    def _compile(self, source: object, filename: str, mode: str, extra: int = 0):
        return compile(source, filename, mode, self.flags | extra, dont_inherit=True)

    def _is_unknown_word(self, code: str, tree: Module) -> bool:
        """Returns whether a cell like `pwd` or `ls -l`, valid Python, is probably a magic without its `%`."""
        word = code.split(None, 1)[0]
        if len(tree.body) != 1 or type(tree.body[0]) is not Expr or not word.isidentifier() or "\n" in code.strip():
            return False
        return word not in self.namespace and not hasattr(builtins, word) and word not in KEYWORDS

    def _compile_call(self, code: str, filename: str) -> object | None:
        """Compiles a cell that consists of one call without building its tree, which is faster.

        Returns None for any other cell, and if user code has added transformers of the tree.
        """
        name, opening, _ = code.partition("(")
        if not (opening and code[-1] == ")" and name.replace(".", "").isidentifier()) or ";" in code or "\n" in code:
            return None
        if self.notebook is not None and not self.notebook.is_plain():
            return None
        try:
            return self._compile(code, filename, "eval")
        except SyntaxError:
            return None  # `_parse` reports the error.

    def _compile_tree(self, tree: Module, python: str, filename: str) -> list[tuple[object, bool]]:
        """Returns the code objects to run, each with whether its value is shown."""
        interactivity = "last_expr" if self.notebook is None else self.notebook.interactivity()
        if tree.body and _ends_quietly(tree, python):
            interactivity = "none"
        # All parts are compiled before the first runs, so a cell with a SyntaxError has no effect.
        steps = []
        for part in _parts(tree, interactivity):
            step = self._compile(part, filename, "eval" if type(part) is Expression else "exec")
            self.flags |= step.co_flags & FUTURE_FEATURES
            steps.append((step, type(part) is Expression))
        return steps

    def _execute(self, steps: list[tuple[object, bool]]) -> None:
        for step, shown in steps:
            value = eval(step, self.namespace)
            if step.co_flags & CO_COROUTINE:
                value = self.run_coroutine(value)
            if shown and value is not None:
                self._show(value)

    def _show(self, value: object) -> None:
        data, metadata = self._bundle(value)
        self._add_output(value)
        if data:
            self.emit(data, metadata, True)

    def _bundle(self, value: object) -> tuple[dict, object]:
        if self.notebook is None:
            text = bundles.plain_text(value)
            if text is not None:
                return {"text/plain": text}, {}
            if not self.load_notebook():
                return {"text/plain": repr(value)}, {}
        return self.notebook.display_formatter.format(value)

    def _display(self, *values: object, **options: object) -> object:
        """Implements the builtin `display` until IPython is loaded and replaces it."""
        if self.notebook is None and not options:
            texts = [bundles.plain_text(value) for value in values]
            if None not in texts:
                for text in texts:
                    self.emit({"text/plain": text}, {}, False)
                return None
        if self.load_notebook():
            from IPython.display import display

            return display(*values, **options)
        for value in values:
            self.emit({"text/plain": repr(value)}, {}, False)
        return None

    def _get_ipython(self) -> object:
        """Implements the builtin `get_ipython`: loads IPython and returns its shell, or None."""
        self.load_notebook()
        return self.notebook

    def _add_source(self, filename: str, code: str) -> None:
        self.sources[filename] = code
        if "linecache" in sys.modules:
            self._fill_linecache(filename)

    def _fill_linecache(self, *filenames: str) -> None:
        """Adds the sources of cells to linecache, for tracebacks, warnings and inspect."""
        cache = sys.modules["linecache"].cache
        for filename in filenames or self.sources:
            code = self.sources[filename]
            code += "" if code.endswith("\n") else "\n"
            cache[filename] = (len(code), None, code.splitlines(True), filename)

    def _add_input(self, raw: str, python: str) -> None:
        self.inputs.append(python)
        space = self.namespace
        # `_i` is the previous input, while `_iN` includes this one.
        space["_iii"], space["_ii"], space["_i"] = space.get("_ii", ""), space.get("_i", ""), self.last_input
        self.last_input = raw
        space[f"_i{self.count}"] = raw

    def _add_output(self, value: object) -> None:
        """Keeps a shown value in `Out`, and in `_`, `__` and `___` unless user code assigned those names."""
        space = self.namespace
        names = ("_", "__", "___")
        if all(space.get(name, old) is old for name, old in zip(names, self.recent)) and not hasattr(builtins, "_"):
            self.recent = (value, *self.recent[:2])
            space.update(zip(names, self.recent))
        if value is self.outputs:
            return
        while len(self.outputs) >= OUTPUTS_MAX:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            space.pop(f"_{oldest}", None)
        self.outputs[self.count] = space[f"_{self.count}"] = value


def _may_be_magic(code: str) -> bool:
    """Returns whether code that is not valid Python may be IPython's; a wrong guess only costs time."""
    stripped = code.strip()
    if code[0] in " \t\n" or any(sign in code for sign in "%!?") or stripped.startswith((">>>", "In [")):
        return True
    # Magics without their percent sign, as in `pip install x`, work only on a single line.
    return "\n" not in stripped and (stripped[0] in "/,;" or stripped.split()[0].isidentifier())


def _parts(tree: Module, interactivity: str):
    """Yields modules to execute and expressions to show, in the order of the tree."""
    pending = []
    for index, node in enumerate(tree.body):
        last = index == len(tree.body) - 1
        if type(node) is Expr and (interactivity == "all" or (last and interactivity != "none")):
            if pending:
                yield Module(pending, [])
                pending = []
            yield Expression(node.value)
        else:
            pending.append(node)
    if pending:
        yield Module(pending, [])


def _ends_quietly(tree: Module, python: str) -> bool:
    """Returns whether a semicolon follows the last expression.

    Only brackets, semicolons and comments can follow its end.
    """
    last = tree.body[-1]
    if type(last) is not Expr or ";" not in python:
        return False
    lines = python.encode("utf-8", "surrogatepass").splitlines()[last.end_lineno - 1 :]
    lines[0] = lines[0][last.end_col_offset :]
    return any(b";" in line.split(b"#")[0] for line in lines)


def _choose_figure_backend() -> None:
    """Makes `figures` matplotlib's default backend, unless MPLBACKEND names another."""
    if not os.environ.get("MPLBACKEND"):
        sys.modules["matplotlib"].rcParams["backend"] = FIGURE_BACKEND


def _adapt(module: str, function: str) -> Callable[[], None]:
    """Returns a callback that imports a module of this package when it is called."""

    def callback() -> None:
        # Not `importlib.import_module`, which a fresh interpreter would have to load first.
        getattr(__import__(f"silica_guest.{module}", fromlist=[module]), function)()

    return callback
