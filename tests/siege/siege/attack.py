"""What a weapon holds: one ordinary key, raw connections, and a count of what was done and what was refused.

A weapon runs in a process of its own (`siege.wield`). Everything it opens or creates goes through `Attack`, which
ends it.
"""

import asyncio
import contextlib
import json
import random
import select
import socket
from collections import Counter
from dataclasses import dataclass, field

CALL_PATIENCE = 60.0
"""Seconds until a call of the attacker is given up."""

OPENED_PER_ROUND_MAX = 400
"""Connections that `hold` opens before it looks at those it has."""

OPENED_AT_ONCE = 25

ROUND_SECONDS = 0.25

BESIDE_OTHERS_MAX = 40
"""Connections with a key that one weapon holds beside all others: together they stay below what the key may have."""

ANSWER_BYTES_KEPT = 1 << 20
TINY_WINDOW = 4096
CLEAN_UP_ROUNDS = 20


@dataclass
class Answer:
    """The status of a response, and the first megabyte of its body."""

    status: int
    body: bytes = field(repr=False, default=b"")

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem, or nothing."""
        try:
            return str(self.json.get("code", ""))
        except (ValueError, AttributeError):
            return ""


class Attack:
    """One weapon at work."""

    def __init__(self, address: tuple[str, int], keys: list[str], short: bool, share: float, announce) -> None:
        self.address, self.short, self.share = address, short, share
        self.key, *self.other_keys = keys
        self.stopping = asyncio.Event()
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.sandboxes: set[str] = set()
        self.sockets: set[socket.socket] = set()
        self._announce = announce

    # How much.

    def many(self, count: int, short: int | None = None) -> int:
        """So many; fewer in the short form, and a share of them beside all other weapons."""
        count = short if self.short and short is not None else count
        return max(1, int(count * self.share))

    def connections(self, count: int, short: int | None = None) -> int:
        """So many connections with a key; few beside all other weapons, which need some too."""
        count = short if self.short and short is not None else count
        return count if self.share == 1 else min(count, BESIDE_OTHERS_MAX)

    def ready(self) -> None:
        """The weapon is in place. Further calls say nothing."""
        if self._announce:
            self._announce()
            self._announce = None

    @property
    def going(self) -> bool:
        return not self.stopping.is_set()

    async def pause(self, seconds: float) -> None:
        """Waits, but not beyond the end of the siege."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def crew(self, *members) -> None:
        """Runs them all until they end or the siege does."""
        tasks = [asyncio.ensure_future(member) for member in members]
        over, all_done = asyncio.ensure_future(self.stopping.wait()), asyncio.ensure_future(asyncio.wait(tasks))
        try:
            await asyncio.wait([over, all_done], return_when="FIRST_COMPLETED")
        finally:
            for task in (over, all_done, *tasks):
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, (OSError, asyncio.TimeoutError)):
                raise end

    # Requests.

    def head(self, method: str, path: str, length: int | None = 0, key: str | None = "own", **headers: str) -> bytes:
        """The head of a request; without a length the body is chunked."""
        host = f"{self.address[0]}:{self.address[1]}"
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
        if key:
            lines.append(f"X-API-Key: {self.key if key == 'own' else key}")
        lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def note(self, answer: Answer, what: str) -> Answer:
        """Counts what was done or refused."""
        if 200 <= answer.status < 300:
            self.done[what] += 1
        elif what != "deletes":
            # What is to be deleted may have ended before.
            self.refused[f"{answer.status} {answer.code}".strip()] += 1
        return answer

    async def call(self, method: str, path: str, body=None, what: str = "calls", key: str = "own", **headers) -> Answer:
        """One request on a connection of its own; the answer is read to its end and mostly thrown away."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = self.head(method, path, len(data), key, Connection="close", **headers)
        try:
            answer = await asyncio.wait_for(self._exchange([request, data]), CALL_PATIENCE)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError):
            answer = Answer(0)
        return self.note(answer, what)

    async def stream_up(self, path: str, pieces, what: str) -> Answer:
        """A PUT whose body is made while it is sent, of an unknown length."""
        chunked = (b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        request = self.head("PUT", path, None, Connection="close")
        try:
            answer = await asyncio.wait_for(self._exchange([request], chunked, b"0\r\n\r\n"), CALL_PATIENCE)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError):
            answer = Answer(0)
        return self.note(answer, what)

    async def _exchange(self, parts: list[bytes], more=(), last: bytes = b"") -> Answer:
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            with contextlib.suppress(ConnectionError):
                for part in [*parts]:
                    writer.write(part)
                    await writer.drain()
                for part in more:
                    writer.write(part)
                    await writer.drain()
                if last:
                    writer.write(last)
                    await writer.drain()
            kept = b""
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(1 << 18):
                    kept += piece[: ANSWER_BYTES_KEPT - len(kept)]
            head, _, body = kept.partition(b"\r\n\r\n")
            return Answer(int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/") else 0, body)
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def line(self):
        """A connection for many small requests one after the other; yields the function that asks."""
        reader, writer = await asyncio.open_connection(*self.address)

        async def ask(method: str, path: str, body=None, what: str = "calls", key: str = "own") -> Answer:
            data = b"" if body is None else json.dumps(body).encode()
            writer.write(self.head(method, path, len(data), key) + data)
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CALL_PATIENCE)).lower()
            status = int(head.split(b" ", 2)[1])
            if b"content-length:" in head:
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                return self.note(Answer(status, await reader.readexactly(length)), what)
            content = b""
            while b"chunked" in head:
                size = int(await reader.readuntil(b"\r\n"), 16)
                content += (await reader.readexactly(size + 2))[:size][: ANSWER_BYTES_KEPT - len(content)]
                if size == 0:
                    break
            return self.note(Answer(status, content), what)

        try:
            yield ask
        finally:
            writer.close()

    async def flood(self, step) -> None:
        """Calls `step(ask)` again and again, on a new connection after each failure."""
        while self.going:
            try:
                async with self.line() as ask:
                    while self.going:
                        answer = await step(ask)
                        if answer.status in (429, 503):
                            await self.pause(0.02)
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                self.refused["closed"] += 1
                await self.pause(0.1)

    # Connections that stay.

    async def open(self, request: bytes, window: int | None = None, source: str | None = None) -> socket.socket | None:
        """A connection on which the beginning of a request was sent; nothing of the answer is read."""
        stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sockets.add(stream)
        try:
            stream.setblocking(False)
            if window:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            if source:
                stream.bind((source, 0))
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(stream, self.address), 5)
            await asyncio.wait_for(loop.sock_sendall(stream, request), 5)
            self.done["connections"] += 1
            return stream
        except (OSError, asyncio.TimeoutError):
            self.refused["not connected"] += 1
            self.drop(stream)
            return None

    def drop(self, stream: socket.socket) -> None:
        self.sockets.discard(stream)
        stream.close()

    async def hold(self, count: int, opener, each=None) -> None:
        """Keeps so many connections open until the siege ends: those that the server closes are opened again.

        `opener()` opens one, `each(stream)` is done to every one in each round.
        """
        held: list[socket.socket] = []
        while self.going:
            new = []
            for _ in range(0, min(count - len(held), OPENED_PER_ROUND_MAX), OPENED_AT_ONCE):
                opened = await asyncio.gather(*(opener() for _ in range(min(OPENED_AT_ONCE, count - len(held)))))
                new += [stream for stream in opened if stream is not None]
                if not self.going:
                    return
            await self.pause(ROUND_SECONDS)
            held = [stream for stream in held + new if self._is_alive(stream)]
            for stream in held if each else ():
                with contextlib.suppress(OSError):
                    each(stream)
            self.ready()

    def _is_alive(self, stream: socket.socket) -> bool:
        """Whether the server keeps the connection and has not refused the request."""
        try:
            begin = stream.recv(12, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if not begin or (begin.startswith(b"HTTP/1.1 ") and begin[9:10] in b"45"):
                self.refused[begin[9:12].decode() or "closed"] += 1
                self.drop(stream)
                return False
        except BlockingIOError:
            pass
        except OSError:
            self.refused["closed"] += 1
            self.drop(stream)
            return False
        poll = select.poll()
        poll.register(stream, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        if poll.poll(0):
            self.refused["closed"] += 1
            self.drop(stream)
            return False
        return True

    # Sandboxes.

    async def sandbox(self, **fields) -> str | None:
        """The id of a new sandbox, or None if the server refuses one."""
        answer = await self.call("POST", "/v1/sandboxes", fields, what="sandboxes")
        if answer.status != 201:
            return None
        made = answer.json["id"]
        self.sandboxes.add(made)
        return made

    async def some_sandbox(self, **fields) -> str | None:
        """A sandbox, asked for until the server makes one or the siege ends."""
        while self.going:
            if made := await self.sandbox(**fields):
                return made
            await self.pause(0.5 + random.random())
        return None

    async def fleet(self, count: int, prepare=None, **fields) -> list[str]:
        """As many sandboxes as the server makes of this number, eight at a time; `prepare(id)` in each."""
        left, made = iter(range(count)), []

        async def builder() -> None:
            for _ in left:
                if not self.going:
                    return
                if (sandbox := await self.sandbox(**fields)) is not None:
                    if prepare:
                        await prepare(sandbox)
                    made.append(sandbox)

        await asyncio.gather(*(builder() for _ in range(min(8, count))))
        return made

    async def delete(self, sandbox: str) -> None:
        await self.call("DELETE", f"/v1/sandboxes/{sandbox}", what="deletes")
        self.sandboxes.discard(sandbox)

    async def cell(self, sandbox: str, code: str, what: str = "cells", **fields) -> Answer:
        return await self.call("POST", f"/v1/sandboxes/{sandbox}/cells", {"code": code, **fields}, what=what)

    async def finished(self, sandbox: str, patience: float = 60.0) -> bool:
        """Waits until no cell runs in it, without asking for what the cells have printed."""
        for _ in range(int(patience / 0.2)):
            if not self.going:
                return False
            answer = await self.call("GET", f"/v1/sandboxes/{sandbox}/kernels", what="looks")
            if answer.status == 200 and b'"busy"' not in answer.body:
                return True
            await self.pause(0.2)
        return False

    async def clean_up(self) -> None:
        """Closes every connection and deletes every sandbox of the key, also one whose answer was not awaited."""
        for stream in list(self.sockets):
            self.drop(stream)
        for _ in range(CLEAN_UP_ROUNDS):
            answer = await self.call("GET", "/v1/sandboxes?limit=100", what="looks")
            found = [one["id"] for one in answer.json["sandboxes"]] if answer.status == 200 else []
            left = list(self.sandboxes.union(found))
            if answer.status == 200 and not left:
                return
            for start in range(0, len(left), 8):
                await asyncio.gather(*(self.delete(sandbox) for sandbox in left[start : start + 8]))
            await asyncio.sleep(0.1)
