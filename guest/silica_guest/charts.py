"""Chart data of a matplotlib figure: what was plotted, as numbers and labels.

The shapes are those of E2B's chart objects, so that its clients can read them.
Owns the detection of the chart type of axes, and the bounds. A figure that
cannot be read gives no chart data and no error. Imported only if matplotlib is
loaded.
"""

from __future__ import annotations

import re
import warnings

from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.legend import Legend
from matplotlib.offsetbox import OffsetBox
from matplotlib.patches import PathPatch, Rectangle, Wedge
from numpy.ma import compress_rows

from silica_guest import boxes
from silica_guest.scales import LABEL_CHARS_MAX, Scale

MIME = "application/vnd.silica.chart+json"
AXES_MAX = 16
ELEMENTS_MAX = 1_000
POINTS_MAX = 10_000
UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def describe(figure: object) -> dict | None:
    """Returns the chart data of a figure that has been drawn; None if it has no data or cannot be read."""
    try:
        # Warnings raised while reading are not caused by user code.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _describe_figure(figure)
    except Exception:  # Artists are the user's objects and may do anything.
        return None


def _describe_figure(figure: object) -> dict | None:
    axes = [each for each in figure.axes if each.get_label() != "<colorbar>"]
    if not any(each.has_data() for each in axes):
        return None
    if len(axes) == 1:
        return _describe_axes(axes[0])
    chart = _Chart("superchart", figure.get_suptitle())
    chart.fields["elements"] = [_describe_axes(each) for each in axes[:AXES_MAX]]
    if len(axes) > AXES_MAX:
        chart.mark_cut()
    return chart.fields


class _Chart:
    """A chart under construction; drops what exceeds the bounds and then sets `truncated`."""

    def __init__(self, kind: str, title: str) -> None:
        self.fields: dict = {"type": kind, "title": _text(title), "elements": []}
        self.points_left = POINTS_MAX

    def mark_cut(self) -> None:
        self.fields["truncated"] = True

    def add(self, element: dict) -> None:
        if len(self.fields["elements"]) < ELEMENTS_MAX:
            self.fields["elements"].append(element)
        else:
            self.mark_cut()

    def take(self, points: object) -> object:
        """Returns the points that fit in `points_left`, and subtracts them from it."""
        if len(points) > self.points_left:
            self.mark_cut()
        points = points[: self.points_left]
        self.points_left -= len(points)
        return points

    def add_labels(self, axes: object, swapped: bool = False) -> None:
        """Adds axis labels and their units; with `swapped`, as if a horizontal chart were vertical."""
        labels = (axes.get_ylabel(), axes.get_xlabel()) if swapped else (axes.get_xlabel(), axes.get_ylabel())
        for name, label in zip("xy", labels):
            match = UNIT.search(label)
            self.fields[f"{name}_label"] = _text(label)
            self.fields[f"{name}_unit"] = _text(match[1] or match[2] or "") if match else None


class _Artists:
    """The artists of axes by kind, without legends, error bars and other decoration."""

    def __init__(self, axes: object) -> None:
        self.bars = [each for each in axes.containers if isinstance(each, BarContainer)]
        marks = set()
        for container in axes.containers:
            if isinstance(container, ErrorbarContainer):
                _, caps, lines = container
                marks.update(map(id, (*caps, *lines)))
        # Lines without points exist for a legend; those in other coordinates, as from axhline(), are rules.
        self.lines = [
            line
            for line in axes.lines
            if id(line) not in marks and len(line.get_xdata()) and line.get_transform() == axes.transData
        ]
        self.collections = [each for each in axes.collections if id(each) not in marks]
        self.patches = list(axes.patches)
        others = [*axes.images, *axes.tables, *axes.artists]
        self.others = [each for each in others if not isinstance(each, (Legend, OffsetBox))]

    def kind(self, axes: object) -> str:
        """Returns the type of chart."""
        if self.others or axes.name not in ("rectilinear", "polar"):
            return "unknown"
        # Bands around lines are ignored.
        bands = bool(self.lines) and all(isinstance(each, PolyCollection) for each in self.collections)
        if not self.patches and (bands or not self.collections):
            self.boxes = boxes.find(self.lines, [])
            return "box_and_whisker" if self.boxes else "line"
        if self._only(self.patches, PathPatch) and not self.collections:
            self.boxes = boxes.find(self.lines, self.patches)
            return "box_and_whisker" if self.boxes else "unknown"
        if not all(map(_is_rule, self.lines)):
            return "unknown"
        if self._only(self.collections, PathCollection) and not self.patches:
            return "scatter"
        if self._only(self.patches, Wedge) and not self.collections:
            return "pie"
        if self.bars and self._only(self.patches, Rectangle) and not self.collections:
            return "bar"
        return "unknown"

    @staticmethod
    def _only(artists: list, kind: type) -> bool:
        return bool(artists) and all(isinstance(each, kind) for each in artists)


def _describe_axes(axes: object) -> dict:
    artists = _Artists(axes)
    kind = artists.kind(axes)
    title = axes.get_title() or axes.get_title("left") or axes.get_title("right")
    chart = _Chart(kind, title)
    if kind != "unknown":
        READERS[kind](chart, axes, artists)
    return chart.fields


def _read_line(chart: _Chart, axes: object, artists: _Artists) -> None:
    x, y = _add_scales(chart, axes)
    owners = {id(each[0]): each for each in axes.containers if isinstance(each, ErrorbarContainer)}
    for number, line in enumerate(artists.lines):
        # With error bars, the container has the label.
        label = owners.get(id(line), line).get_label()
        _add_points(chart, _label(label, f"Line {number}"), x, y, line.get_xdata(), line.get_ydata())


def _read_scatter(chart: _Chart, axes: object, artists: _Artists) -> None:
    x, y = _add_scales(chart, axes)
    for number, collection in enumerate(artists.collections):
        # A point with a gap in either coordinate is not drawn.
        offsets = compress_rows(collection.get_offsets())
        _add_points(chart, _label(collection.get_label(), f"Scatter {number}"), x, y, offsets[:, 0], offsets[:, 1])


def _read_bar(chart: _Chart, axes: object, artists: _Artists) -> None:
    lying = _lie(artists.bars[0])
    chart.add_labels(axes, swapped=lying)
    scale = Scale(axes.yaxis if lying else axes.xaxis)
    for number, container in enumerate(artists.bars):
        group = _label(container.get_label(), f"Group {number}")
        for bar in chart.take(container.patches):
            start, size, value = (bar.get_x(), bar.get_width(), bar.get_height())
            if lying:
                start, size, value = (bar.get_y(), bar.get_height(), bar.get_width())
            element = {"label": scale.label_at(float(start + size / 2)), "group": group, "value": _number(value)}
            chart.add(element)


def _lie(container: BarContainer) -> bool:
    """Returns whether bars are horizontal; judged by their heights if the container does not say."""
    if container.orientation is not None:
        return container.orientation == "horizontal"
    return len({bar.get_height() for bar in container.patches}) == 1


def _read_pie(chart: _Chart, axes: object, artists: _Artists) -> None:
    for wedge in chart.take(artists.patches):
        # matplotlib computes the angles from single-precision fractions.
        angle = _number(abs(wedge.theta2 - wedge.theta1))
        angle = angle if angle is None else round(angle, 3)
        chart.add({"label": _label(wedge.get_label(), ""), "angle": angle, "radius": _number(wedge.r)})


def _read_box(chart: _Chart, axes: object, artists: _Artists) -> None:
    found, lying = artists.boxes
    chart.add_labels(axes, swapped=lying)
    scale = Scale(axes.yaxis if lying else axes.xaxis)
    for box in found:
        chart.add({
            "label": scale.label_at(box.centre), "min": _number(box.minimum), "first_quartile": _number(box.low),
            "median": _number(box.median), "third_quartile": _number(box.high), "max": _number(box.maximum),
            "outliers": [_number(value) for value in chart.take(box.outliers)],
        })  # fmt: skip


READERS = {
    "line": _read_line,
    "scatter": _read_scatter,
    "bar": _read_bar,
    "pie": _read_pie,
    "box_and_whisker": _read_box,
}


def _add_scales(chart: _Chart, axes: object) -> tuple[Scale, Scale]:
    chart.add_labels(axes)
    scales = Scale(axes.xaxis), Scale(axes.yaxis)
    for name, scale in zip("xy", scales):
        chart.fields.update({f"{name}_{key}": value for key, value in scale.describe().items()})
    return scales


def _add_points(chart: _Chart, label: str, x: Scale, y: Scale, xs: object, ys: object) -> None:
    xs = chart.take(xs)
    points = [[a, b] for a, b in zip(x.values(xs), y.values(ys[: len(xs)]))]
    chart.add({"label": label, "points": points})


def _is_rule(line: object) -> bool:
    """Returns whether a line is one segment parallel to an axis, such as a hand-drawn error bar."""
    xs, ys = line.get_xdata(), line.get_ydata()
    return len(xs) == 2 and (xs[0] == xs[1] or ys[0] == ys[1])


def _label(label: object, otherwise: str) -> str:
    """Returns the label, or `otherwise` for an automatic one, which matplotlib starts with `_`."""
    text = str(label)[:LABEL_CHARS_MAX]
    return otherwise if text.startswith("_") else text


def _text(text: str) -> str | None:
    return str(text)[:LABEL_CHARS_MAX] or None


def _number(value: object) -> float | None:
    value = float(value)
    return value if value - value == 0 else None
