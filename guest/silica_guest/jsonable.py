"""Converts any Python value to strict JSON, for the JSON payloads of results.

Owns the JSON form of foreign values (numpy, pandas, dates, nested objects) and
its bounds. The output is ASCII, has no NaN or Infinity, and is deterministic.
Loaded only if a result has a JSON representation.
"""

from __future__ import annotations

import codecs
import datetime
import sys
from math import isfinite

from silica_guest import wire

NODES_MAX = 1_000_000
DEPTH_MAX = 64
# Readers with 64-bit numbers would change integers beyond these; those are sent as text.
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 64) - 1
ESCAPES = "silica_guest.json_escapes"


class TooMuch(ValueError):
    """A value has more than NODES_MAX parts."""


def encode(value: object) -> bytes:
    """Returns `value` as JSON; raises `TooMuch` if it has more than NODES_MAX parts."""
    try:
        raw = wire.encode_json(value)
    except Exception:  # NaN, a foreign type, a cycle, or a container that raises.
        raw = wire.encode_json(Converter().value(value))
    return raw if raw.isascii() else raw.decode("utf-8").encode("ascii", ESCAPES)


def normalise(text: str) -> bytes:
    """Returns JSON text in the form that `encode` gives it; other text becomes a JSON string."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return encode(value)


class Converter:
    """Converts values to types that JSON has, and counts nodes and characters."""

    def __init__(self, text_chars_max: int = sys.maxsize) -> None:
        self.text_chars_max = text_chars_max
        self.nodes_left = NODES_MAX
        self.path: set[int] = set()
        self.chars = 0
        self.cut = False

    def value(self, value: object, depth: int = 0) -> object:
        """Returns any `value` as None, bool, int, float, str, list or dict; raises `TooMuch`."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if value is None or kind is bool:
            return value
        if kind is float:
            return value if isfinite(value) else None
        if kind is int and INTEGER_MIN <= value <= INTEGER_MAX:
            return value
        self.nodes_left -= 1
        if self.nodes_left < 0:
            raise TooMuch
        try:
            return self._foreign(value, depth)
        except TooMuch:
            raise
        except Exception:  # A method of a user's class raised.
            return self._described(value)

    def text(self, value: str) -> str:
        """Returns `value`, truncated to `text_chars_max` characters."""
        if len(value) > self.text_chars_max:
            self.cut = True
            value = value[: self.text_chars_max]
        self.chars += len(value)
        return value

    def key(self, value: object) -> str:
        """Returns `value` as the key of a JSON object."""
        converted = self.value(value)
        return converted if type(converted) is str else wire.encode_json(converted).decode()

    def _foreign(self, value: object, depth: int) -> object:
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, float):
            return self.value(float.__float__(value))
        if isinstance(value, int):
            return self._integer(int.__int__(value))
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            return self._container(value, depth)
        if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
            return _moment(value)
        if isinstance(value, (bytes, bytearray)):
            return self.text(bytes(value).decode("utf-8", "backslashreplace"))
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)):
            return self._numpy(numpy, value, depth)
        name = type(value).__name__
        if name == "NAType" or (name == "Decimal" and not value.is_finite()):
            return None
        return self._described(value)

    def _integer(self, value: int) -> object:
        return value if INTEGER_MIN <= value <= INTEGER_MAX else self.text(str(value))

    def _container(self, value: object, depth: int) -> object:
        if depth >= DEPTH_MAX or id(value) in self.path:
            return f"<{type(value).__name__}>"
        self.path.add(id(value))
        if isinstance(value, dict):
            items = {self.key(name): self._item(item, depth) for name, item in dict.items(value)}
        else:
            items = [self._item(item, depth) for item in value]
        self.path.discard(id(value))
        # The order of a set differs between processes.
        return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items

    def _item(self, value: object, depth: int) -> object:
        self.nodes_left -= 1
        if self.nodes_left < 0:
            raise TooMuch
        return self.value(value, depth + 1)

    def _numpy(self, numpy: object, value: object, depth: int) -> object:
        if value.size > self.nodes_left:
            raise TooMuch
        if value.dtype.kind in "mM":
            # `tolist` returns finer units as plain integers.
            value = value.astype(f"{value.dtype.kind}8[us]")
        if value.dtype.kind == "f":
            value = value.astype("f8")  # `longdouble` has no Python form of its own.
        plain = value.tolist()
        return self._described(value) if isinstance(plain, numpy.generic) else self.value(plain, depth)

    def _described(self, value: object) -> str:
        try:
            return self.text(str.__str__(str(value)))
        except Exception:
            return f"<{type(value).__name__}>"


def _moment(value: object) -> str | None:
    """Returns a date, time or duration in ISO 8601; None for pandas' NaT, which is an instance of datetime."""
    if value != value:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"


def _escape(error: UnicodeEncodeError) -> tuple[str, int]:
    """Encodes non-ASCII characters as JSON escapes, those above U+FFFF as surrogate pairs."""
    units = error.object[error.start : error.end].encode("utf-16-be")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(["\\u" + pair for pair in pairs]), error.end


codecs.register_error(ESCAPES, _escape)
