"""Comms: messages between code in a kernel and its client, as ipywidgets use them.

Loaded when code imports the package `comm`, or when a client sends a message.
Knows the package and the kernel's `send_comm`, and nothing of the host.
"""

from __future__ import annotations

import sys

from silica_guest import jsonable, shell, wire

KINDS = {"comm_open": "open", "comm_msg": "message", "comm_close": "close"}


def adapt() -> None:
    """Makes the package `comm` send through this kernel. Called after the package was imported."""
    import comm
    from comm.base_comm import BaseComm, CommManager

    manager = CommManager()

    class KernelComm(BaseComm):
        """A comm whose messages go to the client of the running cell."""

        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys) -> None:
            """Sends one message; one outside of a cell belongs to no client and is dropped."""
            target = keys.get("target_name", self.target_name)
            if msg_type == "comm_open" and keys.get("target_module"):
                metadata = {**(metadata or {}), "target_module": keys["target_module"]}
            parts = [jsonable.encode(data or {}), *[bytes(buffer) for buffer in buffers or ()]]
            shell.current.send_comm(KINDS[msg_type], self.comm_id, target, metadata or {}, parts)

    comm.create_comm = lambda *args, **options: KernelComm(*args, **options)
    comm.get_comm_manager = lambda: manager


def deliver(head: dict, body: bytes) -> None:
    """Gives a message of the client to the comm that it is for; runs the callbacks of user code."""
    parts = []
    for size in head["parts"]:
        parts.append(body[:size])
        body = body[size:]
    kind, comm_id, target = head["kind"], head["id"], head["target"]
    if "comm" not in sys.modules:
        _refuse(kind, comm_id)
        return
    manager = sys.modules["comm"].get_comm_manager()
    content = {"comm_id": comm_id, "target_name": target, "data": _parse(parts[0])}
    message = {"content": content, "metadata": _parse(head["metadata"].encode()), "buffers": parts[1:]}
    if kind == "open":
        if target not in manager.targets:
            _refuse(kind, comm_id)
            return
        manager.comm_open(None, None, message)
    elif manager.get_comm(comm_id) is None:
        _refuse(kind, comm_id)
    elif kind == "message":
        manager.comm_msg(None, None, message)
    else:
        manager.comm_close(None, None, message)


def _refuse(kind: str, comm_id: str) -> None:
    """Closes a comm that nothing in this kernel knows."""
    if kind != "close":
        shell.current.send_comm("close", comm_id, "", {}, [b"{}"])


def _parse(text: bytes) -> dict:
    try:
        return wire.decode_json_object(text or b"{}")
    except wire.WireError:
        return {}
