"""What cells show: the same table against both gears."""

import pytest
from host import Host, texts

OK = "ok"
RAISED = "raised"
CELLS = [
    ("print(1)", [("out", "1\n")], OK),
    ("1 + 1", [("main", "2")], OK),
    ("'a\\nb'", [("main", "'a\\nb'")], OK),
    ("b'x'", [("main", "b'x'")], OK),
    ("None", [], OK),
    ("", [], OK),
    ("# only a comment", [], OK),
    ("1;", [], OK),
    ("(1) ;  # quiet", [], OK),
    ("'a;b'", [("main", "'a;b'")], OK),
    ("x = 5\nx", [("main", "5")], OK),
    ("y = 5", [], OK),
    ("[1, (2.5, None), {'k': True}]", [("main", "[1, (2.5, None), {'k': True}]")], OK),
    ("{3, 1, 2}", [("main", "{1, 2, 3}")], OK),
    ("list(range(30))[:3], int", [("main", "([0, 1, 2], int)")], OK),
    ("print('a'); 2", [("out", "a\n"), ("main", "2")], OK),
    ("if True:\n    3", [], OK),
    ("x = 'é\\udc80'; print(x)", [("out", "é\\udc80\n")], OK),
    ("display(1, 'two')", [("display", "1"), ("display", "'two'")], OK),
    ("for i in range(2):\n    print(i); display(i)", [("out", "0\n"), ("display", "0"), ("out", "1\n"), ("display", "1")], OK),
    ("import sys\nprint('e', file=sys.stderr)", [("err", "e\n")], OK),
    ("__name__", [("main", "'__main__'")], OK),
    ("input()", [("error", "EOFError")], RAISED),
    ("1/0", [("error", "ZeroDivisionError")], RAISED),
    ("2\n1/0", [("error", "ZeroDivisionError")], RAISED),
    ("1 +", [("error", "SyntaxError")], RAISED),
    ("print(1)\nreturn 3", [("error", "SyntaxError")], RAISED),
    ("undefined_name", [("error", "NameError")], RAISED),
    ("class E(BaseException): pass\nraise E('x')", [("error", "E")], RAISED),
    ("raise SystemExit", [], "exited"),
    ("import asyncio\nawait asyncio.sleep(0)\n7", [("main", "7")], OK),
    ("async def f():\n    return 8\nawait f()", [("main", "8")], OK),
    ("[i async for i in __import__('contextlib').AsyncExitStack()]", [("error", "TypeError")], RAISED),
    ("from __future__ import annotations", [], OK),
    ("def g(x: not_defined): ...\ng.__annotations__", [("main", "{'x': 'not_defined'}")], OK),
    ("!echo shell", [("out", "shell\n")], OK),
    ("a = !echo caught\na[0]", [("main", "'caught'")], OK),
    ("%%bash\necho bash; echo err >&2", None, OK),
    ("%matplotlib inline", [], OK),
    ("%config InlineBackend.figure_format = 'retina'", [], OK),
    ("get_ipython().__class__.__name__", [("main", "'NotebookShell'")], OK),
    ("pwd_is = 1\nimport os; os.getcwd() == get_ipython().run_line_magic('pwd', '')", [("main", "True")], OK),
    ("%%capture c\nprint('x')\ndisplay(1)", [], OK),
    ("c.stdout", [("main", "'x\\n'")], OK),
    ("from IPython.display import display as d, HTML\nd(HTML('<b>'))", None, OK),
    ("import dataclasses, pickle\n@dataclasses.dataclass\nclass P:\n    x: int = 1\npickle.loads(pickle.dumps(P()))", [("main", "P(x=1)")], OK),
    ("class R:\n    def __repr__(self): return 'R!'\nR()", [("main", "R!")], OK),
    ("import inspect\ndef h():\n    return 1  # here\n'# here' in inspect.getsource(h)", [("main", "True")], OK),
    ("import subprocess\nsubprocess.run(['echo', 'child']).returncode", [("out", "child\n"), ("main", "0")], OK),
    ("import os\nprint('first'); os.system('echo second'); print('third')", [("out", "first\nsecond\nthird\n")], OK),
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected", "status"), CELLS, ids=[repr(cell[0])[:40] for cell in CELLS])
def test_table(shared, code, expected, status):
    events, done = shared.run(code)
    assert done["status"] == status, events
    if expected is not None:
        assert texts(events) == expected


@pytest.mark.parametrize("gear", ["plain", "ipython"])
def test_cell_that_is_one_call(gear):
    with Host(gear) as host:
        host.run("import asyncio\nasync def later(n):\n    return n")
        for code, expected in (
            ("int('7')", [("main", "7")]),
            ("print('a')", [("out", "a\n")]),
            ("int('7');", []),
            ("max(await later(3), 2)", [("main", "3")]),
            ("int('7') if True else (0)", [("main", "7")]),
            ("int('x')", [("error", "ValueError")]),
            ("int(7", [("error", "SyntaxError")]),
            ("int(7) int(8)", [("error", "SyntaxError")]),
            ("int(7)  # (8)", [("main", "7")]),
        ):
            assert texts(host.run(code)[0]) == expected, code
        assert texts(host.run("(_, In[-2], _i)")[0]) == [("main", "(7, 'int(7)  # (8)', 'int(7)  # (8)')")]


def test_call_is_seen_by_whoever_changes_trees(host):
    host.run(
        "import ast\nclass Double(ast.NodeTransformer):\n    def visit_Constant(self, node):\n"
        "        return ast.Constant(node.value * 2)\nget_ipython().ast_transformers.append(Double())"
    )
    assert texts(host.run("int(4)")[0]) == [("main", "8")]
    host.run("get_ipython().ast_transformers.clear()")
    host.run("get_ipython().ast_node_interactivity = 'none'")
    assert texts(host.run("int(4)")[0]) == []


def test_history_variables(host):
    for code in ("10", "20", "30"):
        host.run(code)
    assert texts(host.run("(_, __, ___, _1, Out[2], In[1], _i)")[0]) == [("main", "(30, 20, 10, 10, 20, '10', '30')")]
    host.run("_ = 'mine'")
    assert texts(host.run("len(In) - 1")[0]) == [("main", "6")]
    host.run("99")
    assert texts(host.run("_")[0]) == [("main", "'mine'")]


def test_history_survives_the_change_of_gear():
    with Host("plain") as host:
        host.run("41 + 1")
        host.run("x = _")
        assert texts(host.run("'IPython' in __import__('sys').modules")[0]) == [("main", "False")]
        events, _ = host.run("get_ipython(); (_, Out[1], x, len(In), get_ipython().execution_count)")
        assert texts(events) == [("main", "(False, 42, 42, 5, 4)")]


def test_plain_gear_without_ipython():
    with Host("plain", site=False) as host:
        assert texts(host.run("{3, 1}, int")[0]) == [("main", "({1, 3}, <class 'int'>)")]
        assert texts(host.run("%time 1")[0]) == [("error", "SyntaxError")]
        assert texts(host.run("display({1})")[0]) == [("display", "{1}")]
        assert texts(host.run("get_ipython() is None")[0]) == [("main", "True")]


def test_traceback_text(host):
    host.run("def f(n):\n    return 1 / n")
    error = host.run("try:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")[0][0][1]
    lines = [line for line in error["traceback"] if not line or not set(line) <= set(" ^~")]
    assert lines == [
        "Traceback (most recent call last):",
        "  Cell In[2], line 2",
        "    f(0)",
        "  Cell In[1], line 2, in f",
        "    return 1 / n",
        "ZeroDivisionError: division by zero",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        "  Cell In[2], line 4",
        "    raise KeyError('k') from e",
        "KeyError: 'k'",
    ]
    assert (error["name"], error["value"]) == ("KeyError", "'k'")
    syntax = host.run("a = 1\nb = = 2")[0][0][1]
    assert syntax["traceback"][:2] == ["  Cell In[3], line 2", "    b = = 2"] and "^" in syntax["traceback"][2]


def test_await_traceback_has_no_frames_of_ours(host):
    error = host.run("async def f():\n    1/0\nawait f()")[0][0][1]
    assert error["traceback"][1].strip() == "Cell In[1], line 3" and "asyncio" not in "".join(error["traceback"])


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E"),
        ("class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise E", "E"),
        ("class E(Exception):\n    def __repr__(self): 1/0\n    __str__ = __repr__\nraise E from E()", "E"),
        ("def f(): f()\nf()", "RecursionError"),
        ("raise ValueError('x' * 10_000_000)", "ValueError"),
        ("raise ValueError('\\x00\\udc80' * 1_000_000)", "ValueError"),
        ("e = ValueError()\nfor i in range(3000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e", "ValueError"),
        ("raise ExceptionGroup('g', [ValueError(1), KeyError(2)])", None),
        ("exec('(' * 100000)", None),
    ],
)
def test_hostile_exceptions(shared, code, name):
    events, done = shared.run(code)
    assert done["status"] == "raised"
    error = events[-1][1]
    assert name in (None, error["name"])
    assert len(error["value"].encode()) <= 64 << 10 and len(error["traceback"]) <= 401
    assert texts(shared.run("1")[0]) == [("main", "1")]


@pytest.mark.parametrize(
    ("code", "exit_code", "shown"),
    [
        ("raise SystemExit", 0, []),
        ("exit()", 0, []),
        ("quit(7)", 7, []),
        ("import sys; sys.exit(True)", 1, []),
        ("import sys; sys.exit('bye')", 1, [("err", "bye\n")]),
        ("raise SystemExit(300)", 44, []),
    ],
)
def test_exit_forms(shared, code, exit_code, shown):
    events, done = shared.run(code)
    assert (done["status"], done["exit_code"], texts(events)) == ("exited", exit_code, shown)


def test_background_task_resumes(host):
    host.run("import asyncio\nseen = []\nasync def w():\n    await asyncio.sleep(0.01); seen.append(1)\nasync def go():\n    return asyncio.create_task(w())\nt = await go()")
    assert texts(host.run("await asyncio.sleep(0.1)\nseen")[0]) == [("main", "[1]")]


def test_ast_interactivity_all(host):
    host.run("get_ipython().ast_node_interactivity = 'all'")
    assert texts(host.run("1\n2")[0]) == [("main", "1"), ("main", "2")]


def test_variables_for_one_cell(host):
    host.send({"type": "setup", "env": {"KEPT": "old"}})
    show = "import os; os.environ.get('KEPT'), os.environ.get('LENT')"
    assert texts(host.run(show, env={"KEPT": "new", "LENT": "x"})[0]) == [("main", "('new', 'x')")]
    assert texts(host.run(show)[0]) == [("main", "('old', None)")]
    host.run("import os; os.environ['LENT'] = 'mine'; 1 / 0", env={"LENT": "x"})
    assert texts(host.run(show)[0]) == [("main", "('old', None)")]


def test_automagic(host, tmp_path):
    host.send({"type": "setup", "env": {"A_B": "c"}, "argv": ["x", "y"], "cwd": str(tmp_path)})
    (tmp_path / "file").touch()
    assert texts(host.run("pwd")[0]) == [("main", repr(str(tmp_path)))]
    assert "file" in texts(host.run("ls -l")[0])[0][1]
    assert texts(host.run("import os, sys; os.environ['A_B'], sys.argv")[0]) == [("main", "('c', ['x', 'y'])")]
    assert not [name for name in eval(texts(host.run("list(os.environ)")[0])[0][1]) if name.startswith("SILICA")]
