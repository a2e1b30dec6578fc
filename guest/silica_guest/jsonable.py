"""Any Python value as strict JSON: the bytes of every JSON payload.

Owns how foreign values (numpy, pandas, dates, nested objects) are said in
JSON, and the bounds of that. What comes out is ASCII, holds no NaN or
Infinity, and is the same for the same value. Loaded only when a result has a
JSON representation.
"""

from __future__ import annotations

import codecs
import datetime
import sys
from math import isfinite

from silica_guest import wire

NODES_MAX = 1_000_000
DEPTH_MAX = 64
# Beyond these, readers that keep numbers in 64 bits change them; text keeps every digit.
INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 64) - 1
ESCAPES = "silica_guest.json_escapes"


class TooMuch(ValueError):
    """A value has more parts than a result may have."""


def encode(value: object) -> bytes:
    """Returns `value` as JSON; raises `TooMuch` when it has no end worth sending."""
    try:
        raw = wire.encode_json(value)
    except Exception:  # NaN, a foreign type, a cycle, or a container that raises.
        raw = wire.encode_json(Converter().value(value))
    return raw if raw.isascii() else raw.decode("utf-8").encode("ascii", ESCAPES)


def normalise(text: str) -> bytes:
    """Returns JSON that came as text in our form; text that is not JSON becomes a JSON string."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return encode(value)


class Converter:
    """Turns values into what JSON can say, and counts what it took."""

    def __init__(self, text_chars_max: int = sys.maxsize) -> None:
        self.text_chars_max = text_chars_max
        self.nodes_left = NODES_MAX
        self.path: set[int] = set()
        self.chars = 0
        self.cut = False

    def value(self, value: object, depth: int = 0) -> object:
        """Returns `value` as None, bool, int, float, str, list or dict, whatever it is."""
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
        except Exception:  # A method of the user's that raises.
            return self._described(value)

    def text(self, value: str) -> str:
        """Returns `value`, cut when it is too long."""
        if len(value) > self.text_chars_max:
            self.cut = True
            value = value[: self.text_chars_max]
        self.chars += len(value)
        return value

    def key(self, value: object) -> str:
        """Returns `value` as the name of a member."""
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
        # The order of a set changes from process to process.
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
            # Finer units come out of `tolist` as bare integers.
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
    """Returns a date, time or duration in ISO 8601; pandas' NaT is a kind of date."""
    if value != value:
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"


def _escape(error: UnicodeEncodeError) -> tuple[str, int]:
    """Writes what is not ASCII the way JSON does, above U+FFFF as a pair."""
    units = error.object[error.start : error.end].encode("utf-16-be")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(["\\u" + pair for pair in pairs]), error.end


codecs.register_error(ESCAPES, _escape)
