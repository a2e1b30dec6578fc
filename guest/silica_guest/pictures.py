"""Pictures of Pillow as results: `Image.show()`, and `Image.save()` in a sandbox of E2B's API.

Called when the user's code imports Pillow. There is no screen: the viewers that Pillow looks for on a
Unix system would show a picture to no one.
"""

from __future__ import annotations

import os
import sys
from io import BytesIO

from silica_guest import shell

# Set in every sandbox of E2B, and by the server in those made through E2B's API.
E2B_VARIABLE = "E2B_SANDBOX"


def add_viewer() -> None:
    """Makes `Image.show()` send the picture as a result."""
    image_show = sys.modules["PIL.ImageShow"]

    class ResultViewer(image_show.Viewer):
        def show(self, image: object, **options: object) -> int:
            send(image)
            return 1

    image_show.register(ResultViewer, order=0)


def show_saved() -> None:
    """Makes `Image.save()` show the picture as well, as in a sandbox of E2B, if this is one."""
    image_type = sys.modules["PIL.Image"].Image
    save = image_type.save

    def save_and_show(self, fp, format=None, **params):
        if isinstance(fp, str) and os.environ.get(E2B_VARIABLE) and not _is_drawn_by_matplotlib():
            send(self)
        return save(self, fp, format, **params)

    save_and_show.__doc__ = save.__doc__
    image_type.save = save_and_show


def _is_drawn_by_matplotlib() -> bool:
    """Returns whether `savefig` saves the picture: the figure itself is shown at the end of the cell."""
    return sys._getframe(2).f_globals.get("__name__", "").startswith("matplotlib.")


def send(image: object) -> None:
    """Sends a picture as a result."""
    shell.current.publish({"text/plain": repr(image), "image/png": _png(image)})


def _png(image) -> bytes:
    buffer = BytesIO()
    try:
        image.save(buffer, "PNG")
    except (KeyError, OSError, ValueError):
        # PNG has no such mode, for example CMYK.
        buffer = BytesIO()
        image.convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()
