"""What editors and notebooks ask of a kernel: names, completeness, input, updates, comms."""

import json

from host import Host, texts


def ask(host: Host, kind: str, code: str, **head: object) -> tuple[dict, bytes]:
    host.send({"type": kind, **head}, code.encode())
    return host.frame()


def test_names_are_inspected(host):
    host.run("def shout(word: str) -> str:\n    'Says it loudly.'\n    return word.upper()")
    head, body = ask(host, "inspect", "shout('a')", cursor=3, detail=0)
    assert head == {"type": "inspection", "found": True}
    assert b"Says it loudly." in body and b"word" in body
    head, body = ask(host, "inspect", "nothing_like_this", cursor=3, detail=0)
    assert (head["found"], body) == (False, b"")
    host.run("class Odd:\n    def __getattr__(self, name): raise SystemExit\nodd = Odd()")
    assert ask(host, "inspect", "odd.x.y", cursor=6, detail=1)[0]["found"] is False
    assert texts(host.run("1 + 1")[0]) == [("main", "2")]


def test_completeness_is_checked(host):
    table = [
        ("1 + 1", "complete", ""), ("for i in range(3):", "incomplete", "    "), ("if x:\n    y = [", "incomplete", None),
        ("1 +* 2", "invalid", ""), ("%time 1", "complete", ""),
    ]  # fmt: skip
    for code, status, indent in table:
        head, _ = ask(host, "check", code)
        assert head["status"] == status, code
        assert indent is None or head["indent"] == indent, code


def test_input_asks_only_in_cells_that_may(host):
    host.answers = ["bob", "secret"]
    code = "name = input('name? ')\nimport getpass\nword = getpass.getpass()\nprint(name, len(word))"
    events, done = host.run(code, input=True)
    assert done["status"] == "ok"
    asked = [(event["prompt"], event["password"]) for kind, event in events if kind == "input"]
    assert asked == [("name? ", False), ("Password: ", True)]
    assert events[-1] == ("out", b"bob 6\n")
    events, done = host.run("input()")
    assert done["status"] == "raised" and texts(events)[-1] == ("error", "EOFError")


def test_interrupt_ends_the_wait_for_input_and_a_late_answer_is_dropped(host):
    host.start("input('?')", input=True)
    events: list = []
    while not events:
        host.step(events)
    host.send({"type": "interrupt", "cell": host.cell})
    host.interrupt()
    while (done := host.step(events)) is None:
        pass
    assert done["status"] == "interrupted"
    host.send({"type": "input", "cell": host.cell}, b"late")
    assert texts(host.run("print('after'); 1")[0]) == [("out", "after\n"), ("main", "1")]


def test_updates_have_the_name_of_what_they_replace(host):
    host.run("from IPython.display import clear_output\nhandle = display('a', display_id='d')")
    assert host.display == ("d", False)
    host.run("handle.update('b')")
    assert host.display == ("d", True)
    events, _ = host.run("print(1)\nclear_output(wait=True)\nprint(2)")
    assert [kind for kind, _ in events] == ["out", "clear", "out"] and events[1][1]["wait"] is True


PACKAGE = """
import sys, types
comm = types.ModuleType('comm'); base = types.ModuleType('comm.base_comm')
class BaseComm:
    def __init__(self, target_name='', data=None, comm_id='made', **options):
        self.comm_id, self.target_name = comm_id, target_name
        comm.get_comm_manager().comms[comm_id] = self
        self.publish_msg('comm_open', data=data, target_name=target_name)
    def send(self, data, buffers=None): self.publish_msg('comm_msg', data=data, buffers=buffers)
    def on_msg(self, callback): self.callback = callback
class CommManager:
    def __init__(self): self.comms, self.targets = {}, {}
    def get_comm(self, name): return self.comms.get(name)
    def comm_msg(self, stream, ident, message): self.comms[message['content']['comm_id']].callback(message)
base.BaseComm, base.CommManager, comm.base_comm = BaseComm, CommManager, base
sys.modules['comm'], sys.modules['comm.base_comm'] = comm, base
from silica_guest import comms; comms.adapt()
"""


def test_comms_go_both_ways_in_order_with_output(host):
    """With a stand-in for the package; the real one and ipywidgets are in tests/conformance/jupyter."""
    assert host.run(PACKAGE)[1]["status"] == "ok"
    code = "print('before')\nimport comm\nc = comm.create_comm(target_name='t', data={'a': 1})\nc.send({'b': [1]}, [b'\\x00\\xff'])\nprint('after')"
    events, done = host.run(code)
    assert done["status"] == "ok"
    assert [kind for kind, _ in events] == ["out", "comm", "comm", "out"]
    opened, sent = events[1][1], events[2][1]
    assert (opened["kind"], opened["id"], opened["target"]) == ("open", "made", "t")
    size = sent["parts"][0]
    assert json.loads(sent["body"][:size]) == {"b": [1]} and sent["body"][size:] == b"\x00\xff"
    host.run("c.on_msg(lambda message: print('got', message['content']['data'], message['buffers']))")
    host.cell += 1
    data = b'{"x": 2}'
    comm = {"kind": "message", "id": "made", "target": "", "metadata": "{}", "parts": [len(data), 1]}
    host.send({"type": "run", "cell": host.cell, "comm": comm}, data + b"z")
    events = []
    while (done := host.step(events)) is None:
        pass
    assert done["status"] == "ok" and events == [("out", b"got {'x': 2} [b'z']\n")]


def test_unknown_comm_is_closed(host):
    host.cell += 1
    comm = {"kind": "open", "id": "c", "target": "nothing", "metadata": "", "parts": [2]}
    host.send({"type": "run", "cell": host.cell, "comm": comm}, b"{}")
    events: list = []
    while host.step(events) is None:
        pass
    assert [(kind, event["kind"], event["id"]) for kind, event in events] == [("comm", "close", "c")]
