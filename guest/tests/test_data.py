"""Tables as data: every kind of value, names, the index, bounds, and classes that mean harm."""

import pytest
from host import strict

DATA = "application/vnd.silica.data+json"
START = "import pandas as pd, numpy as np, datetime as dt, decimal, uuid, enum\n"


def data(host, code: str, **limits: int):
    """Runs a cell whose value is a table; returns its columns."""
    events, done = host.run(START + code, **limits)
    # pandas' own representations may complain on stderr.
    assert done["status"] == "ok" and events[-1][0] == "main", events
    return strict(events[-1][1][DATA])


def about(host, code: str) -> dict:
    """Returns what the metadata of the cell's result says about its data."""
    data(host, code)
    return host.metadata[DATA]


COLUMNS = {
    "integers": ("[1, -2, 3]", [1, -2, 3]),
    "unsigned": ("np.array([2**64 - 1], 'u8')", [2**64 - 1]),
    "beyond 64 bits": ("[2**64, -10**30]", ["18446744073709551616", "-1000000000000000000000000000000"]),
    "floats": ("[0.1, np.nan, np.inf, -np.inf]", [0.1, None, None, None]),
    "small floats": ("np.array([0.5], 'f2')", [0.5]),
    "long doubles": ("np.array([0.5, np.nan], 'g')", [0.5, None]),
    "complex": ("[1 + 2j]", ["(1+2j)"]),
    "booleans": ("[True, False]", [True, False]),
    "text": ("['é', None, 'a\\u2028\\U0001f600b']", ["é", None, "a\u2028\U0001f600b"]),
    "lone surrogates": ("pd.Series(['a\\udc80'], dtype=object)", ["a?"]),
    "nullable": ("pd.array([1, None], 'Int64')", [1, None]),
    "dates": (
        "pd.to_datetime(['2024-01-02', '2024-01-02T03:04:05.6', None], format='ISO8601')",
        ["2024-01-02T00:00:00", "2024-01-02T03:04:05.600000", None],
    ),
    "zoned dates": ("pd.to_datetime(['2024-06-01']).tz_localize('Asia/Tokyo')", ["2024-06-01T00:00:00+09:00"]),
    "plain dates": ("[dt.date(2024, 1, 2), dt.time(3, 4)]", ["2024-01-02", "03:04:00"]),
    "durations": ("pd.to_timedelta(['1D 02:03:04', None])", ["P1DT2H3M4S", None]),
    "plain durations": ("pd.Series([dt.timedelta(1, 3725, 6)], dtype=object)", ["P1DT1H2M5.000006S"]),
    "periods": ("pd.period_range('2024-01', periods=2, freq='M')", ["2024-01", "2024-02"]),
    "intervals": ("pd.interval_range(0, 1)", ["(0, 1]"]),
    "categories": ("pd.Categorical(['a', 'b', None])", ["a", "b", None]),
    "decimals": ("[decimal.Decimal('1.10'), decimal.Decimal('NaN')]", ["1.10", None]),
    "missing": ("pd.Series([pd.NA, pd.NaT, None], dtype=object)", [None, None, None]),
    "bytes": ("[b'a\\xff']", ["a\\xff"]),
    "nested": (
        "[{'a': [1, (2, np.nan)], 3: {'y', 'x'}, (1, 2): np.arange(2)}, np.float32(0.5)]",
        [{"a": [1, [2, None]], "3": ["x", "y"], "[1,2]": [0, 1]}, 0.5],
    ),
    "numpy in objects": (
        "pd.Series([np.int8(3), np.bool_(True), np.datetime64('2024-01-01', 'ns'), np.timedelta64(1, 'h'), np.str_('s')], dtype=object)",
        [3, True, "2024-01-01T00:00:00", "P0DT1H0M0S", "s"],
    ),
    "odd objects": (
        "[uuid.UUID(int=1), enum.IntEnum('E', 'a').a, type('S', (str,), {'__str__': lambda s: 1/0})('sub'), ...]",
        ["00000000-0000-0000-0000-000000000001", 1, "sub", "Ellipsis"],
    ),
    "hostile objects": (
        "[type('H', (), {'__str__': lambda s: 1/0, '__repr__': lambda s: 'H'})(), type('D', (dict,), {'items': lambda s: 1/0})(a=1)]",
        ["<H>", {"a": 1}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_column(shared, name):
    code, expected = COLUMNS[name]
    assert data(shared, f"pd.DataFrame({{'c': {code}}})") == {"c": expected}
    assert data(shared, f"pd.Series({code}, name='c')") == {"c": expected}


TABLES = {
    "empty": ("pd.DataFrame()", {}),
    "no rows": ("pd.DataFrame({'a': []})", {"a": []}),
    "equal names": ("pd.DataFrame([[1, 2, 3]], columns=['a', 'a', 'a.1'])", {"a": [1], "a.1": [2], "a.1.1": [3]}),
    "odd names": (
        "pd.DataFrame([[1, 2, 3, 4]], columns=[1, None, 2.5, pd.Timestamp('2024-01-01')])",
        {"1": [1], "null": [2], "2.5": [3], "2024-01-01T00:00:00": [4]},
    ),
    "levels of names": (
        "pd.DataFrame([[1, 2, 3]], columns=pd.MultiIndex.from_tuples([('a', 'x'), ('a', 2), ('b', '')]))",
        {"a.x": [1], "a.2": [2], "b": [3]},
    ),
    "index": ("pd.DataFrame({'v': [1, 2]}, index=['p', 'q'])", {"index": ["p", "q"], "v": [1, 2]}),
    "named index": ("pd.DataFrame({'v': [1, 2]}, index=pd.Index([5, 6], name='v'))", {"v": [5, 6], "v.1": [1, 2]}),
    "levels of index": (
        "pd.Series([1, 2], index=pd.MultiIndex.from_tuples([('a', 1), ('b', 2)], names=['k', None]))",
        {"k": ["a", "b"], "level_1": [1, 2], "0": [1, 2]},
    ),
    "filtered": ("d = pd.DataFrame({'v': [1, 2, 3]}); d[d.v > 1]", {"index": [1, 2], "v": [2, 3]}),
    "grouped": ("pd.DataFrame({'k': ['a', 'a'], 'v': [1, 3]}).groupby('k').v.mean()", {"k": ["a"], "v": [2.0]}),
    "hostile subclass": (
        "class Evil(pd.DataFrame):\n    def to_dict(self, *a, **k): 1/0\n    to_json = to_records = to_numpy = to_dict\nEvil({'a': [1]})",
        {"a": [1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_table(shared, name):
    code, expected = TABLES[name]
    found = data(shared, code)
    assert found == expected and list(found) == list(expected)


def test_metadata(shared):
    expected = {"rows": 2, "columns": 1, "index": [], "truncated": False}
    assert about(shared, "pd.DataFrame({'v': [1, 2]})") == expected
    assert about(shared, "pd.Series([1, 2], index=['a', 'b'])") == expected | {"index": ["index"]}


BOUNDS = {
    "rows": ("pd.DataFrame({'v': range(100_000)})", 1, 2_000),
    "columns": ("pd.DataFrame(np.zeros((3, 500)))", 200, 3),
    "cells": ("pd.DataFrame(np.zeros((3000, 100)))", 100, 200),
    "text": ("pd.DataFrame({'v': ['x' * 5_000] * 1000})", 1, 209),
    "index": ("pd.Series(0, index=[f'{n:010}' for n in range(5_000)])", 2, 2_000),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_marked(shared, name):
    code, width, rows = BOUNDS[name]
    columns = data(shared, code)
    assert len(columns) == width and {len(values) for values in columns.values()} == {rows}
    assert shared.metadata[DATA]["truncated"] is True


def test_long_cell_is_cut(shared):
    assert data(shared, "pd.DataFrame({'v': ['x' * 10_001]})") == {"v": ["x" * 10_000]}
    assert shared.metadata[DATA]["truncated"] is True


@pytest.mark.parametrize(
    "harm",
    [
        "iloc = property(lambda self: 1/0)",
        "index = property(lambda self: 1/0)",
        "iloc = property(lambda self: (_ for _ in ()).throw(MemoryError()))",
        "__len__ = lambda self: 1/0",
    ],
)
def test_what_cannot_be_read_is_still_shown(shared, harm):
    cell = "class Evil(pd.DataFrame):\n    __repr__ = lambda self: 'evil'\n    _repr_html_ = lambda self: 'h'\ne = Evil({'v': [1]})\n"
    events, done = shared.run(f"{START}{cell}Evil.{harm}\ne")
    assert done["status"] == "ok" and events == [("main", {"text/plain": b"evil", "text/html": b"h"})], events


def test_subclass_keeps_its_own_bundle(shared):
    cell = "class Own(pd.DataFrame):\n    def _repr_mimebundle_(self, **k): return {'a/b': 'mine'}, {'a/b': {'c': 1}}\nOwn({'v': [1]})"
    events, _ = shared.run(START + cell)
    assert events[0][1]["a/b"] == b"mine" and strict(events[0][1][DATA]) == {"v": [1]}
    assert shared.metadata["a/b"] == {"c": 1}


def test_same_value_same_bytes(shared):
    cell = "pd.DataFrame({'a': [{'x', 'y', 'z'}, {3, 1}]})"
    bodies = {shared.run(START + cell)[0][0][1][DATA] for _ in range(3)}
    assert bodies == {b'{"a":[["x","y","z"],[1,3]]}'}


def test_nothing_is_loaded_for_plain_values(host):
    code = "import sys\n[m for m in sys.modules if m.startswith('silica_guest.') and m.split('.')[1] in ('jsonable', 'tables', 'charts')]"
    assert host.run(code)[0] == [("main", {"text/plain": b"[]"})]
