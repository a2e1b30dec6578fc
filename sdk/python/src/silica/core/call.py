"""One request and what to make of its answer, as values."""

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
    """A whole answer. Names of `headers` are looked up in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Source(Protocol):
    """A body that is read while it is sent."""

    @property
    def size(self) -> int | None:
        """Bytes in all, or None if nobody knows before the end."""

    @property
    def replayable(self) -> bool:
        """Whether `chunks` can be called again, for another attempt."""

    def chunks(self) -> Iterator[bytes]:
        """Reads it from the start. May block."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """A request. `patience` is how long it may take to answer, in place of the client's timeout."""

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
        """Whether doing it twice is the same as doing it once, and the body is there to do so."""
        again = self.body is None or isinstance(self.body, bytes) or self.body.replayable
        return again and (self.repeatable or self.method in _IDEMPOTENT)

    def read(self, answer: Answer) -> T_co:
        """Returns what the answer says, or raises what it complains about."""
        check(answer)
        return self.parse(answer)


def check(answer: Answer) -> None:
    """Raises the error that the answer stands for, if it does."""
    if answer.status not in _GOOD:
        raise error_of(answer)


def path_of(*segments: str) -> str:
    """Joins segments below `/v1`; none of them can reach out of its place."""
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"{segment!r} is no id")
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def nothing(answer: Answer) -> None:
    """Parses an answer of which only the status matters."""
    del answer


def raw(answer: Answer) -> bytes:
    """Parses an answer that is not JSON."""
    return answer.body


def of_stream(answer: Answer) -> None:
    """Stands in for a parser where the body is read piece by piece."""
    raise BadAnswer(f"an answer {answer.status} was read whole that should have been streamed")
