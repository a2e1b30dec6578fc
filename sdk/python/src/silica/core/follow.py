"""Follows the events of a cell or a command to their end, through broken connections.

Events are numbered. A stream that breaks is opened again after the last number that was heard, so
nothing is missed and nothing is heard twice. The one thing that cannot be made good is a break
before the server has said which cell it is.
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

# Breaks in a row, without a byte in between, after which following is given up.
RESUME_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class Followed(Generic[E]):
    """What is followed: how its events are read, asked for again, and its state found out."""

    noun: str
    read: Callable[[Message], E | None]
    events: Callable[[str, int], Call[object]]
    is_done: Callable[[str], Call[bool]]


class Follower(Generic[E]):
    """One client's view of one cell or command. `id` is empty until it is known."""

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
        """Starts what is to be followed, by the request that also streams it."""
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
        """Takes in what the stream has, or gets a stream that has something."""
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
        # Also a comment is a sign of life.
        self._failures = 0
        for message in self._parser.feed(piece):
            number = number_of(message)
            # A gap has nothing of its own to be heard twice, and may come without a number.
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
        """Gets ready to open the stream again, or finds that there is nothing more to hear."""
        silent = not self._heard_on_stream
        yield from self._close()
        if not self.id:
            raise ConnectionLost(
                f"the connection broke before the server named the {self._followed.noun}; "
                "it may or may not be running"
            ) from broken
        if broken is None and silent and (yield from send(self._followed.is_done(self.id))):
            self._finished = True
            return
        self._failures += 1
        if self._failures > RESUME_ATTEMPTS:
            raise ConnectionLost(
                f"the connection broke {self._failures} times in a row; "
                f"{self._followed.noun} {self.id} may still be running and can be asked for"
            ) from broken
        yield Sleep(pause(self._failures))

    def _close(self) -> Flow[None]:
        stream, self._stream = self._stream, None
        self._parser, self._heard_on_stream = Parser(), False
        if stream is not None:
            yield Close(stream)


def _named_by(head: Answer) -> str:
    """Returns the id that the head of a stream carries, if it does, before any event has come."""
    return head.headers.get("location", "").rstrip("/").rsplit("/", 1)[-1]
