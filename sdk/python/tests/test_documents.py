"""Runs the examples in the documentation, unchanged, against a real server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.live
@pytest.mark.parametrize("name", ["sdk/python/README.md", "docs/reference/python.md"])
def test_a_document(
    name: str, server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILICA_URL", server["url"])
    monkeypatch.setenv("SILICA_KEY", server["key"])
    monkeypatch.chdir(tmp_path)
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{name}, block {number + 1}", "exec"), names)
