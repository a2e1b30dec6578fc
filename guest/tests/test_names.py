"""Names: of the file that a cell comes from, and of what can follow a cursor."""

import pytest
from host import Host


@pytest.mark.parametrize("gear", ["plain", "ipython"])
def test_traceback_names_the_file(gear):
    with Host(gear) as host:
        code = "import sys\ndef f():\n    raise KeyError(__file__)\nf()"
        events, _ = host.run(code, name="dir/script.py", argv=["dir/script.py", "a"])
        error = next(event for event in events if event[0] == "error")
        lines = error[1]["traceback"]
        assert '  File "dir/script.py", line 4, in <module>' in lines
        assert '  File "dir/script.py", line 3, in f' in lines
        assert "    raise KeyError(__file__)" in lines
        assert lines[-1] == "KeyError: 'script.py'"
        events, _ = host.run("sys.argv")
        assert any("'a'" in str(event) for event in events)
        events, _ = host.run("f()")
        error = next(event for event in events if event[0] == "error")
        assert any("Cell In[3], line 1" in line for line in error[1]["traceback"])


def complete(host, code):
    host.send({"type": "complete"}, code.encode())
    head, _ = host.frame()
    assert head["type"] == "completions"
    return head["start"], head["matches"]


def test_names_follow_a_cursor():
    with Host() as host:
        host.run("unusual = 'é'; class_ = 1\nclass A:\n    def __dir__(self): raise OSError\nbroken = A()")
        assert complete(host, "é = unus") == (4, ["unusual"])
        start, matches = complete(host, "unusual.upp")
        assert (start, matches) == (8, ["upper"])
        assert "while" in complete(host, "whi")[1]
        assert complete(host, "broken.x")[1] == []
        assert complete(host, "missing.x") == (8, [])
        assert complete(host, "f(1).x")[1] == []
        assert "__class__" in complete(host, "unusual.__cl")[1]
        assert not any(name.startswith("_") for name in complete(host, "unusual.")[1])
        _, done = host.run("1 + 1")
        assert done["status"] == "ok"
