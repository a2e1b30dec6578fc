"""What happens while a cell or a command runs, in the order in which it happened.

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
    """It runs. `of` is the cell's or command's id."""

    id: int
    of: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A person has to approve the cell before it runs, or one has decided: see `approval.state`."""

    id: int
    approval: Approval


@dataclass(frozen=True, slots=True)
class Stdout:
    """Something was printed. `data` holds the bytes where they are no UTF-8 (commands only)."""

    id: int
    text: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Stderr:
    """Something was printed to standard error; see `Stdout`."""

    id: int
    text: str
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """A result."""

    id: int
    result: Result


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that ended the cell."""

    id: int
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class Gap:
    """So many events were dropped before this one, because nobody listened for too long."""

    id: int
    events: int


@dataclass(frozen=True, slots=True)
class Done:
    """The cell has ended; `execution` is without what was printed and shown."""

    id: int
    execution: Execution


@dataclass(frozen=True, slots=True)
class Exited:
    """The command has ended; `result` is without what was printed."""

    id: int
    result: CommandResult


CellEvent = Union[Asked, Start, Stdout, Stderr, Shown, Raised, Gap, Done]
CommandEvent = Union[Start, Stdout, Stderr, Gap, Exited]

_OF_COMMANDS = frozenset({"start", "stdout", "stderr", "gap", "done"})
_OF_CELLS = _OF_COMMANDS | {"approval", "result", "error"}


def cell_event(message: Message) -> CellEvent | None:
    """Reads an event of a cell; None for a kind that this version does not know."""
    if message.event not in _OF_CELLS:
        return None
    number, fields = number_of(message), fields_of(message)
    if message.event == "approval":
        return Asked(number, Approval.parse(fields))
    if message.event == "result":
        return Shown(number, Result.parse(fields))
    if message.event == "error":
        return Raised(number, ErrorInfo.parse(fields))
    if message.event == "done":
        return Done(number, Execution.parse(fields))
    return _either(message.event, number, fields)


def command_event(message: Message) -> CommandEvent | None:
    """Reads an event of a command; None for a kind that this version does not know."""
    if message.event not in _OF_COMMANDS:
        return None
    number, fields = number_of(message), fields_of(message)
    if message.event == "done":
        return Exited(number, CommandResult.parse(fields))
    return _either(message.event, number, fields)


def number_of(message: Message) -> int:
    """Returns the number by which a stream is taken up again; 0 if it has none."""
    if not message.id:
        return 0
    if not message.id.isascii() or not message.id.isdigit():
        raise BadAnswer(f"the event {message.event} has the id {message.id!r}, which is no number")
    return int(message.id)


def fields_of(message: Message) -> Fields:
    """Returns what an event says."""
    return Fields.of(message.data, f"the event {message.event}")


def _either(kind: str, number: int, fields: Fields) -> Start | Stdout | Stderr | Gap:
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
