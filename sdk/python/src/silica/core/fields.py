"""Reads JSON objects field by field, with types.

Unknown fields are ignored, so that an older client works with a newer server. A required field that
is missing, and any field of the wrong type, raises a `BadAnswer` that names it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from silica.errors import BadAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from silica.core.call import Answer

T = TypeVar("T")

_MISSING = object()


class Fields:
    """One JSON object; `what` names it in errors."""

    __slots__ = ("_values", "_what")

    def __init__(self, values: object, what: str) -> None:
        if not isinstance(values, dict):
            raise BadAnswer(f"{what} must be a JSON object and is a {type(values).__name__}")
        self._values: dict[str, Any] = values
        self._what = what

    @classmethod
    def of(cls, text: str | bytes, what: str) -> Fields:
        """Parses one JSON object; raises `BadAnswer` if `text` is not one."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadAnswer(f"{what} is not JSON: {error}") from error
        return cls(values, what)

    @property
    def values(self) -> dict[str, Any]:
        """The JSON object itself."""
        return self._values

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a string."""
        return self._typed(name, str, default)

    def text_or_none(self, name: str) -> str | None:
        """Returns a string, or None if it is null or missing."""
        return self._or_none(name, str)

    def whole(self, name: str, default: int | None = None) -> int:
        """Returns an integer."""
        return self._typed(name, int, default)

    def whole_or_none(self, name: str) -> int | None:
        """Returns an integer, or None if it is null or missing."""
        return self._or_none(name, int)

    def number_or_none(self, name: str) -> float | None:
        """Returns a number, or None if it is null or missing."""
        value = self._values.get(name)
        return None if value is None else float(self._checked(name, value, (int, float)))

    def flag(self, name: str, *, default: bool) -> bool:
        """Returns a boolean."""
        value = self._values.get(name)
        return default if value is None else self._checked(name, value, bool)

    def flag_or_none(self, name: str) -> bool | None:
        """Returns a boolean, or None if it is null or missing."""
        return self._or_none(name, bool)

    def object(self, name: str) -> dict[str, Any]:
        """Returns an object without parsing it; an empty one if it is null or missing."""
        return self._or_none(name, dict) or {}

    def sub(self, name: str) -> Fields:
        """Returns an object as `Fields`; an empty one if it is null or missing."""
        return Fields(self.object(name), f"{name} of {self._what}")

    def sub_or_none(self, name: str, parse: Callable[[Fields], T]) -> T | None:
        """Parses an object, or returns None if it is null or missing."""
        return None if self._values.get(name) is None else parse(self.sub(name))

    def many(self, name: str, parse: Callable[[Fields], T]) -> list[T]:
        """Parses each object of a list; an empty one if it is null or missing."""
        items = self._or_none(name, list) or []
        return [parse(Fields(item, f"one of {name} of {self._what}")) for item in items]

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings; an empty one if it is null or missing."""
        return [self._checked(name, item, str) for item in self._or_none(name, list) or []]

    def wholes(self, name: str) -> list[int]:
        """Returns a list of integers; an empty one if it is null or missing."""
        return [self._checked(name, item, int) for item in self._or_none(name, list) or []]

    def time_or_none(self, name: str) -> datetime | None:
        """Returns a time with its time zone, or None if it is null or missing."""
        text = self.text_or_none(name)
        return None if text is None else self._moment(name, text)

    def time(self, name: str) -> datetime:
        """Returns a time with its time zone."""
        return self._moment(name, self.text(name))

    def _moment(self, name: str, text: str) -> datetime:
        try:
            # Python before 3.11 does not parse the suffix Z.
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError as error:
            raise BadAnswer(f"{name} of {self._what} is not a valid time: {text!r}") from error

    def _typed(self, name: str, kind: type[T], default: T | None) -> T:
        value = self._values.get(name, _MISSING if default is None else default)
        if value is _MISSING:
            raise BadAnswer(f"{self._what} has no {name}")
        if value is None and default is not None:
            return default
        return self._checked(name, value, kind)

    def _or_none(self, name: str, kind: type[T]) -> T | None:
        value = self._values.get(name)
        return None if value is None else self._checked(name, value, kind)

    def _checked(self, name: str, value: Any, kind: type[T] | tuple[type[T], ...]) -> T:
        # In Python a boolean is an instance of int, in JSON it is not a number.
        wrong = isinstance(value, bool) and kind is not bool
        if wrong or not isinstance(value, kind):
            raise BadAnswer(f"{name} of {self._what} is a {type(value).__name__}")
        return value


def parsed(what: str, parse: Callable[[Fields], T]) -> Callable[[Answer], T]:
    """Returns a parser of answers, from a parser of objects."""
    return lambda answer: parse(Fields.of(answer.body, what))
