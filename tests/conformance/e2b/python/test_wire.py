"""What goes over the wire, byte by byte: the recorded requests of the real SDKs, and the shapes of answers.

The requests were recorded from the SDKs as they are; the shapes are those that E2B's own services answer with.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import struct
import urllib.parse

import pytest

HOST = urllib.parse.urlsplit(os.environ["E2B_API_URL"]).netloc
KEY = os.environ["E2B_API_KEY"]

SANDBOX = {"templateID", "alias", "sandboxID", "clientID", "envdVersion", "envdAccessToken", "trafficAccessToken", "domain"}
LISTED = {
    "templateID", "alias", "sandboxID", "clientID", "startedAt", "endAt", "envdVersion", "cpuCount", "memoryMB",
    "diskSizeMB", "metadata", "state",
}  # fmt: skip
DETAIL = LISTED | {"envdAccessToken", "allowInternetAccess", "domain", "network", "lifecycle"}
METRIC = {
    "timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal",
}  # fmt: skip
ENTRY = {"name", "type", "path", "size", "mode", "permissions", "owner", "group", "modifiedTime", "metadata"}
KEYS_OF_LINES = {
    "number_of_executions": {"type", "execution_count"},
    "stdout": {"type", "text", "timestamp"},
    "stderr": {"type", "text", "timestamp"},
    "result": {"type", "text", "is_main_result"},
    "error": {"type", "name", "value", "traceback"},
    "end_of_execution": {"type"},
}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        assert self.headers["content-type"].startswith("application/json"), self.headers["content-type"]
        return json.loads(self.body)

    @property
    def frames(self) -> list[tuple[int, dict]]:
        assert self.status == 200 and self.headers["content-type"] == "application/connect+json"
        found, at = [], 0
        while at < len(self.body):
            flags, length = struct.unpack_from(">BI", self.body, at)
            found.append((flags, json.loads(self.body[at + 5 : at + 5 + length])))
            at += 5 + length
        return found


def ask(method: str, path: str, body: str | bytes | None = None, **headers: str) -> Answer:
    connection = http.client.HTTPConnection(HOST, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body.encode() if isinstance(body, str) else body, named)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def control(method: str, path: str, body: str | None = None) -> Answer:
    return ask(method, path, body, x_api_key=KEY, content_type="application/json")


@pytest.fixture(scope="module")
def made():
    answer = control("POST", "/v2/sandboxes", '{"templateID":"code-interpreter-v1","timeout":300,"metadata":{},"envVars":{}}')
    assert answer.status == 201
    yield answer.json
    control("DELETE", f"/sandboxes/{answer.json['sandboxID']}")


def inside(made: dict, port: int, **more: str) -> dict[str, str]:
    tokens = {"x_access_token": made["envdAccessToken"], "e2b_traffic_access_token": made["trafficAccessToken"]}
    return {"e2b_sandbox_id": made["sandboxID"], "e2b_sandbox_port": str(port), **tokens, **more}


def call(made: dict, method: str, body: str, **more: str) -> Answer:
    headers = inside(made, 49983, content_type="application/json", connect_protocol_version="1", **more)
    return ask("POST", f"/{method}", body, **headers)


def frame(text: str) -> bytes:
    return struct.pack(">BI", 0, len(text)) + text.encode()


def stream(made: dict, method: str, text: str, **more: str) -> Answer:
    headers = inside(made, 49983, content_type="application/connect+json", connect_protocol_version="1", **more)
    return ask("POST", f"/{method}", frame(text), **headers)


def execute(made: dict, body: str, path: str = "/execute") -> list[dict]:
    answer = ask("POST", path, body, **inside(made, 49999, content_type="application/json"))
    assert answer.status == 200 and answer.body.isascii() and answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.decode().splitlines()]


RECORDED_CREATES = {
    "python": ("/v2/sandboxes", '{"templateID":"code-interpreter-v1","timeout":120,"metadata":{"a":"b"},"envVars":{"K":"V"}}'),
    "python, nothing said": ("/v2/sandboxes", '{"templateID":"code-interpreter-v1","metadata":{},"envVars":{}}'),
    "js": ("/v2/sandboxes", '{"templateID":"code-interpreter-v1"}'),
    "python 2.26": (
        "/sandboxes",
        '{"templateID":"code-interpreter-v1","timeout":60,"metadata":{},"envVars":{},"secure":true,"autoPause":false,'
        '"autoResume":{"enabled":false},"allow_internet_access":true}',
    ),
    "the first generation, nothing said": ("/sandboxes", '{"templateID":"base"}'),
    "a slash too many": ("//v2//sandboxes", '{"templateID":"base","timeout":60}'),
}


@pytest.mark.parametrize("name", RECORDED_CREATES)
def test_recorded_creates(name):
    path, body = RECORDED_CREATES[name]
    answer = control("POST", path, body)
    assert answer.status == 201 and set(answer.json) == SANDBOX and answer.json["domain"] is None
    made = f"/sandboxes/{answer.json['sandboxID']}"
    detail = control("GET", made)
    assert detail.status == 200 and set(detail.json) == DETAIL
    assert detail.json["allowInternetAccess"] is False and detail.json["state"] == "running"
    assert detail.json["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    for generation in ("", "/v2"):
        for text in ("{}", '{"timeout":60}'):
            connected = control("POST", f"{generation}{made}/connect", text)
            assert connected.status == 200 and connected.json == answer.json
    assert control("POST", f"{made}/resume", '{"timeout":60}').status == 409
    assert control("POST", f"{made}/timeout", '{"timeout":300}').status == 204
    assert control("POST", f"{made}/refreshes", '{"duration":60}').status == 204
    metrics = control("GET", f"{made}/metrics")
    assert metrics.status == 200 and all(set(one) == METRIC for one in metrics.json)
    pause = control("POST", f"{made}/pause", "{}")
    assert (pause.status, set(pause.json), pause.json["code"]) == (501, {"code", "message"}, 501)
    assert control("DELETE", made).status == 204
    gone = control("DELETE", made)
    assert (gone.status, gone.json["code"]) == (404, 404)


def test_default_lives_by_generation():
    for path, life in (("/v2/sandboxes", 300), ("/sandboxes", 15)):
        made = control("POST", path, '{"templateID":"base"}').json["sandboxID"]
        detail = control("GET", f"/sandboxes/{made}").json
        seconds = [int(detail[key][11:13]) * 3600 + int(detail[key][14:16]) * 60 + int(detail[key][17:19]) for key in ("startedAt", "endAt")]
        assert (seconds[1] - seconds[0]) % 86400 in (life - 1, life, life + 1)
        control("DELETE", f"/sandboxes/{made}")


def test_list_has_a_token_for_the_next_page(made):
    other = control("POST", "/v2/sandboxes", '{"templateID":"base","timeout":60}').json["sandboxID"]
    first = control("GET", "/v2/sandboxes?limit=1&order=asc&state=running,paused")
    assert first.status == 200 and len(first.json) == 1 and set(first.json[0]) == LISTED
    token = first.headers["x-next-token"]
    second = control("GET", f"/v2/sandboxes?limit=1&order=asc&nextToken={urllib.parse.quote(token)}")
    assert second.json[0]["sandboxID"] != first.json[0]["sandboxID"]
    assert control("GET", "/v2/sandboxes?limit=100").headers["x-next-token"] is None
    control("DELETE", f"/sandboxes/{other}")


def test_refusals_of_the_control_plane():
    def check(answer: Answer, status: int) -> None:
        assert answer.status == status and set(answer.json) == {"code", "message"} and answer.json["code"] == status

    check(ask("POST", "/v2/sandboxes", '{"templateID":"base"}'), 401)
    check(ask("GET", "/sandboxes/x", x_api_key="e2b_" + "0" * 40), 401)
    check(control("GET", "/sandboxes/i00000000000000000000"), 404)
    check(control("POST", "/v2/sandboxes", '{"templateID":"nowhere"}'), 404)
    check(control("POST", "/v2/sandboxes", "not json"), 400)
    check(control("POST", "/v2/sandboxes", '{"templateID":"base","network":{"allowOut":["1.1.1.1"]}}'), 403)
    for field in ('"autoPause":true', '"network":{"dnsServers":["1.1.1.1"]}', '"volumeMounts":[{"name":"a","path":"/b"}]',
                  '"mcp":{"x":{}, "y":1}', '"network":{"allowPublicTraffic":"yes"}', '"unheard":"of"', '"timeout":99999999'):  # fmt: skip
        check(control("POST", "/v2/sandboxes", f'{{"templateID":"base",{field}}}'), 400)
    check(control("POST", "/v3/templates", "{}"), 501)
    check(control("GET", "/templates/aliases/nowhere"), 404)
    assert control("GET", "/templates/aliases/base").status == 200
    assert control("GET", "/snapshots").json == []


def test_the_recorded_execution(made):
    lines = execute(made, '{"code":"print(1)","context_id":null,"language":null,"env_vars":null}')
    assert [line["type"] for line in lines] == ["number_of_executions", "stdout", "end_of_execution"]
    for path in ("/execute", "//execute"):
        code = json.dumps({"code": "import sys; print(1, file=sys.stderr); display(2); 1/0"})
        lines = execute(made, code, path)
        kinds = [line["type"] for line in lines]
        assert kinds == ["number_of_executions", "stderr", "result", "error", "end_of_execution"]
        for line in lines:
            assert set(line) == KEYS_OF_LINES[line["type"]], line
        assert isinstance(lines[3]["traceback"], str)


def test_contexts(made):
    headers = inside(made, 49999, content_type="application/json")
    del headers["x_access_token"]
    listed = ask("GET", "/contexts", **headers)
    assert listed.status == 200 and [set(one) for one in listed.json] == [{"id", "language", "cwd"}]
    new = ask("POST", "/contexts", "{}", **headers)
    assert new.status == 200 and set(new.json) == {"id", "language", "cwd"} and new.json["cwd"] == "/home/user"
    place = f"/contexts/{new.json['id']}"
    assert ask("POST", f"{place}/restart", **headers).status == 200
    assert ask("DELETE", place, **headers).status == 200
    missing = ask("DELETE", place, **headers)
    assert missing.status == 404 and not missing.body.startswith(b"{")
    both = ask("POST", "/execute", '{"code":"1","context_id":"k1","language":"python"}', **headers)
    assert both.status == 400 and not both.body.startswith(b"{")
    assert ask("GET", "/health", **headers).body == b"OK"


def test_the_recorded_command(made):
    text = '{"process":{"cmd":"/bin/bash","args":["-l","-c","ls"]},"stdin":false}'
    assert frame(text)[:5] == b"\x00\x00\x00\x00\x45"
    frames = stream(made, "process.Process/Start", text, connect_timeout_ms="60000", keepalive_ping_interval="50").frames
    assert [flags for flags, _ in frames][-1] == 2 and frames[-1][1] == {}
    assert set(frames[0][1]["event"]["start"]) == {"pid"}
    assert frames[-2][1] == {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}}
    text = '{"process":{"cmd":"/bin/sh","args":["-c","echo a; echo b >&2; exit 3"]},"pty":null}'
    frames = stream(made, "process.Process/Start", text).frames
    data = [body["event"]["data"] for _, body in frames if "data" in body.get("event", {})]
    assert sorted(data, key=str) == [{"stderr": base64.b64encode(b"b\n").decode()}, {"stdout": base64.b64encode(b"a\n").decode()}]
    end = frames[-2][1]["event"]["end"]
    assert end == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    late = stream(made, "process.Process/Start", '{"process":{"cmd":"/bin/sleep","args":["600"]}}', connect_timeout_ms="100")
    assert late.frames[-1] == (2, {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}})


def test_the_recorded_calls(made, eventually):
    listed = call(made, "filesystem.Filesystem/ListDir", '{"path":"/home/user","depth":1}', content_encoding="identity")
    assert listed.status == 200 and set(listed.json) == {"entries"}
    # What ran out of time before may take a moment to be gone.
    assert eventually(lambda: call(made, "process.Process/List", "{}").json == {"processes": []})
    signal = call(made, "process.Process/SendSignal", '{"process":{"pid":4242},"signal":"SIGNAL_SIGKILL"}')
    assert (signal.status, signal.json["code"]) == (404, "not_found")
    made_directory = call(made, "//filesystem.Filesystem/MakeDir", '{"path":"d"}')
    assert set(made_directory.json["entry"]) == ENTRY
    again = call(made, "filesystem.Filesystem/MakeDir", '{"path":"d"}')
    assert (again.status, again.json["code"]) == (409, "already_exists")
    assert call(made, "filesystem.Filesystem/Remove", '{"path":"d"}').json == {}
    missing = call(made, "filesystem.Filesystem/Stat", '{"path":"d"}')
    assert (missing.status, missing.json["code"]) == (404, "not_found")
    root = call(made, "process.Process/List", "{}", authorization="Basic " + base64.b64encode(b"root:").decode())
    assert (root.status, root.json["code"]) == (401, "unauthenticated")
    user = call(made, "process.Process/List", "{}", authorization="Basic dXNlcjo=")
    assert user.status == 200
    watch = stream(made, "filesystem.Filesystem/WatchDir", '{"path":"nowhere"}')
    assert [(flags, body["error"]["code"]) for flags, body in watch.frames] == [(2, "not_found")]


def test_files(made):
    headers = inside(made, 49983)
    sent = ask("POST", "/files?path=a.txt&username=user", b"text", content_type="application/octet-stream", **headers)
    assert sent.status == 200 and sent.json == [{"path": "/home/user/a.txt", "name": "a.txt", "type": "file"}]
    read = ask("GET", "/files?path=a.txt", accept_encoding="gzip, deflate", **headers)
    assert (read.status, read.body, read.headers["content-length"]) == (200, b"text", "4")
    packed = ask("GET", "/files?path=a.txt", accept_encoding="gzip", **headers)
    assert packed.headers["content-encoding"] == "gzip"
    ask("POST", "/files?path=empty", b"", content_type="application/octet-stream", **headers)
    assert ask("GET", "/files?path=empty", **headers).headers["content-length"] == "0"
    for path, status in (("none", 404), (".", 400)):
        answer = ask("GET", f"/files?path={path}", **headers)
        assert (answer.status, answer.json["code"]) == (status, status)
    # Some clients name no sandbox in requests about files; the token identifies it.
    assert ask("GET", "/files?path=a.txt", x_access_token=made["envdAccessToken"]).body == b"text"
    text = f"a.txt:read::{made['envdAccessToken']}".encode()
    signature = "v1_" + base64.b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
    assert ask("GET", f"/files?path=a.txt&signature={urllib.parse.quote(signature)}").body == b"text"


def test_nothing_without_a_token(made):
    named = {"e2b_sandbox_id": made["sandboxID"], "content_type": "application/json"}
    wrong = ({}, {"x_access_token": "x"}, {"x_access_token": made["trafficAccessToken"]}, {"x_api_key": KEY})
    for tokens in wrong:
        assert ask("GET", "/files?path=a", e2b_sandbox_port="49983", **named, **tokens).status == 401
        assert ask("POST", "/process.Process/List", "{}", e2b_sandbox_port="49983", **named, **tokens).status == 401
    for tokens in ({}, {"e2b_traffic_access_token": "x"}, {"e2b_traffic_access_token": made["envdAccessToken"]}):
        assert ask("GET", "/contexts", e2b_sandbox_port="49999", **named, **tokens).status == 401
        assert ask("POST", "/execute", '{"code":"1"}', e2b_sandbox_port="49999", **named, **tokens).status == 401


def test_a_sandbox_that_is_not_there():
    gone = "i00000000000000000000"
    expected = {"sandboxId": gone, "message": "The sandbox was not found", "code": 502}
    for port, method, path in (("49983", "GET", "/health"), ("49983", "GET", "/files?path=a"), ("49983", "POST", "/process.Process/Start"),
                               ("49999", "POST", "/execute"), ("49999", "GET", "/contexts"), ("8000", "GET", "/")):  # fmt: skip
        answer = ask(method, path, "{}", e2b_sandbox_id=gone, e2b_sandbox_port=port, x_access_token="x")
        assert (answer.status, answer.json) == (502, expected), path


def test_other_ports_are_closed(made):
    headers = inside(made, 8000)
    for path in ("/", "/v1/sandboxes", "/sandboxes"):
        answer = ask("GET", path, x_api_key=KEY, **headers)
        assert answer.status == 502 and "port is not open" in answer.json["message"] and answer.json["port"] == 8000
    assert ask("GET", "/health", **inside(made, 49983)).status == 204


def test_bodies_in_chunks(made):
    connection = http.client.HTTPConnection(HOST, timeout=60)
    body = iter([b'{"templateID":', b'"base","timeout":60}'])
    connection.request("POST", "/v2/sandboxes", body, {"X-API-Key": KEY, "Transfer-Encoding": "chunked"}, encode_chunked=True)
    answer = Answer(connection.getresponse())
    assert answer.status == 201
    control("DELETE", f"/sandboxes/{answer.json['sandboxID']}")
