"""docs/evidence/regrtest.md: how many tests pass on both sides, what is left out, and why each other test differs."""

import platform
import tomllib
from collections import Counter
from pathlib import Path

from foreign.results import Pair
from foreign.suites import FILES, LEFT_OUT, modules

ROOT = Path(__file__).resolve().parent
DOCUMENT = ROOT.parent.parent.parent / "docs" / "evidence" / "regrtest.md"
DIFFERENCES = ROOT / "differences.toml"
PREFACE = ROOT / "preface.txt"
SHARE_MIN = 0.99
"""Of what passes outside, so much must pass inside."""


class Reasons:
    """Why tests pass outside and not inside, by name. One with `*` at its end is the beginning of many."""

    def __init__(self, text: str) -> None:
        groups = tomllib.loads(text).get("difference", [])
        self.why = {pattern: group["why"] for group in groups for pattern in group["tests"]}

    @classmethod
    def read(cls) -> "Reasons":
        return cls(DIFFERENCES.read_text())

    def pattern(self, test: str) -> str | None:
        """Which of the names that are explained fits best."""
        fitting = [one for one in self.why if test == one or one.endswith("*") and test.startswith(one[:-1])]
        return max(fitting, key=lambda one: (one == test, len(one))) if fitting else None

    def unexplained(self, tests: list[str]) -> list[str]:
        return [test for test in tests if self.pattern(test) is None]


def share(pair: Pair) -> float:
    passed = len(pair.outside.passed())
    return (passed - len(pair.lost())) / passed if passed else 0.0


def row(suite: str, pair: Pair) -> str:
    outside = pair.outside
    passed = len(outside.passed())
    cells = [suite, len(outside.ends), outside.count("skipped"), outside.count("failed"), passed]
    cells += [passed - len(pair.lost()), f"{share(pair):.2%}", len(pair.second), len(pair.gained())]
    return "| " + " | ".join(map(str, cells)) + " |"


def render(pairs: dict[str, Pair], reasons: Reasons, versions: list[str]) -> str:
    """The whole document."""
    release = ".".join(platform.release().split(".")[:2])
    written = f"Written with {', '.join(versions)} on Linux {release}."
    lines = [PREFACE.read_text().rstrip(), "", written, "", *totals(pairs), "", *covered(), ""]
    lines += differences(pairs, reasons)
    return "\n".join(lines) + "\n"


def totals(pairs: dict[str, Pair]) -> list[str]:
    head = ["suite", "tests", "skipped outside", "failed outside", "passed outside", "of these inside"]
    head += ["share", "only when run again", "passed inside alone"]
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *(row(*item) for item in pairs.items())]


def covered() -> list[str]:
    lines = ["## What is run", "", f"- CPython: {len(modules())} modules of `test`, all but these:"]
    lines += [f"  - {', '.join(f'`{name}`' for name in names)}: {why}" for why, names in LEFT_OUT.items()]
    for suite, lists in FILES.items():
        names = sorted(name for names in lists for name in names)
        lines.append(f"- {suite}, below the package: {', '.join(f'`{name}`' for name in names)}")
    return lines


def differences(pairs: dict[str, Pair], reasons: Reasons) -> list[str]:
    lost = [name for pair in pairs.values() for name in pair.lost()]
    counted = Counter(reasons.pattern(name) or name for name in lost)
    lines = ["## What differs", "", "| passes outside and not inside | tests | why |", "|---|---|---|"]
    # One row for each reason, in the order of the reasons in their file.
    groups: dict[str, list[str]] = {}
    for pattern in [*(one for one in reasons.why if one in counted), *reasons.unexplained(lost)]:
        groups.setdefault(reasons.why.get(pattern, "**not explained**"), []).append(pattern)
    for why, patterns in groups.items():
        names = "<br>".join(f"`{pattern}`" for pattern in patterns)
        lines.append(f"| {names} | {sum(counted[pattern] for pattern in patterns)} | {why} |")
    return lines
