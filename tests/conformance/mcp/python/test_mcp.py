"""The official Python client against `silica mcp` and `/mcp`: one file for old and new versions of it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.request

import anyio
import mcp
import pytest
from mcp.client import streamable_http
from mcp.client.stdio import StdioServerParameters, stdio_client

BINARY = os.environ["SILICA_BINARY"]
URL = os.environ["SILICA_URL"]
KEY = os.environ["SILICA_KEY"]

IS_MODERN = hasattr(mcp.ClientSession, "discover")
# Where the server is, and how the client begins: with the handshake of old versions, or without one.
PLACES = ["http", "stdio", "alone"]
WAYS = [(place, "initialize") for place in PLACES] + [(place, "discover") for place in PLACES if IS_MODERN]
# Beyond `server.body_bytes_max`, and within what is read of a refused body.
BODY_BYTES_TOO_MANY = 36 << 20
PLOT = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()
"""


@contextlib.asynccontextmanager
async def http_streams(key: str):
    headers = {"Authorization": f"Bearer {key}"}
    if hasattr(streamable_http, "streamablehttp_client"):
        async with streamable_http.streamablehttp_client(f"{URL}/mcp", headers=headers) as streams:
            yield streams
        return
    import httpx2

    async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
        async with streamable_http.streamable_http_client(f"{URL}/mcp", http_client=client) as streams:
            yield streams


@contextlib.asynccontextmanager
async def connect(place: str, way: str):
    """Yields a session that has begun."""
    if place == "http":
        streams = http_streams(KEY)
    else:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        if place == "stdio":
            env, arguments = {**kept, "SILICA_URL": URL, "SILICA_KEY": KEY}, ["mcp"]
        else:
            env = {**kept, "SILICA_HOME": os.environ["SILICA_HOME"]}
            arguments = ["mcp", "--local", "--template", "code-interpreter"]
        streams = stdio_client(StdioServerParameters(command=BINARY, args=arguments, env=env))
    async with streams as (read, write, *_):
        async with mcp.ClientSession(read, write) as session:
            await getattr(session, way)()
            yield session


def run(way: tuple[str, str], work) -> None:
    async def main() -> None:
        with anyio.fail_after(60):
            async with connect(*way) as session:
                await work(session)

    anyio.run(main)


def is_error(result) -> bool:
    return bool(result.is_error if hasattr(result, "is_error") else result.isError)


def structured(result) -> dict | None:
    value = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    # The oldest client keeps fields it does not know.
    return value if value is not None else (result.model_extra or {}).get("structuredContent")


def texts(result) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_tools_are_listed_with_schemas(way):
    async def work(session):
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {
            "run_python", "run_code", "list_files", "read_file", "write_file", "close_session", "approval_status",
        }  # fmt: skip
        schema = getattr(tools["run_python"], "input_schema", None) or tools["run_python"].inputSchema
        assert set(schema["properties"]) == {"code", "session_id", "timeout_seconds"}
        assert schema["required"] == ["code"]

    run(way, work)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_variables_and_files_live_on(way):
    async def work(session):
        first = await session.call_tool("run_python", {"code": "x = 6 * 7\nopen('a.txt', 'w').write('hi')\nx"})
        assert not is_error(first), first
        assert "42" in texts(first)
        said = structured(first)
        assert said["outcome"] == "ok"
        links = [part for part in first.content if part.type == "resource_link"]
        if links or IS_MODERN:
            assert str(links[0].uri).endswith("/workspace/a.txt")
            content = (await session.read_resource(links[0].uri)).contents[0]
            assert content.text == "hi"
        # Without a handshake over HTTP each request is a connection of its own.
        named = {"session_id": said["session_id"]} if way == ("http", "discover") else {}
        second = await session.call_tool("run_python", {"code": "print(x + 1)", **named})
        assert "43" in texts(second), second
        listed = await session.call_tool("list_files", named)
        assert "/workspace/a.txt" in texts(listed)
        await session.call_tool("write_file", {"path": "b.csv", "content": "a,b\n1,2\n", **named})
        read = await session.call_tool("run_python", {"code": "print(open('b.csv').read())", **named})
        assert "1,2" in texts(read)
        back = await session.call_tool("read_file", {"path": "/workspace/b.csv", **named})
        assert texts(back) == "a,b\n1,2\n"
        shell = await session.call_tool("run_code", {"language": "bash", "code": "wc -l < b.csv; exit 3", **named})
        assert is_error(shell) and "2" in texts(shell)
        assert structured(shell)["exit_code"] == 3
        closed = await session.call_tool("close_session", named)
        assert not is_error(closed), closed

    run(way, work)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_plots_are_images_and_tables_are_data(way):
    async def work(session):
        plot = await session.call_tool("run_python", {"code": PLOT})
        (image,) = [part for part in plot.content if part.type == "image"]
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        table = await session.call_tool("run_python", {"code": "import pandas\npandas.DataFrame({'a': [1, 2]})"})
        assert structured(table)["results"][0]["table"] is not None

    run(way, work)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_progress_says_what_is_printed(way):
    async def work(session):
        heard = []

        async def on_progress(progress, total, message):
            heard.append((progress, message))

        code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)"
        try:
            result = await session.call_tool("run_python", {"code": code}, progress_callback=on_progress)
        except TypeError:
            pytest.skip("this client has no progress for tools")
        assert "0\n1\n2" in texts(result)
        assert "".join(message or "" for _, message in heard).split() == ["0", "1", "2"]
        assert [progress for progress, _ in heard] == sorted({progress for progress, _ in heard})

    run(way, work)


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_failures_are_for_the_model(way):
    async def work(session):
        raised = await session.call_tool("run_python", {"code": "1 / 0"})
        assert is_error(raised) and "ZeroDivisionError" in texts(raised)
        late = await session.call_tool("run_python", {"code": "while True: pass", "timeout_seconds": 0.5})
        assert is_error(late) and structured(late)["outcome"] == "timed_out"
        unknown = await session.call_tool("run_python", {"code": "1", "session_id": "sbx_nothing"})
        assert is_error(unknown) and "sbx_nothing" in texts(unknown)
        for name, arguments in [("run_python", {}), ("run_python", {"code": 1}), ("no_such_tool", {})]:
            try:
                refused = await session.call_tool(name, arguments)
            except Exception as error:  # noqa: BLE001 - each version has a class of its own.
                assert "code" in str(error) or "no_such_tool" in str(error) or "string" in str(error), error
            else:
                assert is_error(refused), refused

    run(way, work)


def raw(body: bytes, **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(f"{URL}/mcp", data=body, method="POST")
    for name, value in {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def message(**fields) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **fields}).encode()


HELLO = message(
    method="initialize",
    params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
)


def test_bad_requests_have_clear_errors():
    assert raw(HELLO, Authorization="Bearer wrong")[0] == 401
    assert raw(HELLO, Origin="https://evil.example")[0] == 403
    assert raw(b"{")[0] in (400, 415)
    assert raw(HELLO, Accept="application/json")[0] == 406
    assert raw(message(method="tools/list"), Mcp_Session_Id="none")[0] == 404
    status, body = raw(message(method="tools/list", params={}), MCP_Protocol_Version="1999-01-01")
    assert status in (400, 422), body
    assert raw(b"[" * 100_000)[0] in (400, 415)
    assert raw(b" " * BODY_BYTES_TOO_MANY)[0] == 413
    assert raw(HELLO)[0] == 200


def test_versions_are_negotiated_and_never_echoed():
    for asked in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        status, body = raw(HELLO.replace(b"2025-06-18", asked.encode()))
        assert status == 200 and f'"protocolVersion":"{asked}"'.encode() in body, body
    status, body = raw(HELLO.replace(b"2025-06-18", b"1999-01-01"))
    assert b"1999-01-01" not in body or b"error" in body, body


def test_session_belongs_to_its_key():
    request = urllib.request.Request(f"{URL}/mcp", data=HELLO, method="POST")
    for name, value in [
        ("Authorization", f"Bearer {KEY}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ]:
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=10) as response:
        session = response.headers["Mcp-Session-Id"]
    made = subprocess.run([BINARY, "key", "create", "other"], capture_output=True, text=True, check=True)
    other = made.stdout.strip()
    ping = message(method="ping")
    assert raw(ping, Mcp_Session_Id=session)[0] == 200
    assert raw(ping, Mcp_Session_Id=session, Authorization=f"Bearer {other}")[0] == 404


def test_blocked_code_says_what_to_write_instead():
    """A server of its own, since the other one blocks nothing."""

    async def work():
        env = {name: os.environ[name] for name in ("PATH", "SILICA_HOME")}
        arguments = ["mcp", "--local", "--template", "code-interpreter", "--set", "policy.default=strict"]
        streams = stdio_client(StdioServerParameters(command=BINARY, args=arguments, env=env))
        with anyio.fail_after(60):
            async with streams as (read, write, *_), mcp.ClientSession(read, write) as session:
                await session.initialize()
                result = await session.call_tool("run_python", {"code": "import os\nos.system('id')"})
                assert is_error(result)
                assert "was not run" in texts(result) and "line 1" in texts(result), texts(result)

    anyio.run(work)


def test_standard_output_is_the_protocol_alone():
    env = {**os.environ, "SILICA_URL": ""}
    lines = [HELLO, b"this is not JSON", message(id=2, method="no/such"), message(id=3, method="tools/list")]
    child = subprocess.run(
        [BINARY, "mcp", "--template", "code-interpreter"],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        timeout=60,
        env=env,
    )
    answers = [json.loads(line) for line in child.stdout.splitlines()]
    by_id = {answer.get("id"): answer for answer in answers}
    assert by_id[1]["result"]["serverInfo"]["name"] == "silica"
    assert by_id[2]["error"]["code"] == -32601
    assert len(by_id[3]["result"]["tools"]) == 7
