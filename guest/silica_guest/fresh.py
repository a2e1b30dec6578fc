"""Entry of a kernel in a new interpreter: `python -I -S -B .../fresh.py`.

Owns nothing but the order of starting. Every import on this path is paid by
the first cell, so only modules that cost well under a millisecond are here.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from silica_guest import interpreter, kernel  # noqa: E402

if __name__ == "__main__":
    interpreter.prepare()
    kernel.serve()
