"""The events of a running cell or command, in the order in which they happened.

```python
for event in cell.events():
    match event:
        case Stdout(text=text): print(text, end="")
        case Done(execution=execution): print(execution.outcome)
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from silica.core.fields import Fields
from silica.errors import BadAnswer
from silica.models import CommandResult, ErrorInfo, Execution, Result, decode_base64
from silica.review import Approval

if TYPE_CHECKING:
    from silica.core.sse import Message


@dataclass(frozen=True, slots=True)
class Start:
    """The cell or command has started. `of` is its id."""

    id: int
    of: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The cell requires an approval, or the approval was decided; `approval.state` says which."""

    id: int
    approval: Approval


@dataclass(frozen=True, slots=True)
class Stdout:
    """Text was written to standard output. `data` holds the bytes if not UTF-8 (commands only)."""

    id: int
    text: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Stderr:
    """Text was written to standard error. `data` holds the bytes if not UTF-8 (commands only)."""

    id: int
    text: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """The cell produced a result: a displayed value or its last expression."""

    id: int
    result: Result


@dataclass(frozen=True, slots=True)
class Raised:
    """The cell ended with an exception."""

    id: int
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Question:
    """The code waits for a line; `Cell.input` answers. A `password` must not be shown."""

    id: int
    prompt: str
    password: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """The server dropped `events` events before this one, because no client read them in time."""

    id: int
    events: int


@dataclass(frozen=True, slots=True)
class Done:
    """The cell has ended; `execution` does not repeat its output and results."""

    id: int
    execution: Execution


@dataclass(frozen=True, slots=True)
class Exited:
    """The command has ended; `result` does not repeat its output."""

    id: int
    result: CommandResult


CellEvent = Union[Asked, Start, Stdout, Stderr, Shown, Raised, Question, Gap, Done]
CommandEvent = Union[Start, Stdout, Stderr, Gap, Exited]

_OF_COMMANDS = frozenset({"start", "stdout", "stderr", "gap", "done"})
_OF_CELLS = _OF_COMMANDS | {"approval", "result", "error", "input"}


def cell_event(message: Message) -> CellEvent | None:
    """Parses an event of a cell; returns None for a kind unknown to this version."""
    if message.event not in _OF_CELLS:
        return None
    number, fields = number_of(message), fields_of(message)
    if message.event == "approval":
        return Asked(number, Approval.parse(fields))
    if message.event == "result":
        return Shown(number, Result.parse(fields))
    if message.event == "error":
        return Raised(number, ErrorInfo.parse(fields))
    if message.event == "input":
        return Question(number, fields.text("prompt"), fields.flag("password", default=False))
    if message.event == "done":
        return Done(number, Execution.parse(fields))
    return _common(message.event, number, fields)


def command_event(message: Message) -> CommandEvent | None:
    """Parses an event of a command; returns None for a kind unknown to this version."""
    if message.event not in _OF_COMMANDS:
        return None
    number, fields = number_of(message), fields_of(message)
    if message.event == "done":
        return Exited(number, CommandResult.parse(fields))
    return _common(message.event, number, fields)


def number_of(message: Message) -> int:
    """Returns the number after which a stream can be resumed; 0 if the event has none."""
    if not message.id:
        return 0
    if not message.id.isascii() or not message.id.isdigit():
        raise BadAnswer(f"the id {message.id!r} of the event {message.event} is not a number")
    return int(message.id)


def fields_of(message: Message) -> Fields:
    """Returns the fields of an event."""
    return Fields.of(message.data, f"the event {message.event}")


def _common(kind: str, number: int, fields: Fields) -> Start | Stdout | Stderr | Gap:
    if kind == "start":
        return Start(number, fields.text_or_none("cell") or fields.text("command"))
    if kind == "stdout":
        return Stdout(number, *_printed(fields))
    if kind == "stderr":
        return Stderr(number, *_printed(fields))
    return Gap(number, fields.whole("events", 0))


def _printed(fields: Fields) -> tuple[str, bytes | None]:
    encoded = fields.text_or_none("base64")
    if encoded is None:
        return fields.text("text"), None
    data = decode_base64(encoded, "output")
    return data.decode("utf-8", "replace"), data
