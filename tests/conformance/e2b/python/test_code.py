"""Code: results, output, errors, contexts, variables; and clients that go away."""

from __future__ import annotations

import base64
import threading

import pytest
from e2b.exceptions import (
    NotFoundException,
    SandboxException,
    TimeoutException,
)


def test_results_and_output_in_order(sandbox):
    said = []
    code = """
import sys
print("one")
display("shown")
print("two", file=sys.stderr)
display("again")
print("three")
6 * 7
"""
    execution = sandbox.run_code(
        code,
        on_stdout=lambda message: said.append(("out", message.line, message.error, bool(message.timestamp))),
        on_stderr=lambda message: said.append(("err", message.line, message.error, bool(message.timestamp))),
        on_result=lambda result: said.append(("result", result.text, result.is_main_result)),
        on_error=lambda error: said.append(("error", error.name)),
    )
    assert said == [
        ("out", "one\n", False, True),
        ("result", "shown", False),
        ("err", "two\n", True, True),
        ("result", "again", False),
        ("out", "three\n", False, True),
        ("result", "42", True),
    ]
    assert execution.text == "42"
    assert execution.logs.stdout == ["one\n", "three\n"]
    assert execution.logs.stderr == ["two\n"]
    assert execution.execution_count == 1
    assert sandbox.run_code("1").execution_count == 2
    assert execution.error is None


def test_output_comes_while_the_code_runs(sandbox):
    told = threading.Event()
    code = "import pathlib, time\nprint('first', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n'end'"
    done = []

    def run() -> None:
        done.append(sandbox.run_code(code, on_stdout=lambda message: told.set()))

    thread = threading.Thread(target=run)
    thread.start()
    # It goes on only when what it printed has arrived here.
    assert told.wait(60)
    sandbox.files.write("go", "")
    thread.join(60)
    assert done[0].text == "end"


def test_exceptions(sandbox):
    execution = sandbox.run_code("def f():\n    return 1 / 0\nf()")
    assert execution.error.name == "ZeroDivisionError"
    assert execution.error.value == "division by zero"
    assert "return 1 / 0" in execution.error.traceback and "Traceback" in execution.error.traceback
    assert execution.results == [] and execution.text is None
    assert sandbox.run_code("def (").error.name == "SyntaxError"
    assert sandbox.run_code("1").error is None


def test_every_character_arrives(sandbox):
    text = "ä € 😀 \x85 \u2028 \u2029 \x1b[0m 漢字 \" \\ \t"
    execution = sandbox.run_code(f"print({text!r}); {text!r} * 2000")
    assert execution.logs.stdout == [text + "\n"]
    many = sandbox.run_code(f"print({text!r} * 5000)")
    assert "".join(many.logs.stdout) == text * 5000 + "\n"


def test_every_kind_of_result(sandbox):
    shown = {
        "html": ("text/html", "<b>x</b>"),
        "markdown": ("text/markdown", "**x**"),
        "svg": ("image/svg+xml", "<svg/>"),
        "latex": ("text/latex", "$x$"),
        "javascript": ("application/javascript", "1"),
        "json": ("application/json", {"a": [1, None]}),
    }
    for key, (mime, value) in shown.items():
        result = sandbox.run_code(f"display({{{mime!r}: {value!r}}}, raw=True)").results[0]
        assert getattr(result, key) == value, key
        assert key in result.formats()
    png = sandbox.run_code("from PIL import Image; Image.new('RGB', (2, 3))").results[0].png
    assert base64.b64decode(png).startswith(b"\x89PNG")
    extra = sandbox.run_code("display({'my/type': 'x', 'text/plain': 'y'}, raw=True)").results[0]
    assert (extra.text, extra.extra) == ("y", {"my/type": "x"})
    assert sandbox.run_code("'text'").text == "text"
    assert sandbox.run_code("[1, 'a']").text == "[1, 'a']"


def test_tables_are_data(sandbox):
    code = "import pandas as pd\npd.DataFrame({'city': ['Brno', 'Oslo'], 'n': [1, 2.5]})"
    result = sandbox.run_code(code).results[0]
    assert result.data == {"city": ["Brno", "Oslo"], "n": [1, 2.5]}
    assert "<table" in result.html and "Brno" in result.text


CHARTS = {
    "line": "plt.plot([1, 2, 3], [4, 5, 6], label='a')",
    "scatter": "plt.scatter([1, 2, 3], [4, 5, 6], label='a')",
    "bar": "plt.bar(['x', 'y'], [1, 2])",
    "pie": "plt.pie([1, 3], labels=['x', 'y'])",
    "box_and_whisker": "plt.boxplot([[1, 2, 3, 4, 10], [1, 2, 2, 3, 3]], tick_labels=['p', 'q'])",
    "superchart": "f, (l, r) = plt.subplots(1, 2); l.plot([1, 2], [3, 4]); r.bar(['x'], [1])",
    "unknown": "plt.imshow([[1, 2], [3, 4]])",
}


@pytest.mark.parametrize("kind", CHARTS)
def test_charts_are_data(sandbox, kind):
    title = "" if kind == "superchart" else "plt.title('Title'); plt.xlabel('x (s)'); plt.ylabel('y')"
    code = f"import matplotlib.pyplot as plt\nplt.figure()\n{CHARTS[kind]}\n{title}\nplt.show()"
    execution = sandbox.run_code(code)
    assert execution.error is None
    result = next(result for result in execution.results if result.chart)
    chart = result.chart
    assert base64.b64decode(result.png).startswith(b"\x89PNG")
    assert chart.type.value == kind
    if kind in ("line", "scatter"):
        assert chart.title == "Title" and chart.x_unit == "s" and chart.x_scale.value == "linear"
        assert chart.elements[0].label == "a"
        assert [tuple(point) for point in chart.elements[0].points] == [(1, 4), (2, 5), (3, 6)]
    elif kind == "bar":
        assert [(bar.label, bar.value) for bar in chart.elements] == [("x", 1), ("y", 2)]
    elif kind == "pie":
        assert [(part.label, round(part.angle)) for part in chart.elements] == [("x", 90), ("y", 270)]
    elif kind == "box_and_whisker":
        assert [(box.label, box.median) for box in chart.elements] == [("p", 3), ("q", 2)]
        assert chart.elements[0].outliers == [10]
    elif kind == "superchart":
        assert [one.type.value for one in chart.elements] == ["line", "bar"]


def test_variables_for_one_run(sandbox):
    show = "import os; print(os.environ.get('Q'))"
    assert sandbox.run_code(show, envs={"Q": "a 'b' \"c\" ä"}).logs.stdout == ["a 'b' \"c\" ä\n"]
    assert sandbox.run_code(show).logs.stdout == ["None\n"]


def test_languages(sandbox):
    assert sandbox.run_code("1 + 1", language="python").text == "2"
    for language in ("javascript", "r", "bash"):
        with pytest.raises(SandboxException, match="not supported"):
            sandbox.run_code("1", language=language)
        with pytest.raises(SandboxException, match="not supported"):
            sandbox.create_code_context(language=language)


def test_contexts_have_their_own_variables(sandbox):
    context = sandbox.create_code_context(cwd="/tmp", language="python")
    assert (context.language, context.cwd) == ("python", "/tmp")
    sandbox.run_code("x = 1")
    sandbox.run_code("x = 2", context=context)
    assert sandbox.run_code("x").text == "1"
    assert sandbox.run_code("x", context=context).text == "2"
    assert sandbox.run_code("import os; os.getcwd()", context=context).text == "/tmp"
    with pytest.raises(Exception, match="(?i)both|only one|provide"):
        sandbox.run_code("1", language="python", context=context)


def test_contexts_are_listed_restarted_and_removed(sandbox):
    context = sandbox.create_code_context()
    listed = sandbox.list_code_contexts()
    assert len(listed) == 2 and context.id in [one.id for one in listed]
    assert {one.cwd for one in listed} == {"/home/user"}
    sandbox.run_code("x = 1", context=context)
    sandbox.restart_code_context(context)
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    assert sandbox.run_code("1", context=context).execution_count == 2
    sandbox.remove_code_context(context)
    assert len(sandbox.list_code_contexts()) == 1
    with pytest.raises(NotFoundException):
        sandbox.run_code("1", context=context)
    for act in (sandbox.restart_code_context, sandbox.remove_code_context):
        with pytest.raises(NotFoundException):
            act("no such context")


def test_a_restart_ends_what_runs(sandbox):
    context = sandbox.create_code_context()
    begun, done = threading.Event(), []
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"

    def run() -> None:
        done.append(sandbox.run_code(code, context=context, on_stdout=lambda message: begun.set()))

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    sandbox.restart_code_context(context)
    thread.join(60)
    assert done[0].error.name == "ContextRestarting"
    assert done[0].error.value == "Context was restarted"
    assert sandbox.run_code("1 + 1", context=context).text == "2"


def test_code_is_interrupted_when_its_client_leaves(sandbox):
    code = "import time\nwhile True: time.sleep(0.01)"
    with pytest.raises(TimeoutException):
        sandbox.run_code(code, timeout=1)
    # The same interpreter is free again, with what it had.
    assert sandbox.run_code("time.sleep(0); 'free'", timeout=60).text == "free"


def test_an_interpreter_that_dies_is_replaced(sandbox):
    execution = sandbox.run_code("import os, signal\nprint('last', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert execution.logs.stdout == ["last\n"]
    assert execution.error.name == "ContextRestarting"
    assert sandbox.run_code("1 + 1").text == "2"


def test_code_of_a_killed_sandbox(sandbox):
    sandbox.kill()
    with pytest.raises(TimeoutException):
        sandbox.run_code("1")
    with pytest.raises((TimeoutException, SandboxException)):
        sandbox.list_code_contexts()


def test_code_that_runs_when_its_sandbox_is_killed(api, sandbox):
    begun, raised = threading.Event(), []
    code = "import time\nprint('begun', flush=True)\ntime.sleep(600)"

    def run() -> None:
        try:
            sandbox.run_code(code, on_stdout=lambda message: begun.set())
        except Exception as error:  # noqa: BLE001 - which one it is, is looked at below.
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    assert api.kill(sandbox.sandbox_id)
    thread.join(60)
    assert raised, "it ended as if nothing had happened"
