"""Prints how many milliseconds Python's own `ast.parse` takes for a text, as a JSON list.

Usage: python parse.py FILE SAMPLES

It takes fewer samples of a text that takes long.
"""

from __future__ import annotations

import ast
import json
import sys
import time
from pathlib import Path

PATIENCE_MS = 5000


def main() -> None:
    text, samples = Path(sys.argv[1]).read_text(encoding="utf-8"), int(sys.argv[2])
    times: list[float] = []
    while len(times) < samples and sum(times) < PATIENCE_MS:
        started = time.perf_counter()
        ast.parse(text)
        times.append((time.perf_counter() - started) * 1e3)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
