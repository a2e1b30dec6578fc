"""Secrets that must not leave their place, and the search for them in whatever passes by.

All tokens of a run begin with the same random word, so one search finds any of them, also in base 64.
"""

import base64
import secrets


class Tokens:
    """The tokens of one run, and where one was seen that should not have been."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(12)
        raw = self.word.encode()
        # A word inside base 64 text has three forms, by where it begins; their edges depend on the neighbours.
        shifted = [base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
        self.needles = [raw, raw.hex().encode(), raw[::-1], *shifted]
        self.leaks: list[str] = []

    def new(self, place: str) -> str:
        """A token that says where it belongs."""
        return f"{self.word}-{place}-{secrets.token_hex(8)}"

    def halves(self) -> tuple[str, str]:
        """The common word in two parts, for code that is recorded and may not hold it whole."""
        middle = len(self.word) // 2
        return self.word[:middle], self.word[middle:]

    def within(self, data: bytes) -> bool:
        return any(needle in data for needle in self.needles)

    def look(self, data: bytes, where: str) -> None:
        """Notes a leak if a token is in the data."""
        if self.within(data):
            self.leaks.append(where)
