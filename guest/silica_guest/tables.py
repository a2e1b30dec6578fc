"""Converts a pandas DataFrame or Series to data: one list of values for each column.

Owns the shape of that MIME type and its bounds. Imported only when a table is
shown. It never calls the `to_*` methods, which subclasses override and which
copy the whole table.
"""

from __future__ import annotations

import sys
from math import isfinite

from silica_guest.jsonable import Converter

MIME = "application/vnd.silica.data+json"
ROWS_MAX = 2_000
COLUMNS_MAX = 200
CELLS_MAX = 20_000
CELL_CHARS_MAX = 10_000
CHARS_MAX = 1 << 20
NAME_CHARS_MAX = 200


def bundle(value: object) -> tuple[dict, dict]:
    """Returns MIME data and metadata of a table; both are empty if the table cannot be read."""
    try:
        columns, about = _describe(value)
    except Exception:  # A subclass may raise anything. The other representations are not affected.
        return {}, {}
    return {MIME: columns}, {MIME: about}


def _describe(value: object) -> tuple[dict, dict]:
    """Returns the columns and their metadata. The index comes first, unless it only numbers the rows."""
    series = isinstance(value, sys.modules["pandas"].Series)
    rows, width = len(value), 1 if series else len(value.columns)
    levels = _levels(value.index)
    shown = min(width, COLUMNS_MAX)
    kept = min(rows, ROWS_MAX, CELLS_MAX // max(shown + len(levels), 1))
    convert = Converter(CELL_CHARS_MAX)
    columns: dict[str, list] = {}
    for name, level in levels:
        columns[_free(name, columns)] = _values(level[:kept], convert)
    index = list(columns)
    head = value.iloc[:kept] if series else value.iloc[:kept, :shown]
    for label, column in [(0 if value.name is None else value.name, head)] if series else head.items():
        columns[_free(_name(label), columns)] = _values(column, convert)
    if convert.chars > CHARS_MAX:
        kept = kept * CHARS_MAX // convert.chars
        columns = {name: values[:kept] for name, values in columns.items()}
    truncated = convert.cut or kept < rows or shown < width
    return columns, {"rows": rows, "columns": width, "index": index, "truncated": truncated}


def _levels(index: object) -> list[tuple[str, object]]:
    """Returns the names and values of the index levels, named as by `reset_index`; none if it only numbers the rows."""
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1 and index.name is None:
        return []
    if index.nlevels == 1:
        return [("index" if index.name is None else _name(index.name), index)]
    levels = enumerate(index.names[:COLUMNS_MAX])
    return [(f"level_{at}" if name is None else _name(name), index.get_level_values(at)) for at, name in levels]


def _name(label: object) -> str:
    """Returns a column's label as text, the levels of a MultiIndex joined by dots."""
    if type(label) is str:
        return label[:NAME_CHARS_MAX]
    if isinstance(label, tuple):
        parts = [_name(part) for part in label[:COLUMNS_MAX]]
        return ".".join([part for part in parts if part])[:NAME_CHARS_MAX]
    return Converter(NAME_CHARS_MAX).key(label)[:NAME_CHARS_MAX]


def _free(name: str, taken: dict) -> str:
    """Returns `name`, or the first free one of `name.1`, `name.2`, …, as pandas does for repeated headers."""
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}.{number}"
    return free


def _values(column: object, convert: Converter) -> list:
    kind = column.dtype.kind if type(column.dtype).__module__.startswith("numpy") else "O"
    dates = _whole_seconds(column) if kind == "M" else None
    if dates is not None:
        return dates
    values = column.tolist()
    if kind in "iub":
        return values
    if kind == "f" and column.dtype.itemsize <= 8:
        return values if all(map(isfinite, values)) else [each if isfinite(each) else None for each in values]
    return [convert.value(each) for each in values]


def _whole_seconds(column: object) -> list[str | None] | None:
    """Returns dates as text, converted in one call; None if some have fractions of a second."""
    numpy = sys.modules["numpy"]
    dates = column.to_numpy()
    seconds = dates.astype("M8[s]")
    missing = numpy.isnat(dates)
    if not ((seconds == dates) | missing).all():
        return None
    texts = numpy.datetime_as_string(seconds).tolist()
    return [None if gone else text for text, gone in zip(texts, missing.tolist())]
