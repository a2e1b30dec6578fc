"""Arguments that matplotlib has dropped and programs still use.

`boxplot(labels=…)` became `tick_labels` in 3.9 and was removed in 3.11. Called when the user's code
imports matplotlib.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` is too slow here.
if TYPE_CHECKING:
    from collections.abc import Callable


def accept_labels_in_axes() -> None:
    """Lets the method of axes accept `labels`."""
    axes = sys.modules["matplotlib.axes._axes"].Axes
    axes.boxplot = _accept_labels(axes.boxplot)


def accept_labels_in_pyplot() -> None:
    """Lets the function of pyplot accept `labels`."""
    pyplot = sys.modules["matplotlib.pyplot"]
    pyplot.boxplot = _accept_labels(pyplot.boxplot)


def _accept_labels(boxplot: Callable) -> Callable:
    from functools import wraps
    from inspect import signature

    parameters = signature(boxplot).parameters
    if "labels" in parameters or "tick_labels" not in parameters:
        return boxplot

    @wraps(boxplot)
    def accepting(*arguments, labels=None, **options):
        if labels is not None:
            options.setdefault("tick_labels", labels)
        return boxplot(*arguments, **options)

    return accepting
