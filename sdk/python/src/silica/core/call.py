"""A request and the parser of its answer, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

from silica.core.problem import error_of
from silica.errors import BadAnswer

T_co = TypeVar("T_co", covariant=True)

_GOOD = range(200, 300)
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Source(Protocol):
    """A body that is read while it is sent."""

    @property
    def size(self) -> int | None:
        """The size in bytes, or None if it is unknown before the end."""

    @property
    def replayable(self) -> bool:
        """Whether `chunks` can be called again, for another attempt."""

    def chunks(self) -> Iterator[bytes]:
        """Yields the body from its start. May block."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """A request. `patience`, in seconds, replaces the timeout of the client for the answer."""

    method: str
    path: str
    parse: Callable[[Answer], T_co]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, object] | None = None
    body: bytes | Source | None = None
    repeatable: bool = False
    patience: float | None = None

    @property
    def idempotent(self) -> bool:
        """Whether sending the request twice has the effect of once, and its body is repeatable."""
        again = self.body is None or isinstance(self.body, bytes) or self.body.replayable
        return again and (self.repeatable or self.method in _IDEMPOTENT)

    def read(self, answer: Answer) -> T_co:
        """Returns the parsed answer, or raises the error that it reports."""
        check(answer)
        return self.parse(answer)


def check(answer: Answer) -> None:
    """Raises the error that the answer reports, if any."""
    if answer.status not in _GOOD:
        raise error_of(answer)


def path_of(*segments: str) -> str:
    """Joins segments below `/v1`, escaped; raises ValueError for one that would change the path."""
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"{segment!r} is not a valid id")
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def nothing(answer: Answer) -> None:
    """Parses an answer whose body is not used."""
    del answer


def raw(answer: Answer) -> bytes:
    """Returns the body of an answer that is not JSON."""
    return answer.body


def of_stream(answer: Answer) -> None:
    """Is the parser of requests whose body is streamed; always raises."""
    raise BadAnswer(f"an answer {answer.status} that must be streamed was read as a whole")
