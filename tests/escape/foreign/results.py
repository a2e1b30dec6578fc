"""What tests came to, and in what two runs of the same tests differ."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field

WORDS_CHARACTERS_MAX = 2000

NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that tests print and that no XML may hold."""

# The worst of several tests with one name counts.
ENDS = ("passed", "skipped", "failed")


@dataclass
class Results:
    """How each test ended, and what those said that did not pass."""

    ends: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, document: bytes) -> "Results":
        """Reads what regrtest and pytest write, each in its own dialect of JUnit."""
        found = cls()
        for case in ElementTree.fromstring(NOT_XML.sub("?", document.decode("utf-8", "replace"))).iter("testcase"):
            name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
            if not name:
                continue  # One that was begun and never came to an end.
            told = {child.tag: child for child in case}
            bad = told.get("failure", told.get("error"))
            end = "failed" if bad is not None else "skipped" if "skipped" in told else "passed"
            found.add(name, end, bad if bad is not None else told.get("skipped"))
        return found

    def add(self, name: str, end: str, child: ElementTree.Element | None) -> None:
        self.ends[name] = max(end, self.ends.get(name, end), key=ENDS.index)
        if child is not None:
            said = child.text or child.get("message") or ""
            self.words[name] = said[-WORDS_CHARACTERS_MAX:]

    def passed(self) -> set[str]:
        return {name for name, end in self.ends.items() if end == "passed"}

    def count(self, end: str) -> int:
        return Counter(self.ends.values())[end]


@dataclass
class Pair:
    """One part on both sides. What was lost at first and passed inside when it was run again is in `second`."""

    inside: Results
    outside: Results
    second: set[str] = field(default_factory=set)

    def lost(self) -> dict[str, str]:
        """What passes outside and not inside, and what became of it there."""
        names = self.outside.passed() - self.inside.passed() - self.second
        return {name: self.inside.ends.get(name, "not there") for name in sorted(names)}

    def gained(self) -> set[str]:
        return self.inside.passed() - self.outside.passed()

    def join(self, other: "Pair") -> None:
        """Takes over the results of other tests."""
        for mine, theirs in ((self.inside, other.inside), (self.outside, other.outside)):
            mine.ends.update(theirs.ends)
            mine.words.update(theirs.words)
        self.second |= other.second

    def dump(self) -> str:
        sides = {name: [side.ends, side.words] for name, side in (("inside", self.inside), ("outside", self.outside))}
        return json.dumps({**sides, "second": sorted(self.second)})

    @classmethod
    def load(cls, text: str) -> "Pair":
        kept = json.loads(text)
        return cls(Results(*kept["inside"]), Results(*kept["outside"]), set(kept["second"]))
