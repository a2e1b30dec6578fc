"""Turns values and IPython's MIME data into the payloads of a result frame.

Owns the fast path for plain builtins, the byte form of every MIME type and
the size limit of a bundle. A payload is a pair of MIME type and bytes.
"""

from __future__ import annotations

from silica_guest import wire

MIMES_MAX = 64
MIME_CHARS_MAX = 255
METADATA_BYTES_MAX = 64 << 10
# IPython breaks longer values into lines; up to this length its text is that of repr().
LINE_CHARS_MAX = 72
DEPTH_MAX = 4

BINARY = ("application/pdf", "application/octet-stream", "application/zip")
_SCALARS = frozenset((int, float, bool, str, bytes, complex, type(None), type(...)))


def plain_text(value: object) -> str | None:
    """Returns the text IPython would show for a plain builtin; None for values that IPython must format."""
    kind = type(value)
    if kind in _SCALARS:
        return repr(value)
    if kind not in (list, tuple, dict) or len(value) > LINE_CHARS_MAX or not _is_plain(value, DEPTH_MAX):
        return None
    text = repr(value)
    return text if len(text) <= LINE_CHARS_MAX else None


def _is_plain(value: object, depth: int) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return True
    if depth == 0 or kind not in (list, tuple, dict) or len(value) > LINE_CHARS_MAX:
        return False
    if kind is dict and not all(_is_plain(item, depth - 1) for item in value.values()):
        return False
    return all(_is_plain(item, depth - 1) for item in value)


def payloads(data: dict, bytes_max: int) -> tuple[list[tuple[str, bytes]], bool]:
    """Returns MIME data as payloads, text/plain first, and whether one was dropped for its size.

    Values without a byte form are dropped as well.
    """
    found, too_large = [], False
    for mime, value in data.items():
        if not _is_mime(mime) or len(found) == MIMES_MAX:
            continue
        # Pillow offers every image twice; the lossless one is enough.
        if mime == "image/jpeg" and "image/png" in data:
            continue
        # Too large in any byte form, which has at least three quarters of the length: do not copy it.
        if isinstance(value, (str, bytes, bytearray)) and len(value) * 3 // 4 > bytes_max:
            too_large = True
            continue
        body = _payload(mime, value)
        if body is not None:
            found.insert(0 if mime == "text/plain" else len(found), (mime, body))
    return found, too_large


def _is_mime(mime: object) -> bool:
    """Returns whether the host accepts the type; it closes the connection on any other."""
    if type(mime) is not str or not 0 < len(mime) <= MIME_CHARS_MAX:
        return False
    return mime.isascii() and mime.isprintable() and " " not in mime


def is_json(mime: str) -> bool:
    """Returns whether payloads of a MIME type are JSON."""
    return mime == "application/json" or mime.endswith("+json")


def is_binary(mime: str) -> bool:
    """Returns whether payloads of a MIME type are bytes; as text they are base64, as in Jupyter."""
    if mime == "image/svg+xml":
        return False
    return mime.startswith(("image/", "audio/", "video/", "font/")) or mime in BINARY


def _payload(mime: str, value: object) -> bytes | None:
    try:
        if is_json(mime):
            return _json(value)
        if is_binary(mime):
            return _unbase64(value) if isinstance(value, str) else bytes(memoryview(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value).decode("utf-8", "backslashreplace")
        return value.encode("utf-8", "backslashreplace") if isinstance(value, str) else _json(value)
    except Exception:  # Values are the user's objects. One that raises must not affect the others.
        return None


def _json(value: object) -> bytes:
    from silica_guest import jsonable

    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value).decode("utf-8", "replace")
    return jsonable.normalise(value) if isinstance(value, str) else jsonable.encode(value)


def _unbase64(value: str) -> bytes:
    from binascii import a2b_base64

    return a2b_base64(value)


def safe_metadata(metadata: object) -> dict:
    """Returns the metadata as JSON values within METADATA_BYTES_MAX, or an empty dict if it cannot be."""
    if not metadata or not isinstance(metadata, dict):
        return {}
    from silica_guest.jsonable import Converter

    try:
        plain = Converter().value(metadata)
        return plain if len(wire.encode_json(plain)) <= METADATA_BYTES_MAX else {}
    except Exception:  # Too many values, too deep, or a user's object that raises.
        return {}


def fit(found: list[tuple[str, bytes]], bytes_max: int) -> list[tuple[str, bytes]]:
    """Returns the payloads that fit: drops the largest first and text/plain last, and truncates none."""
    kept = list(found)
    total = sum(len(body) for _, body in kept)
    while kept and total > bytes_max:
        rich = [item for item in kept if item[0] != "text/plain"]
        largest = max(rich or kept, key=lambda item: len(item[1]))
        kept.remove(largest)
        total -= len(largest[1])
    return kept
