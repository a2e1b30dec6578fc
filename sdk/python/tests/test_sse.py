"""Events parsed from bytes, cut at any position."""

from __future__ import annotations

import random

import pytest

from silica.core import sse
from silica.core.sse import Message, Parser
from silica.errors import BadAnswer


def parse(*pieces: bytes) -> list[Message]:
    parser = Parser()
    return [message for piece in pieces for message in parser.feed(piece)]


# Every line end, a comment, an empty and a missing value, several data lines, a character of
# four bytes, an id that persists, an event without data, an event that is never finished.
DOCUMENT = (
    "\ufeff: hello\r\n\r\n"
    "id: 1\nevent: stdout\ndata: one\ndata:two\ndata\n\n"
    "id:2\rdata: 😀 x: y\r\r"
    "event: result\r\ndata:  {}\r\nretry: 5\r\nodd: line\r\n\r\n"
    ": still here\n\n"
    "event: nothing\n\n"
    "data: last\n\r\n"
    "data: cut off\n"
).encode()

EXPECTED = [
    Message("stdout", "one\ntwo\n", "1"),
    Message("message", "😀 x: y", "2"),
    Message("result", " {}", "2"),
    Message("message", "last", "2"),
]


def test_a_whole_document() -> None:
    assert parse(DOCUMENT) == EXPECTED


def test_every_cut_in_two() -> None:
    for cut in range(len(DOCUMENT) + 1):
        assert parse(DOCUMENT[:cut], DOCUMENT[cut:]) == EXPECTED, cut


def test_byte_by_byte() -> None:
    assert parse(*(bytes([byte]) for byte in DOCUMENT)) == EXPECTED


def test_random_pieces() -> None:
    for seed in range(2000):
        chance = random.Random(seed)
        pieces, rest = [], DOCUMENT
        while rest:
            size = chance.randint(0, 9)
            pieces.append(rest[:size])
            rest = rest[size:]
        assert parse(*pieces) == EXPECTED, seed


def test_an_event_is_out_with_its_last_byte() -> None:
    parser = Parser()
    assert list(parser.feed(b"data: x\r\n")) == []
    assert list(parser.feed(b"\r")) == [Message("message", "x", "")]
    assert list(parser.feed(b"\n")) == []


def test_an_id_with_a_nul_is_ignored() -> None:
    assert parse(b"id: 1\nid: 2\0\ndata: x\n\n") == [Message("message", "x", "1")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert parse(b"data: \xff\n\n") == [Message("message", "\ufffd", "")]


def test_an_event_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 100)
    assert len(parse(*([b"data: " + b"x" * 50 + b"\n\n"] * 9))) == 9
    with pytest.raises(BadAnswer, match="100 bytes"):
        parse(b"data: " + b"x" * 101)
    with pytest.raises(BadAnswer, match="100 bytes"):
        parse(*([b"data: " + b"x" * 50 + b"\n"] * 3))
