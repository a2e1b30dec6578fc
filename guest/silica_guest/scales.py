"""Reads one axis of a matplotlib plot: its scale, its ticks and the meaning of its numbers.

matplotlib plots dates and categories as numbers; this module converts them
back. Imported only if matplotlib is loaded.
"""

from __future__ import annotations

import datetime
import sys
from bisect import bisect_left

import numpy
from matplotlib import dates
from matplotlib.category import StrCategoryConverter, StrCategoryLocator
from matplotlib.ticker import FixedLocator

from silica_guest.jsonable import Converter

TICKS_MAX = 100
LABEL_CHARS_MAX = 500


class Scale:
    """Reads one axis."""

    def __init__(self, axis: object) -> None:
        self.axis = axis
        self.convert = Converter(LABEL_CHARS_MAX)
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        # The converters of pandas are DateConverters too.
        self.is_date = isinstance(converter, (dates.DateConverter, dates._SwitchableDateConverter))
        # The numbers of a pandas axis of periods are dates only together with its frequency.
        self.frequency = getattr(axis, "freq", None) if type(converter).__name__ == "PeriodConverter" else None
        self.categories: dict[int, str] = {}
        if isinstance(converter, StrCategoryConverter):
            self.categories = {at: name for name, at in axis.units._mapping.items()}

    def describe(self) -> dict:
        """Returns ticks, their labels and the scale's name, keyed as in chart data."""
        locations, labels = self._ticks()
        return {
            "ticks": self.values(locations, as_numbers=not self.is_date),
            "tick_labels": labels,
            "scale": self._name(locations, labels),
        }

    def values(self, numbers: object, as_numbers: bool = False) -> list:
        """Returns plotted data as JSON: dates as ISO 8601, categories by name, gaps as None."""
        array = numbers if hasattr(numbers, "dtype") else numpy.asarray(numbers)
        if array.dtype.kind == "O":
            # pandas 2 plots the period objects, pandas 3 their ordinals.
            periods = self.frequency is not None
            return [self._period(each.ordinal) if periods else self.convert.value(each) for each in array.tolist()]
        if array.dtype.kind not in "iufb":
            return self.convert.value(array)
        plain = [each if each is not None and numpy.isfinite(each) else None for each in array.tolist()]
        if as_numbers or not (self.is_date or self.categories):
            return plain
        return [each if each is None else self._meaning(each) for each in plain]

    def label_at(self, position: float) -> str:
        """Returns the label of a position: that of a fixed tick there, or else the formatted value."""
        if self._has_fixed_ticks():
            label = self._nearest(position)
            if label is not None:
                return label
        meaning = self._meaning(position) if self.is_date else position
        return meaning if isinstance(meaning, str) else format(meaning, ".10g")

    def _meaning(self, number: float) -> object:
        if self.frequency is not None:
            return self._period(int(number))
        if self.is_date:
            zone = self.axis.units if isinstance(self.axis.units, datetime.tzinfo) else None
            moment = dates.num2date(number, zone or datetime.timezone.utc)
            return (moment if zone else moment.replace(tzinfo=None)).isoformat()
        return self.categories.get(number, number)

    def _period(self, ordinal: int) -> str:
        if str(getattr(self.frequency, "rule_code", self.frequency)) == "B":
            # The ordinal counts business days from the epoch; pandas cannot build such a Period.
            return f"{numpy.busday_offset('1970-01-01', ordinal, roll='forward')}T00:00:00"
        return sys.modules["pandas"].Period(ordinal=ordinal, freq=self.frequency).start_time.isoformat()

    def _ticks(self) -> tuple[list, list[str]]:
        labels = [self.convert.text(label.get_text()) for label in self.axis.get_majorticklabels()[:TICKS_MAX]]
        return list(self.axis.get_majorticklocs()[:TICKS_MAX]), labels

    def _has_fixed_ticks(self) -> bool:
        return isinstance(self.axis.get_major_locator(), (FixedLocator, StrCategoryLocator))

    def _name(self, locations: list, labels: list[str]) -> str:
        if self.is_date:
            return "datetime"
        if self.categories:
            return "categorical"
        scale = self.axis.get_scale()
        counted = locations and all(location == at for at, location in enumerate(locations))
        if scale == "linear" and counted and self._has_fixed_ticks() and not any(map(_is_number, labels)):
            return "categorical"
        return scale

    def _nearest(self, position: float) -> str | None:
        """Returns the label of the nearest tick within half of the smallest distance between ticks."""
        if not hasattr(self, "_sorted"):
            texts = [label.get_text() for label in self.axis.get_majorticklabels()]
            self._sorted = sorted(zip(self.axis.get_majorticklocs(), texts))
            gaps = [after[0] - before[0] for before, after in zip(self._sorted, self._sorted[1:])]
            self._reach = min([gap for gap in gaps if gap > 0], default=1.0) / 2
        at = bisect_left(self._sorted, (position,))
        near = [(abs(location - position), text) for location, text in self._sorted[max(at - 1, 0) : at + 1]]
        distance, text = min(near, default=(self._reach + 1, ""))
        return self.convert.text(text) if distance <= self._reach and text else None


def _is_number(text: str) -> bool:
    try:
        float(text.replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return not text
    return True
