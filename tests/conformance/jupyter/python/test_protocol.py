"""Routes, ways to show a key, both framings, and messages compared with those of a real Jupyter server."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import websocket

sys.path.insert(0, str(Path(__file__).parent))
from talking import V1, Talk, call, first, kinds

URL = os.environ["SILICA_URL"]
BASE = f"{URL}/jupyter"
KEY = os.environ["SILICA_KEY"]
JUPYTER_KEY = os.environ["JUPYTER_KEY"]
FRAMINGS = [None, V1]


@pytest.fixture
def kernel():
    status, model = call(BASE, "POST", "/api/kernels", key=KEY)
    assert status == 201, model
    yield model["id"]
    call(BASE, "DELETE", f"/api/kernels/{model['id']}", key=KEY)


@pytest.fixture
def talk(kernel):
    talk = Talk(BASE, kernel, KEY)
    yield talk
    talk.close()


@pytest.fixture(scope="session")
def oracle(tmp_path_factory):
    """A Jupyter server with ipykernel."""
    place = tmp_path_factory.mktemp("oracle")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "jupyter_server", f"--port={port}", "--no-browser", "--allow-root"]
    command += ["--IdentityProvider.token=oracle", f"--ServerApp.root_dir={place}", "--ServerApp.port_retries=0"]
    with open(place / "log", "w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            if call(base, "GET", "/api/status", key="oracle")[0] == 200:
                break
        except OSError:
            time.sleep(0.1)
    yield base
    child.terminate()
    child.wait()


def test_kernels_have_the_routes_of_jupyter(kernel):
    assert call(BASE, "GET", "/api")[1]["version"]
    status, model = call(BASE, "GET", f"/api/kernels/{kernel}", key=KEY)
    assert status == 200 and set(model) == {"id", "name", "last_activity", "execution_state", "connections"}
    assert re.fullmatch(r"\w+-\w+-\w+-\w+-\w+", kernel)
    assert kernel in [it["id"] for it in call(BASE, "GET", "/api/kernels", key=KEY)[1]]
    assert call(BASE, "GET", "/api/status", key=KEY)[1]["kernels"] >= 1
    assert call(BASE, "GET", "/api/me", key=KEY)[1]["identity"]["username"]
    specs = call(BASE, "GET", "/api/kernelspecs", key=KEY)[1]
    assert specs["default"] in specs["kernelspecs"]
    assert call(BASE, "GET", "/api/kernelspecs/python3", key=KEY)[1]["spec"]["language"] == "python"
    assert call(BASE, "GET", "/api/kernelspecs/nothing", key=KEY)[0] == 404
    assert call(BASE, "POST", f"/api/kernels/{kernel}/interrupt", {}, key=KEY)[0] == 204
    assert call(BASE, "POST", f"/api/kernels/{kernel}/restart", {}, key=KEY)[0] == 200
    status, refused = call(BASE, "GET", "/api/kernels/00000000-0000-0000-0000-000000000000", key=KEY)
    assert status == 404 and set(refused) == {"message", "reason"}


def test_sessions_name_kernels():
    asked = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}}
    status, session = call(BASE, "POST", "/api/sessions", asked, key=KEY)
    assert status == 201 and session["notebook"]["path"] == "a.ipynb"
    again = call(BASE, "POST", "/api/sessions", asked, key=KEY)[1]
    assert again["id"] == session["id"]
    at = f"/api/sessions/{session['id']}"
    assert call(BASE, "PATCH", at, {"name": "b"}, key=KEY)[1]["name"] == "b"
    assert call(BASE, "GET", at, key=KEY)[1]["name"] == "b"
    assert call(BASE, "DELETE", at, key=KEY)[0] == 204
    assert call(BASE, "GET", f"/api/kernels/{session['kernel']['id']}", key=KEY)[0] == 404


def test_every_way_to_show_a_key_opens_routes_and_sockets(kernel):
    for headers in ({"Authorization": f"token {KEY}"}, {"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
        assert call(BASE, "GET", "/api/status", **headers)[0] == 200
        Talk(BASE, kernel, None, header=[f"{name}: {value}" for name, value in headers.items()]).close()
    assert call(BASE, "GET", f"/api/status?token={KEY}&1794952761486")[0] == 200
    status, mine = call(f"{BASE}/{JUPYTER_KEY}", "POST", "/api/kernels")
    assert status == 201
    Talk(f"{BASE}/{JUPYTER_KEY}", mine["id"], None).close()
    assert call(f"{BASE}/{JUPYTER_KEY}", "DELETE", f"/api/kernels/{mine['id']}")[0] == 204
    for wrong in ({}, {"Authorization": "token wrong"}, {"Cookie": "silica_jupyter=1"}):
        status, refused = call(BASE, "GET", "/api/status", **wrong)
        assert status == 403 and set(refused) == {"message", "reason"}
        with pytest.raises(websocket.WebSocketBadStatusException):
            Talk(BASE, kernel, None, header=[f"{name}: {value}" for name, value in wrong.items()])


def test_key_of_jupyter_opens_nothing_else_and_others_are_in_no_path(kernel):
    assert call(URL, "GET", "/v1/sandboxes", X_API_Key=JUPYTER_KEY)[0] == 401
    assert call(URL, "POST", "/v1/run", {"code": "1"}, X_API_Key=JUPYTER_KEY)[0] == 401
    assert call(URL, "GET", "/sandboxes", X_API_Key=JUPYTER_KEY)[0] == 401
    assert call(f"{BASE}/{KEY}", "GET", "/api/status")[0] == 403
    # Kernels belong to their key.
    assert call(f"{BASE}/{JUPYTER_KEY}", "GET", f"/api/kernels/{kernel}")[0] == 404


def test_address_with_a_key_is_told_to_no_other_server():
    with urllib.request.urlopen(f"{BASE}/{JUPYTER_KEY}/api/status", timeout=10) as response:
        assert response.headers["Referrer-Policy"] == "no-referrer"


def test_login_gives_a_cookie_that_other_pages_cannot_use():
    def send(path, data=None, **headers):
        request = urllib.request.Request(BASE + path, data=data, headers=headers)

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        try:
            return urllib.request.build_opener(Stay).open(request, timeout=10)
        except urllib.error.HTTPError as error:
            return error

    xsrf = re.search(r"_xsrf=(\w+)", send("/login").headers["Set-Cookie"]).group(1)
    form = urllib.parse.urlencode({"_xsrf": xsrf, "password": KEY}).encode()
    assert send("/login", form).status == 403
    entered = send("/login", form, Cookie=f"_xsrf={xsrf}")
    assert entered.status == 302 and "HttpOnly" in entered.headers["Set-Cookie"]
    cookie = re.search(r"silica_jupyter=\w+", entered.headers["Set-Cookie"]).group(0)
    both = f"{cookie}; _xsrf={xsrf}"
    assert KEY not in str(entered.headers)
    assert send("/api/status", Cookie=both).status == 403
    assert send("/api/status", Cookie=both, Origin="https://evil.example").status == 403
    assert send("/api/status", **{"Cookie": both, "X-XSRFToken": "other"}).status == 403
    assert send("/api/status", **{"Cookie": both, "X-XSRFToken": xsrf}).status == 200
    assert send("/api/status", Cookie=both, Origin=URL).status == 200


def test_log_and_audit_name_no_key(kernel):
    call(BASE, "GET", f"/api/status?token={KEY}")
    call(f"{BASE}/{JUPYTER_KEY}", "GET", "/api/status")
    home = Path(os.environ["SILICA_HOME"])
    for file in home.rglob("*"):
        if file.is_file() and not file.is_symlink() and "templates" not in file.parts:
            content = file.read_bytes()
            assert KEY.encode() not in content and JUPYTER_KEY.encode() not in content, file


@pytest.mark.parametrize("framing", FRAMINGS)
def test_both_framings_carry_pictures_and_buffers(kernel, framing):
    talk = Talk(BASE, kernel, KEY, framing)
    assert talk.socket.getsubprotocol() == framing
    seen = talk.run("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")
    picture = first(seen, "display_data")["data"]["image/png"]
    assert base64.b64decode(picture).startswith(b"\x89PNG")
    talk.close()


# Each is a list of requests to one kernel: type, content, and answers to questions.
SCENES = {
    "info": [("kernel_info_request", {})],
    "print and value": [("execute_request", {"code": "print('a')\n6 * 7"})],
    "error": [("execute_request", {"code": "1 / 0"})],
    "silent": [("execute_request", {"code": "print(1)", "silent": True, "store_history": False})],
    "empty": [("execute_request", {"code": ""})],
    "expressions": [("execute_request", {"code": "x = 1", "user_expressions": {"a": "x + 1", "b": "1 / 0"}})],
    "display": [("execute_request", {"code": "display('a', display_id='d')\ndisplay('b', display_id='d', update=True)"})],
    "clear": [("execute_request", {"code": "from IPython.display import clear_output\nprint(1)\nclear_output(True)\nprint(2)"})],
    "question": [("execute_request", {"code": "print(input('name? '))", "allow_stdin": True}, ["bob"])],
    "secret": [("execute_request", {"code": "import getpass\nprint(len(getpass.getpass()))", "allow_stdin": True}, ["abc"])],
    "complete": [("execute_request", {"code": "alpha = 1"}), ("complete_request", {"code": "alph", "cursor_pos": 4})],
    "inspect": [("inspect_request", {"code": "print", "cursor_pos": 3, "detail_level": 0})],
    "inspect nothing": [("inspect_request", {"code": "nothing_here", "cursor_pos": 3, "detail_level": 0})],
    "incomplete": [("is_complete_request", {"code": "for i in range(3):"})],
    "complete code": [("is_complete_request", {"code": "1 + 1"})],
    "invalid": [("is_complete_request", {"code": "1 +* 1"})],
    "comms": [("comm_info_request", {})],
    "unknown comm": [("comm_open", {"comm_id": "c", "target_name": "nothing", "data": {}})],
}  # fmt: skip


def shape(message: dict) -> tuple:
    """Returns what must be alike: type, channel, fields, and the values that have one right form."""
    content = message["content"]
    values = {
        name: content[name]
        for name in ("status", "execution_state", "name", "text", "code", "execution_count", "wait", "prompt", "password",
                     "ename", "evalue", "found", "matches", "cursor_start", "cursor_end", "indent", "comm_id", "transient")
        if name in content
    }  # fmt: skip
    if "data" in content and "text/plain" in content["data"] and message["msg_type"] != "inspect_reply":
        values["data"] = content["data"]["text/plain"]
    if "user_expressions" in content:
        values["expressions"] = {name: it["status"] for name, it in content["user_expressions"].items()}
    return message["channel"], message["msg_type"], json.dumps(values, sort_keys=True)


def played(base: str, key: str, scene: list) -> list[list[tuple]]:
    """Plays a scene; the messages of each channel are in order, and channels one after the other."""
    kernel = call(base, "POST", "/api/kernels", {"name": "python3"}, key=key)[1]["id"]
    talk = Talk(base, kernel, key)
    talk.ask("kernel_info_request", {})
    heard = []
    for kind, content, *answers in scene:
        if kind == "execute_request":
            defaults = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
            content = {**defaults, "stop_on_error": True, **content}
        seen = talk.ask(kind, content, list(answers[0]) if answers else None)
        heard.append(sorted((shape(m) for m in seen), key=lambda it: it[0]))
    talk.close()
    call(base, "DELETE", f"/api/kernels/{kernel}", key=key)
    return heard


# What differs from the oracle, and how. A scene that becomes equal passes.
DIFFERENT = {
    "empty": "an empty cell is counted",
    "secret": "getpass() without a prompt has that of Python, not an empty one",
    "unknown comm": "a comm without a target is closed without a line on stderr",
}


def scenes():
    """The scenes, with those that differ marked."""
    for name in SCENES:
        marks = [pytest.mark.xfail(reason=DIFFERENT[name], strict=False)] if name in DIFFERENT else []
        yield pytest.param(name, marks=marks, id=name)


@pytest.mark.parametrize("scene", scenes())
def test_messages_are_those_of_a_jupyter_server(oracle, scene):
    expected = played(oracle, "oracle", SCENES[scene])
    assert played(BASE, KEY, SCENES[scene]) == expected


def test_interrupt_by_route_and_by_message(kernel, talk):
    for how in ("route", "message"):
        identity = talk.send("execute_request", {"code": "import time\nprint('in', flush=True)\ntime.sleep(60)"})
        while (message := talk.receive())["msg_type"] != "stream":
            pass
        if how == "route":
            assert call(BASE, "POST", f"/api/kernels/{kernel}/interrupt", key=KEY)[0] == 204
        else:
            talk.send("interrupt_request", {}, channel="control")
        while message["msg_type"] != "execute_reply":
            message = talk.receive()
        assert message["content"]["ename"] == "KeyboardInterrupt" and message["parent_header"]["msg_id"] == identity
    assert first(talk.run("print('after')"), "stream")["text"] == "after\n"


def test_cells_after_a_failed_one_are_aborted(talk):
    sent = [talk.send("execute_request", {"code": code}) for code in ("import time; time.sleep(0.5); 1 / 0", "print(1)")]
    replies = {}
    while len(replies) < 2:
        message = talk.receive()
        if message["msg_type"] == "execute_reply":
            replies[message["parent_header"]["msg_id"]] = message["content"]["status"]
    assert [replies[it] for it in sent] == ["error", "aborted"]


def test_sockets_of_one_kernel_all_hear_it_and_replies_go_to_the_asker(kernel):
    asking, listening = Talk(BASE, kernel, KEY), Talk(BASE, kernel, KEY)
    identity = asking.send("execute_request", {"code": "print('both')"})
    heard = []
    while True:
        message = listening.receive()
        if message["parent_header"].get("msg_id") == identity:
            heard.append(message["msg_type"])
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
    assert "stream" in heard and "execute_reply" not in heard
    asking.close(), listening.close()


def test_client_that_reconnects_gets_what_it_missed(kernel):
    base = BASE.replace("http", "ws", 1)
    url = f"{base}/api/kernels/{kernel}/channels?token={KEY}&session_id=s1"
    talk = Talk(BASE, kernel, KEY)
    talk.socket.close()
    talk.socket = websocket.create_connection(url, timeout=30)
    identity = talk.send("execute_request", {"code": "import time\nprint('gone', flush=True)\ntime.sleep(1)\nprint('late')"})
    while talk.receive()["msg_type"] != "stream":
        pass
    talk.socket.close()
    time.sleep(2)
    talk.socket = websocket.create_connection(url, timeout=10)
    heard = []
    while not heard or heard[-1] != "idle":
        message = talk.receive()
        if message["parent_header"].get("msg_id") == identity:
            content = message["content"]
            heard.append(content.get("text") or content.get("execution_state") or message["msg_type"])
    assert "late\n" in heard and "execute_reply" in heard
    talk.close()


def test_files_of_a_kernel_are_contents(kernel, talk):
    talk.run("open('/workspace/a.txt', 'w').write('hi')")
    top = call(BASE, "GET", "/api/contents", key=KEY)[1]
    assert kernel in [entry["name"] for entry in top["content"]]
    listed = call(BASE, "GET", f"/api/contents/{kernel}", key=KEY)[1]
    assert "a.txt" in [entry["name"] for entry in listed["content"]]
    file = call(BASE, "GET", f"/api/contents/{kernel}/a.txt", key=KEY)[1]
    assert (file["content"], file["format"], file["type"]) == ("hi", "text", "file")
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    saved = {"type": "notebook", "format": "json", "content": notebook}
    assert call(BASE, "PUT", f"/api/contents/{kernel}/d/n.ipynb", saved, key=KEY)[0] == 201
    assert call(BASE, "PUT", f"/api/contents/{kernel}/d/n.ipynb", saved, key=KEY)[0] == 200
    assert call(BASE, "GET", f"/api/contents/{kernel}/d/n.ipynb", key=KEY)[1]["content"] == notebook
    created = call(BASE, "POST", f"/api/contents/{kernel}", {"type": "notebook"}, key=KEY)
    assert created[0] == 201 and created[1]["name"] == "Untitled.ipynb"
    moved = call(BASE, "PATCH", f"/api/contents/{kernel}/a.txt", {"path": f"{kernel}/b.txt"}, key=KEY)
    assert moved[1]["name"] == "b.txt"
    assert call(BASE, "DELETE", f"/api/contents/{kernel}/b.txt", key=KEY)[0] == 204
    assert call(BASE, "GET", f"/api/contents/{kernel}/b.txt", key=KEY)[0] == 404
    for outside in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd"):
        assert call(BASE, "GET", f"/api/contents/{kernel}/{outside}", key=KEY)[0] in (400, 403, 404)


BAD_FRAMES = [
    b"", b"\x00", b"\xff" * 8, b"\x00\x00\x00\x01\xff\xff\xff\xff", (1 << 60).to_bytes(8, "little"),
    (6).to_bytes(8, "little") + b"\xff" * 48, b"{}", b"\x00" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("framing", FRAMINGS)
def test_malformed_frames_close_the_socket_and_harm_nothing(kernel, framing):
    for frame in BAD_FRAMES:
        talk = Talk(BASE, kernel, KEY, framing)
        talk.socket.send_binary(frame)
        talk.socket.settimeout(10)
        with pytest.raises((websocket.WebSocketException, OSError)):
            while talk.socket.recv():
                pass
            raise websocket.WebSocketConnectionClosedException("closed in good order")
    for text in ("", "[", "[" * 10_000, "{}", '{"header": {"msg_id": 1}}', '{"header": {}, "content": 1}'):
        talk = Talk(BASE, kernel, KEY)
        talk.socket.send(text)
        talk.socket.settimeout(10)
        with pytest.raises((websocket.WebSocketException, OSError)):
            while talk.socket.recv():
                pass
            raise websocket.WebSocketConnectionClosedException("closed in good order")
    talk = Talk(BASE, kernel, KEY, framing)
    assert kinds(talk.run("print(1)"))[:2] == ["status", "execute_input"]
    talk.close()


def test_wrong_content_and_unknown_requests_are_survived(talk):
    assert first(talk.ask("execute_request", {"code": 5}), "execute_reply")["status"] == "error"
    talk.send("no_such_request", {})
    talk.send("debug_request", {}, channel="control")
    talk.send("comm_msg", {"nonsense": True})
    talk.send("input_reply", {"value": "unasked"}, channel="stdin")
    assert first(talk.run("print(1)"), "stream")["text"] == "1\n"


def test_client_that_does_not_read_is_closed_and_others_go_on(kernel):
    idle, talk = Talk(BASE, kernel, KEY), Talk(BASE, kernel, KEY)
    seen = talk.run("for i in range(2000): print('x' * 10_000)")
    assert first(seen, "execute_reply")["status"] == "ok"
    assert sum(len(m["content"]["text"]) for m in seen if m["msg_type"] == "stream") == 2000 * 10_001
    idle.close(), talk.close()
