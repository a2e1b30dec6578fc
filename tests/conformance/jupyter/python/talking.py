"""A client of the messaging protocol, as small as it can be: both framings, one request at a time."""

from __future__ import annotations

import json
import struct
import urllib.error
import urllib.request
import uuid

import websocket

V1 = "v1.kernel.websocket.jupyter.org"


def call(base: str, method: str, path: str, body: object = None, key: str | None = None, **headers: str):
    """Sends a request; returns the status and the JSON of the response, or its text."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, method=method, data=data)
    if key:
        request.add_header("Authorization", f"token {key}")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            text, status = response.read(), response.status
    except urllib.error.HTTPError as error:
        text, status = error.read(), error.code
    try:
        return status, json.loads(text) if text else None
    except ValueError:
        return status, text.decode()


class Talk:
    """One socket of a kernel."""

    def __init__(self, base: str, kernel: str, token: str | None, framing: str | None = None, **options) -> None:
        query = f"?token={token}" if token else ""
        url = f"{base.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels{query}"
        if framing:
            options["subprotocols"] = [framing]
        self.framing = framing
        self.session = uuid.uuid4().hex
        self.socket = websocket.create_connection(url, timeout=30, **options)

    def close(self) -> None:
        self.socket.close()

    def send(self, kind: str, content: dict, channel: str = "shell", buffers: list[bytes] | None = None) -> str:
        header = {
            "msg_id": uuid.uuid4().hex, "msg_type": kind, "username": "u", "session": self.session,
            "date": "", "version": "5.3",
        }  # fmt: skip
        if self.framing == V1:
            parts = [channel.encode(), *[json.dumps(part).encode() for part in (header, {}, {}, content)], *(buffers or [])]
            offsets = [8 * (len(parts) + 2)]
            for part in parts:
                offsets.append(offsets[-1] + len(part))
            front = b"".join(number.to_bytes(8, "little") for number in [len(offsets), *offsets])
            self.socket.send_binary(front + b"".join(parts))
        else:
            message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": channel}
            self.socket.send(json.dumps(message))
        return header["msg_id"]

    def receive(self) -> dict:
        frame = self.socket.recv()
        if isinstance(frame, str):
            return json.loads(frame)
        if self.framing != V1:
            (count,) = struct.unpack("!I", frame[:4])
            offsets = [*struct.unpack(f"!{count}I", frame[4 : 4 * (count + 1)]), len(frame)]
            message = json.loads(frame[offsets[0] : offsets[1]])
            message["buffers"] = [frame[a:b] for a, b in zip(offsets[1:], offsets[2:])]
            return message
        count = int.from_bytes(frame[:8], "little")
        offsets = [int.from_bytes(frame[8 * i : 8 * i + 8], "little") for i in range(1, count + 1)]
        parts = [frame[a:b] for a, b in zip(offsets, offsets[1:])]
        header, parent, metadata, content = (json.loads(part) for part in parts[1:5])
        return {
            "channel": parts[0].decode(), "header": header, "parent_header": parent, "metadata": metadata,
            "content": content, "msg_type": header["msg_type"], "buffers": parts[5:],
        }  # fmt: skip

    def ask(self, kind: str, content: dict, answers: list[str] | None = None, **options) -> list[dict]:
        """Sends a request and returns its messages up to the idle status and the reply, if it has one."""
        identity = self.send(kind, content, **options)
        wants_reply = not kind.startswith("comm_") or kind == "comm_info_request"
        seen: list[dict] = []
        replied = idle = False
        while not (idle and (replied or not wants_reply)):
            message = self.receive()
            if message["parent_header"].get("msg_id") != identity:
                continue
            seen.append(message)
            if message["msg_type"] == "input_request":
                self.send("input_reply", {"value": answers.pop(0)}, channel="stdin")
            replied |= message["channel"] in ("shell", "control")
            idle |= message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
        return seen

    def run(self, code: str, **content) -> list[dict]:
        answers = content.pop("answers", None)
        request = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, **content}
        request.setdefault("allow_stdin", answers is not None)
        return self.ask("execute_request", {"stop_on_error": True, **request}, answers)


def kinds(messages: list[dict]) -> list[str]:
    """Returns the types of messages on one channel each: those of different channels have no order."""
    return [m["msg_type"] for m in messages if m["channel"] == "iopub"] + [
        m["msg_type"] for m in messages if m["channel"] != "iopub"
    ]


def first(messages: list[dict], kind: str) -> dict:
    return next(m for m in messages if m["msg_type"] == kind)["content"]
