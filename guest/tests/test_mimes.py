"""Every MIME type a result can have, the libraries that make them, and objects that mean harm."""

import pytest
from host import strict, texts

PNG = "bytes.fromhex('89504e470d0a1a0a')"
SHOW = "from IPython.display import *\n"


def bundle(host, code: str) -> dict:
    """Runs a cell with one result; returns its payloads."""
    events, done = host.run(code)
    shown = [data for kind, data in events if kind in ("main", "display")]
    assert done["status"] == "ok" and len(shown) == 1, events
    return shown[0]


TYPES = [
    ("1", "text/plain", b"1"),
    ("HTML('<b>é</b>')", "text/html", "<b>é</b>".encode()),
    ("Markdown('# x')", "text/markdown", b"# x"),
    ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
    (f"Image({PNG}, format='png')", "image/png", b"\x89PNG\r\n\x1a\n"),
    ("Image(b'\\xff\\xd8\\xff', format='jpeg')", "image/jpeg", b"\xff\xd8\xff"),
    ("type('P', (), {'_repr_pdf_': lambda self: b'%PDF-1.4\\xff'})()", "application/pdf", b"%PDF-1.4\xff"),
    ("Latex('$x$')", "text/latex", b"$x$"),
    ("Math('x')", "text/latex", rb"$\displaystyle x$"),
    ("JSON({'a': [1, None]})", "application/json", b'{"a":[1,null]}'),
    ("Javascript('alert(1)')", "application/javascript", b"alert(1)"),
]


@pytest.mark.parametrize("code, mime, body", TYPES, ids=[mime for _, mime, _ in TYPES])
def test_type(shared, code, mime, body):
    assert bundle(shared, SHOW + code)[mime] == body


# What is published, and what arrives of it.
RAW = [
    ("'application/pdf': 'JVBERg=='", {"application/pdf": b"%PDF"}),
    ("'audio/wav': 'AAE='", {"audio/wav": b"\0\1"}),
    ("'application/octet-stream': b'\\xff'", {"application/octet-stream": b"\xff"}),
    ("'image/png': 'not base 64', 'a/b': 'x'", {"a/b": b"x"}),
    ("'image/png': 7, 'a/b': 'x'", {"a/b": b"x"}),
    ("'a/b': bytearray(b'a\\xff')", {"a/b": b"a\\xff"}),
    ("'a/b': '\\udc80'", {"a/b": b"\\udc80"}),
    ("'a/b': {'k': 1}", {"a/b": b'{"k":1}'}),
    ("'text/html': 'h', 'text/plain': 'p'", {"text/plain": b"p", "text/html": b"h"}),
    ("'a/é': 1, 'a b': 2, 'a\\nb': 3, '': 4, 5: 6, 'x' * 256: 7, 'a/b': 'x'", {"a/b": b"x"}),
    ("'application/json': '{\"a\": NaN, \"é\": 1}'", {"application/json": b'{"a":null,"\\u00e9":1}'}),
    ("'application/json': 'no JSON'", {"application/json": b'"no JSON"'}),
    ("'application/json': b'[1]'", {"application/json": b"[1]"}),
    ("'a/b+json': '\\udc80'", {"a/b+json": b'"?"'}),
    ("'a/b+json': [float('nan'), float('inf'), '\\U0001f600\\u2028']", {"a/b+json": b'[null,null,"\\ud83d\\ude00\\u2028"]'}),
    ("'a/b+json': {1: {2.5: {None: {True: 1}}}}", {"a/b+json": b'{"1":{"2.5":{"null":{"true":1}}}}'}),
    ("'a/b+json': [10**5000, 2**70]", {"a/b+json": b'["<int>","1180591620717411303424"]'}),
    ("'a/b+json': (lambda a: a.append(a) or a)([float('nan')])", {"a/b+json": b'[null,"<list>"]'}),
    ("'a/b+json': [{1, 2}, 1j, b'x']", {"a/b+json": b'[[1,2],"1j","x"]'}),
]


@pytest.mark.parametrize("code, expected", RAW)
def test_published(shared, code, expected):
    found = bundle(shared, f"display({{{code}}}, raw=True)")
    assert found == expected and list(found) == list(expected)


HOSTILE = {
    "cycle": "a = [float('nan')]; a += [a] * 3\ndisplay({'text/plain': 'p', 'application/json': a}, raw=True)",
    "depth": "a = []\nfor _ in range(100_000): a = [a]\ndisplay({'text/plain': 'p', 'application/json': a}, raw=True)",
    "size": "display({'text/plain': 'p', 'application/json': {1j: [float('nan')] * 3_000_000}}, raw=True)",
    "dict": "class D(dict):\n    def items(self): 1/0\n    __iter__ = keys = items\ndisplay({'text/plain': 'p', 'a/b+json': D(a=1)}, raw=True)",
    "buffer": "class B(bytes):\n    def __len__(self): 1/0\ndisplay({'text/plain': 'p', 'image/png': 1j}, raw=True)",
    "metadata": "class D(dict):\n    def items(self): 1/0\ndisplay({'text/plain': 'p'}, metadata={'a': D(b=1)}, raw=True)",
    "text": "class S(str):\n    def encode(self, *a): 1/0\ndisplay({'text/plain': 'p', 'text/html': S('x')}, raw=True)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_spoils_nothing_else(shared, name):
    assert bundle(shared, HOSTILE[name])["text/plain"] == b"p"
    assert texts(shared.run("1")[0]) == [("main", "1")]


def test_huge_html_is_left_out(host):
    events, done = host.run("class H:\n    def _repr_html_(self): return 'x' * 100_000_000\n    def __repr__(self): return 'h'\nH()")
    assert events == [("main", {"text/plain": b"h"})] and done["results_too_large"] == 1
    events, done = host.run("class H:\n    def _repr_html_(self): return 'x' * 100_000_000\n    def __repr__(self): 1/0\nH()")
    assert done["status"] == "ok" and done["results_too_large"] == 1 and [kind for kind, _ in events] == ["err"]


def test_plotly(shared):
    pytest.importorskip("nbformat", reason="plotly refuses to render without it")
    found = bundle(shared, "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1, None, float('nan')], name='é'))")
    assert sorted(found) == ["application/vnd.plotly.v1+json", "text/html"]
    figure = strict(found["application/vnd.plotly.v1+json"])
    assert figure["data"][0]["type"] == "scatter" and figure["data"][0]["name"] == "é"
    # It names the library by address and does not carry it.
    assert b"https://cdn.plot.ly/plotly" in found["text/html"] and len(found["text/html"]) < 100_000


def test_sympy(shared):
    found = bundle(shared, "import sympy\nsympy.Symbol('x') ** 2")
    assert found == {"text/plain": b"x**2", "text/latex": rb"$\displaystyle x^{2}$"}


def test_pillow(shared):
    found = bundle(shared, "from PIL import Image\nImage.new('RGB', (2, 2))")
    assert found["image/png"].startswith(b"\x89PNG") and "image/jpeg" not in found


def test_bokeh(shared):
    start = "from bokeh.plotting import figure, show\nfrom bokeh.io import output_notebook\noutput_notebook(hide_banner=True)"
    assert "application/vnd.bokehjs_load.v0+json" in bundle(shared, start)
    events, _ = shared.run("p = figure(); p.line([1, 2], [3, 4]); show(p)")
    (_, place), (_, drawing) = events
    # The drawing finds its place in the page by what the metadata says.
    assert b"<div" in place["text/html"] and b"Bokeh" in drawing["application/javascript"]
    assert shared.metadata["application/vnd.bokehjs_exec.v0+json"]["id"]


def test_seaborn(shared):
    found = bundle(shared, "import seaborn as sns, pandas as pd\nsns.barplot(x=['a', 'b', 'a'], y=[1, 2, 3]);")
    elements = strict(found["application/vnd.silica.chart+json"])["elements"]
    assert elements == [{"label": "a", "group": "Group 0", "value": 2.0}, {"label": "b", "group": "Group 0", "value": 2.0}]


def test_capture_and_show_again(shared):
    assert shared.run("%%capture c\nimport pandas as pd\ndisplay(pd.DataFrame({'a': [1]}))")[0] == []
    assert strict(bundle(shared, "c.show()")["application/vnd.silica.data+json"]) == {"a": [1]}
