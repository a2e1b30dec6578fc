"""Operations of several steps, written once for the blocking and the asynchronous client.

A flow is a generator. It yields an effect, such as a request to send, and receives the result of
the effect or its exception. The clients perform the effects; a flow decides on the next one and
never blocks itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, Union

from silica.core.call import Answer, Call, check

T = TypeVar("T")


class Stream(Protocol):
    """An answer whose body has not been read yet. Each client has its own type of it."""

    @property
    def head(self) -> Answer:
        """Status and headers, and the body if the status is an error."""


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a request; its result is the complete `Answer`."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Open:
    """Sends a request; its result is a `Stream`, which is closed with the flow if not before."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Read:
    """Reads from a stream; its result is bytes, empty at the end."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Close:
    """Closes a stream."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class Sleep:
    """Waits for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Notify:
    """Calls the user's callback, and awaits it if it is asynchronous."""

    callback: Callable[[Any], object]
    value: object


@dataclass(frozen=True, slots=True)
class Work:
    """Calls a function that may block on a local file; its result is what the function returns."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Passes a value to the caller that iterates over the flow."""

    value: T


# The effects that a client performs itself.
Outside = Union[Send, Open, Read, Close, Sleep, Notify, Work]
Effect = Union[Outside, Emit[Any]]
Flow = Generator[Effect, Any, T]


def send(call: Call[T]) -> Flow[T]:
    """Sends a request and returns the parsed answer."""
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
    """The state of a flow. The client stores the result of an effect in `value` or `error`."""

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.value: Any = None
        self.error: BaseException | None = None
        self._result: list[T] = []

    def advance(self) -> Effect | None:
        """Returns the next effect, or None at the end of the flow."""
        value, error = self.value, self.error
        self.value = self.error = None
        try:
            return self._flow.send(value) if error is None else self._flow.throw(error)
        except StopIteration as stop:
            self._result.append(stop.value)
            return None

    @property
    def over(self) -> bool:
        """Whether the flow has returned or raised."""
        return inspect.getgeneratorstate(self._flow) == inspect.GEN_CLOSED

    @property
    def result(self) -> T:
        """The return value of the flow."""
        return self._result[0]

    def close(self) -> None:
        """Ends the flow, if it has not ended."""
        self._flow.close()
