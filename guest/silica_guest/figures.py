"""The matplotlib backend of the guest: sends figures as results of a picture and chart data.

Imported only if matplotlib is loaded. Owns when a figure is sent: on
`plt.show()`, as a value, or at the end of the cell, but only once.
"""

from __future__ import annotations

from io import BytesIO
from weakref import WeakSet

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from silica_guest import charts, shell

_shown: WeakSet[Figure] = WeakSet()


class FigureManager(FigureManagerBase):
    """Sends figures as results instead of opening windows."""

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Implements `plt.show()`."""
        show_all()

    def show(self) -> None:
        """Implements `figure.show()`."""
        _send(self.canvas.figure)
        Gcf.destroy(self)


class FigureCanvas(FigureCanvasAgg):
    """The Agg canvas with this module's manager."""

    manager_class = FigureManager


def show_all() -> None:
    """Sends every open pyplot figure that was not already shown as a value, and closes them all."""
    managers = sorted(Gcf.get_all_fig_managers(), key=lambda manager: manager.num)
    try:
        for manager in managers:
            if manager.canvas.figure not in _shown:
                _send(manager.canvas.figure)
    finally:
        # Also after a failure: a figure that cannot be drawn must not fail every later cell.
        if managers:
            Gcf.destroy_all()
            _shown.clear()


def bundle(figure: Figure) -> dict:
    """Returns the MIME data of a figure displayed as a value, and records that it was shown."""
    _shown.add(figure)
    return _draw(figure)


def _send(figure: Figure) -> None:
    shell.current.publish({"text/plain": repr(figure), **_draw(figure)})


def _draw(figure: Figure) -> dict:
    # In this order: drawing fixes the layout, on which the ticks depend.
    data = {"image/png": _png(figure)}
    chart = charts.describe(figure)
    if chart is not None:
        data[charts.MIME] = chart
    return data


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    canvas = figure.canvas if hasattr(figure.canvas, "print_png") else FigureCanvasAgg(figure)
    canvas.print_figure(
        buffer, format="png", dpi=figure.dpi, bbox_inches="tight",
        facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor(),
    )  # fmt: skip
    return buffer.getvalue()
