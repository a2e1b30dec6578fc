"""Rich results: bundles, figures, limits and their order with output."""

import pytest
from host import texts

PNG = b"\x89PNG"


def test_dataframe(host):
    events, _ = host.run("import pandas as pd\npd.DataFrame({'a': [1]})")
    assert list(events[0][1]) == ["text/plain", "application/vnd.silica.data+json", "text/html"]
    assert b"<table" in events[0][1]["text/html"]


def test_mimebundle_and_metadata(host):
    code = "class M:\n    def _repr_mimebundle_(self, **k): return {'text/plain': 'p', 'application/json': {'a': [1]}, 'image/png': 'iVBORw=='}\nM()"
    data = host.run(code)[0][0][1]
    assert data == {"text/plain": b"p", "application/json": b'{"a":[1]}', "image/png": PNG}


def test_broken_reprs_do_not_kill(host):
    code = "class B:\n    def _repr_html_(self): 1/0\n    def __repr__(self): return 'b'\nB()"
    events, done = host.run(code)
    assert done["status"] == "ok" and ("main", "b") in texts(events)
    assert any(kind == "err" and b"ZeroDivisionError" in data for kind, data in events)
    _, done = host.run("class C:\n    def __repr__(self): 1/0\nC()")
    assert texts(host.run("1")[0]) == [("main", "1")]


def test_limits(host):
    events, done = host.run("for i in range(5): display(i)", results_max=3)
    assert texts(events) == [("display", "0"), ("display", "1"), ("display", "2")] and done["results_dropped"] == 2
    _, done = host.run("'x' * 1000", result_bytes_max=500)
    assert done["results_too_large"] == 1 and done["status"] == "ok"
    code = "display({'text/plain': 'small', 'text/html': 'x' * 1000}, raw=True)"
    events, done = host.run(code, result_bytes_max=500)
    assert events == [("display", {"text/plain": b"small"})] and done["results_too_large"] == 1
    events, done = host.run("'x' * 20_000_000", result_bytes_max=1 << 40)
    assert len(events[0][1]["text/plain"]) == 20_000_002


def test_output_stays_before_its_result(host):
    code = "for i in range(20):\n    print('x' * 5000 + str(i)); display(i)"
    events, _ = host.run(code)
    assert [kind for kind, _ in events] == ["out", "display"] * 20


def test_figures(host):
    two = "import matplotlib.pyplot as plt\nplt.figure(); plt.plot([1])\nplt.figure(); plt.plot([2]);"
    events, _ = host.run(two)
    assert [kind for kind, _ in events] == ["display"] * 2
    assert all(data["image/png"].startswith(PNG) and data["text/plain"].startswith(b"<Figure") for _, data in events)
    events, _ = host.run("print('a'); plt.plot([1]); plt.show(); print('b')")
    assert [kind for kind, _ in events] == ["out", "display", "out"]
    events, _ = host.run("fig, ax = plt.subplots()\nfig")
    assert [kind for kind, _ in events] == ["main"] and events[0][1]["image/png"].startswith(PNG)
    events, _ = host.run("plt.plot([1])\n1/0")
    assert [kind for kind, _ in events] == ["display", "error"]
    events, _ = host.run("plt.title('$\\\\bad{$')\nplt.plot([1]);")
    assert events[-1][0] == "error"
    assert host.run("1")[0] == [("main", {"text/plain": b"1"})]
    events, _ = host.run("%matplotlib inline\nplt.plot([1]);")
    assert [kind for kind, _ in events] == ["display"]
    events, _ = host.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import matplotlib.pyplot']).returncode")
    assert texts(events) == [("main", "0")]


@pytest.mark.parametrize("code", ["fig", "fig.show()"])
def test_plotly(host, code):
    pytest.importorskip("nbformat", reason="plotly refuses to render without it")
    events, done = host.run("import plotly.graph_objects as go\nfig = go.Figure(go.Bar(y=[1]))\n" + code)
    assert done["status"] == "ok", events
    assert any("application/vnd.plotly.v1+json" in data for _, data in events)


def test_display_from_thread(host):
    code = "import threading, time\nts = [threading.Thread(target=display, args=(i,)) for i in range(20)]\n[t.start() for t in ts]; [t.join() for t in ts];"
    events, done = host.run(code)
    assert sorted(texts(events)) == sorted(("display", str(i)) for i in range(20))
    late = "def late():\n    time.sleep(0.2); display(1); print('late')\nthreading.Thread(target=late).start()"
    assert host.run(late)[0] == []
    events = []
    while not events:
        host.step(events)
    assert texts(events) == [("out", "late\n")] and host.run("2")[1]["status"] == "ok"


METADATA = [
    ("{'a': {2, 1}, 'b': float('nan')}", {"a": [1, 2], "b": None}),
    ("{'a': 10 ** 400, 'b': '\\udc80'}", {"a": "1" + "0" * 400, "b": "?"}),
    ("{'a': 'x' * 70_000}", {}),
    ("['no', 'object']", {}),
]


@pytest.mark.parametrize("code, expected", METADATA)
def test_odd_metadata(shared, code, expected):
    events, done = shared.run(f"display({{'text/plain': 'x'}}, metadata={code}, raw=True)")
    assert texts(events) == [("display", "x")] and done["status"] == "ok"
    assert shared.metadata == expected


def test_deep_metadata_is_cut(shared):
    code = "m = {}\nfor _ in range(1000): m = {'m': m}\ndisplay({'text/plain': 'x'}, metadata=m, raw=True)"
    assert texts(shared.run(code)[0]) == [("display", "x")]
    depth, inner = 0, shared.metadata
    while isinstance(inner, dict):
        depth, inner = depth + 1, inner["m"]
    # The host's parser stops at 128.
    assert (depth, inner) == (64, "<dict>")


PICTURE = "from PIL import Image\npicture = Image.new('RGBA', (4, 4))\n"


def test_pictures_are_shown(host):
    events, done = host.run(PICTURE + "picture.show()\nprint('shown')")
    assert done["status"] == "ok" and [kind for kind, _ in events] == ["display", "out"]
    assert events[0][1]["image/png"].startswith(PNG) and b"RGBA" in events[0][1]["text/plain"]
    # PNG has no such mode.
    events, _ = host.run("Image.new('CMYK', (4, 4)).show()")
    assert events[0][1]["image/png"].startswith(PNG)
    events, _ = host.run("picture.save('/tmp/silica-picture.png')")
    assert events == []


def test_pictures_are_shown_when_saved_in_a_sandbox_of_e2b(host):
    save = "picture.save('/tmp/silica-picture.png')\nprint(Image.open('/tmp/silica-picture.png').size)"
    events, _ = host.run("import os\nos.environ['E2B_SANDBOX'] = 'true'\n" + PICTURE + save)
    assert [kind for kind, _ in events] == ["display", "out"] and events[1][1] == b"(4, 4)\n"
    assert events[0][1]["image/png"].startswith(PNG)
    # The figure itself is shown, once.
    events, _ = host.run("import matplotlib.pyplot as plt\nplt.plot([1]); plt.savefig('/tmp/silica-figure.png')")
    assert [kind for kind, _ in events] == ["display"]
    events, _ = host.run("import io\npicture.save(io.BytesIO(), 'PNG')")
    assert events == []


def test_boxplot_labels(host):
    for call in ("plt.boxplot", "plt.subplots()[1].boxplot"):
        code = f"import matplotlib.pyplot as plt\nx = {call}([[1, 2, 3], [2, 3, 4]], labels=['a', 'b'])\nprint([t.get_text() for t in plt.gca().get_xticklabels()])"
        events, done = host.run(code)
        assert done["status"] == "ok" and ("out", b"['a', 'b']\n") in events
