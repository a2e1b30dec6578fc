"""Reads the events of a cell or a command to the end, and resumes after broken connections.

Events are numbered. A broken stream is reopened after the last number that was received, so no
event is lost or repeated. It cannot be resumed if it breaks before the server has sent the id of
the cell or command.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, Union

from silica.core.flow import Close, Flow, Read, Sleep, Stream, open_stream, send
from silica.core.retry import pause
from silica.core.sse import Message, Parser
from silica.errors import CannotConnect, ConnectionLost, TimedOut
from silica.events import CellEvent, CommandEvent, Done, Exited, Start, number_of

if TYPE_CHECKING:
    from silica.core.call import Answer, Call

E = TypeVar("E", bound=Union[CellEvent, CommandEvent])

# Consecutive failures, without a byte received between them, after which the stream is abandoned.
RESUME_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class Followed(Generic[E]):
    """How to parse the events of a cell or command, to request them, and to request its state."""

    noun: str
    read: Callable[[Message], E | None]
    events: Callable[[str, int], Call[object]]
    is_done: Callable[[str], Call[bool]]


class Follower(Generic[E]):
    """Reads the events of one cell or command. `id` is empty until it is known."""

    def __init__(self, followed: Followed[E], *, id: str = "", after: int = 0) -> None:
        self.id = id
        self._followed = followed
        self._after = after
        self._stream: Stream | None = None
        self._parser = Parser()
        self._waiting: deque[E] = deque()
        self._heard_on_stream = False
        self._failures = 0
        self._finished = False

    def begin(self, call: Call[object]) -> Flow[None]:
        """Sends the request that starts the cell or command and streams its events."""
        self._stream = yield from open_stream(call)
        self.id = self.id or _named_by(self._stream.head)

    def next(self) -> Flow[E | None]:
        """Returns the next event, or None after the last."""
        while not self._waiting:
            if self._finished:
                yield from self._close()
                return None
            yield from self._fill()
        event = self._waiting.popleft()
        self._finished = self._finished or isinstance(event, (Done, Exited))
        return event

    def _fill(self) -> Flow[None]:
        """Reads from the stream; opens or reopens it if needed."""
        broken: Exception | None = None
        try:
            if self._stream is None:
                self._stream = yield from open_stream(self._followed.events(self.id, self._after))
            piece: bytes = yield Read(self._stream)
        except (CannotConnect, ConnectionLost, TimedOut) as error:
            piece, broken = b"", error
        if piece:
            self._take(piece)
        else:
            yield from self._recover(broken)

    def _take(self, piece: bytes) -> None:
        # Any bytes, also a comment, show that the connection works.
        self._failures = 0
        for message in self._parser.feed(piece):
            number = number_of(message)
            # A gap may have no number, and receiving it twice is harmless.
            if number <= self._after and message.event != "gap":
                continue
            self._after = max(number, self._after)
            self._heard_on_stream = True
            event = self._followed.read(message)
            if event is None:
                continue
            if isinstance(event, Start):
                self.id = self.id or event.of
            self._waiting.append(event)

    def _recover(self, broken: Exception | None) -> Flow[None]:
        """Waits before the stream is reopened, or finds that the cell or command has ended."""
        silent = not self._heard_on_stream
        yield from self._close()
        if not self.id:
            raise ConnectionLost(
                f"the connection broke before the server sent the id of the {self._followed.noun}; "
                "it may be running"
            ) from broken
        if broken is None and silent and (yield from send(self._followed.is_done(self.id))):
            self._finished = True
            return
        self._failures += 1
        if self._failures > RESUME_ATTEMPTS:
            raise ConnectionLost(
                f"the connection broke {self._failures} times in a row; {self._followed.noun} "
                f"{self.id} may still be running, and its state can be requested by its id"
            ) from broken
        yield Sleep(pause(self._failures))

    def _close(self) -> Flow[None]:
        stream, self._stream = self._stream, None
        self._parser, self._heard_on_stream = Parser(), False
        if stream is not None:
            yield Close(stream)


def _named_by(head: Answer) -> str:
    """Returns the id in the Location header of a stream, which precedes the first event."""
    return head.headers.get("location", "").rstrip("/").rsplit("/", 1)[-1]
