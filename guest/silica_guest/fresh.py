"""Entry of a kernel in a new interpreter: `python -I -S -B .../fresh.py`.

Owns only the order of startup steps. Every import on this path delays the
first cell, so it imports only modules that load in well under a millisecond.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from silica_guest import interpreter, kernel  # noqa: E402

if __name__ == "__main__":
    interpreter.prepare()
    kernel.serve()
