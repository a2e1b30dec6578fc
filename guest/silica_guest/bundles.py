"""Turns values and IPython's MIME data into the payloads of a result frame.

Owns the short cut for plain builtins, the byte form of every MIME type and
the per-bundle size limit. A payload is a pair of MIME type and bytes.
"""

from __future__ import annotations

from silica_guest import wire

MIMES_MAX = 64
METADATA_BYTES_MAX = 64 << 10
# IPython breaks longer values over lines; up to here its text is repr().
LINE_CHARS_MAX = 72
DEPTH_MAX = 4

_SCALARS = frozenset((int, float, bool, str, bytes, complex, type(None), type(...)))


def plain_text(value: object) -> str | None:
    """Returns the text IPython would show for a plain builtin, or None when it must be asked."""
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


def payloads(data: dict) -> list[tuple[str, bytes]]:
    """Returns MIME data as payloads; what has no byte form is left out."""
    found = []
    for mime, value in data.items():
        if type(mime) is not str or len(mime) > 255 or len(found) == MIMES_MAX:
            continue
        # Pillow offers every image twice; the lossless one is enough.
        if mime == "image/jpeg" and "image/png" in data:
            continue
        body = _payload(mime, value)
        if body is not None:
            found.append((mime, body))
    return found


def _payload(mime: str, value: object) -> bytes | None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        if mime == "application/pdf" or (mime.startswith("image/") and mime != "image/svg+xml"):
            return _unbase64(value)
        return value.encode("utf-8", "backslashreplace")
    try:
        return wire.encode_json(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return None


def _unbase64(value: str) -> bytes | None:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(value)
    except (Error, ValueError):
        return None


def safe_metadata(metadata: object) -> dict:
    """Returns the metadata if it fits a head as JSON, else an empty object."""
    if not metadata or not isinstance(metadata, dict):
        return {}
    try:
        return metadata if len(wire.encode_json(metadata)) <= METADATA_BYTES_MAX else {}
    except (TypeError, ValueError, RecursionError):
        return {}


def fit(found: list[tuple[str, bytes]], bytes_max: int) -> list[tuple[str, bytes]]:
    """Returns what fits: the largest payloads go first, text/plain last, none of it cut."""
    kept = list(found)
    total = sum(len(body) for _, body in kept)
    while kept and total > bytes_max:
        rich = [item for item in kept if item[0] != "text/plain"]
        largest = max(rich or kept, key=lambda item: len(item[1]))
        kept.remove(largest)
        total -= len(largest[1])
    return kept
