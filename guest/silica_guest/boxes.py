"""Finds box plots among the lines and patches of matplotlib axes.

matplotlib keeps no record of them: it draws a box plot as separate lines
(outline, whiskers, caps, median, outliers), so the numbers are recovered from
the coordinates of these. Imported only if matplotlib is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOXES_MAX = 100
# Lines of one box: outline, whiskers, caps, median, mean, outliers.
LINES_PER_BOX_MAX = 8
# Points of a closed outline: plain and notched, as a line and as a path.
PLAIN, NOTCHED = (5, 6), (11, 12)


@dataclass
class Box:
    """One box: `left` and `right` on the position axis, the rest on the value axis, in either orientation."""

    left: float
    right: float
    low: float
    high: float
    minimum: float | None = None
    maximum: float | None = None
    medians: list[tuple[float, float]] = field(default_factory=list)
    dots: list[float] = field(default_factory=list)

    @property
    def centre(self) -> float:
        """The position of the box."""
        return (self.left + self.right) / 2

    @property
    def median(self) -> float | None:
        """The line across the box with the highest z-order; caps and the mean can be inside the box too."""
        top = max([order for order, _ in self.medians], default=None)
        return next((value for order, value in self.medians if order == top), None)

    @property
    def outliers(self) -> list[float]:
        """The points beyond the whiskers; the mean is drawn as a point too, but between them."""
        return [value for value in self.dots if value < self.minimum or value > self.maximum]

    def is_whole(self) -> bool:
        """Returns whether minimum, maximum and median were found."""
        return None not in (self.minimum, self.maximum, self.median)

    def holds(self, along: list[float]) -> bool:
        """Returns whether a line is within the width of the box."""
        slack = (self.right - self.left) * 1e-6
        return self.left - slack <= min(along) and max(along) <= self.right + slack


def find(lines: list, patches: list) -> tuple[list[Box], bool] | None:
    """Returns the boxes and whether they are horizontal; None if the axes hold anything else."""
    outlines = [patch.get_path().vertices.T.tolist() for patch in patches[: BOXES_MAX + 1]]
    closed = [line for line in lines if len(line.get_xdata()) in (PLAIN[0], NOTCHED[0])]
    if not (outlines or closed) or len(lines) > BOXES_MAX * LINES_PER_BOX_MAX or len(outlines) > BOXES_MAX:
        return None
    if not outlines:
        outlines = [_data(line) for line in closed]
    rest = [(line.get_zorder(), *_data(line)) for line in lines if line not in closed]
    for lying in (False, True):
        boxes = _assemble(outlines, rest, lying)
        if boxes:
            return boxes, lying
    return None


def _data(line: object) -> tuple[list[float], list[float]]:
    return [float(x) for x in line.get_xdata(orig=False)], [float(y) for y in line.get_ydata(orig=False)]


def _assemble(outlines: list, rest: list, lying: bool) -> list[Box]:
    """Returns the boxes with their lines; none if a line belongs to no box or a box is incomplete."""
    boxes = [_outline(*(reversed(each) if lying else each)) for each in outlines if not _has_gaps(*each)]
    if None in boxes:
        return []
    for order, xs, ys in rest:
        along, across = (ys, xs) if lying else (xs, ys)
        if not along or _has_gaps(along, across):
            continue
        owner = next((box for box in boxes if box.holds(along)), None)
        if owner is None or not _take(owner, order, along, across):
            return []
    return boxes if all(box.is_whole() for box in boxes) else []


def _has_gaps(along: list[float], across: list[float]) -> bool:
    """Returns whether a coordinate is NaN, as in a box without data."""
    return any(value != value for value in (*along, *across))


def _outline(along: list[float], across: list[float]) -> Box | None:
    points = len(along)
    if points not in PLAIN + NOTCHED or along[0] != along[-1] or across[0] != across[-1]:
        return None
    low, high = across[0], across[2 if points in PLAIN else 5]
    if across[1] != low or along[1] <= along[0] or high < low:
        return None
    return Box(along[0], along[1], low, high)


def _take(box: Box, order: float, along: list[float], across: list[float]) -> bool:
    """Adds a line to a box; returns False if the line is not part of a box plot."""
    upright = all(abs(value - box.centre) <= (box.right - box.left) * 1e-6 for value in along)
    if len(along) == 2 and across[0] == across[1] and not upright:
        if box.low <= across[0] <= box.high:
            box.medians.append((order, across[0]))
        return True
    if not upright:
        return False
    # A whisker starts at the edge of the box. Of two whiskers of length zero, the first is the lower.
    if len(along) == 2 and across[0] == box.low >= across[1] and box.minimum is None:
        box.minimum = across[1]
    elif len(along) == 2 and across[0] == box.high <= across[1] and box.maximum is None:
        box.maximum = across[1]
    else:
        box.dots.extend(across)
    return True
