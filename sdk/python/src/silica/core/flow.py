"""Work that takes several steps, written once for blocking and for asynchronous callers.

A flow is a generator. It yields an effect, something that has to be done outside, and gets back
what came of it, or the exception. Clients carry effects out, each in its own way; a flow decides
what comes next and never blocks by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, Union

from silica.core.call import Answer, Call, check

T = TypeVar("T")


class Stream(Protocol):
    """An answer whose body is still to be read. Only clients know more of it."""

    @property
    def head(self) -> Answer:
        """Status and headers, and the body if the status is an error."""


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a request; gives the whole `Answer`."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Open:
    """Sends a request; gives a `Stream`, closed with the flow if not before."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Read:
    """Reads more of a stream; gives bytes, none at the end."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Close:
    """Closes a stream."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Sleep:
    """Waits."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Calls the user's callback, and awaits it if it is asynchronous."""

    callback: Callable[[Any], object]
    value: object


@dataclass(frozen=True, slots=True)
class Work:
    """Calls a function that may block on a local file; gives what it returns."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Hands a value to whoever iterates over the flow."""

    value: T


# What has to be done, as opposed to handed on.
Outside = Union[Send, Open, Read, Close, Sleep, Tell, Work]
Effect = Union[Outside, Emit[Any]]
Flow = Generator[Effect, Any, T]


def send(call: Call[T]) -> Flow[T]:
    """Sends a request and returns what the answer says."""
    answer: Answer = yield Send(call)
    return call.read(answer)


def open_stream(call: Call[object]) -> Flow[Stream]:
    """Sends a request and returns the stream of its answer."""
    stream: Stream = yield Open(call)
    check(stream.head)
    return stream


def work(function: Callable[[], T]) -> Flow[T]:
    """Calls a function that may block."""
    result: T = yield Work(function)
    return result


class Progress(Generic[T]):
    """How far a flow has come. What an effect came to is left in `value` or `error`."""

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.value: Any = None
        self.error: BaseException | None = None
        self._result: list[T] = []

    def advance(self) -> Effect | None:
        """Returns the next effect, or None when the flow is through."""
        value, error = self.value, self.error
        self.value = self.error = None
        try:
            return self._flow.send(value) if error is None else self._flow.throw(error)
        except StopIteration as stop:
            self._result.append(stop.value)
            return None

    @property
    def over(self) -> bool:
        """Whether the flow has returned or raised, and takes nothing more."""
        return inspect.getgeneratorstate(self._flow) == inspect.GEN_CLOSED

    @property
    def result(self) -> T:
        """What the flow returned."""
        return self._result[0]

    def close(self) -> None:
        """Gives the flow up, if it is not through."""
        self._flow.close()
