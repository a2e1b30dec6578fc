"""Collects output and results of a cell or a command from its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from silica.core.flow import Flow, Notify
from silica.events import Asked, Gap, Raised, Shown, Stderr, Stdout

if TYPE_CHECKING:
    from silica.events import CellEvent, CommandEvent
    from silica.models import ErrorInfo, Result
    from silica.review import Approval

# Characters kept of stdout and of stderr. Of more, the server's copy is requested.
KEPT_MAX = 16 << 20

OnText = Optional[Callable[[str], Any]]
OnResult = Optional[Callable[["Result"], Any]]
OnError = Optional[Callable[["ErrorInfo"], Any]]
OnApproval = Optional[Callable[["Approval"], Any]]


@dataclass(frozen=True, slots=True)
class PromptHooks:
    """The caller's callbacks for the events of a prompt."""

    text: OnText = None
    code: OnText = None
    stdout: OnText = None
    stderr: OnText = None
    approval: OnText = None

    def by_event(self) -> dict[str, tuple[Callable[[str], Any], str]]:
        """Returns the given callbacks by event name, each with the field that it receives."""
        named = {
            "text": (self.text, "text"),
            "code": (self.code, "code"),
            "stdout": (self.stdout, "text"),
            "stderr": (self.stderr, "text"),
            "approval": (self.approval, "approval"),
        }
        return {
            name: (callback, field)
            for name, (callback, field) in named.items()
            if callback is not None
        }


@dataclass(frozen=True, slots=True)
class Hooks:
    """The caller's callbacks for the events of a cell or command."""

    stdout: OnText = None
    stderr: OnText = None
    result: OnResult = None
    error: OnError = None
    approval: OnApproval = None

    def names(self) -> frozenset[str]:
        """Returns the names of the events that have a callback."""
        names = ("stdout", "stderr", "result", "error")
        return frozenset(name for name in names if getattr(self, name))

    def notify(self, event: CellEvent | CommandEvent) -> Flow[None]:
        """Calls the callback for an event, if there is one."""
        if isinstance(event, Stdout) and self.stdout:
            yield Notify(self.stdout, event.text)
        elif isinstance(event, Stderr) and self.stderr:
            yield Notify(self.stderr, event.text)
        elif isinstance(event, Shown) and self.result:
            yield Notify(self.result, event.result)
        elif isinstance(event, Raised) and self.error:
            yield Notify(self.error, event.error)
        elif isinstance(event, Asked) and self.approval:
            yield Notify(self.approval, event.approval)


class Kept:
    """One stream of text, up to a bound."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Appends text, unless the bound is exceeded."""
        self._size += len(text)
        if self.whole:
            self._parts.append(text)

    @property
    def whole(self) -> bool:
        """Whether no text was dropped."""
        return self._size <= KEPT_MAX

    @property
    def text(self) -> str:
        """The text that was kept."""
        return "".join(self._parts)


class Collected:
    """The output and results received so far. If `whole` is false, the server has more."""

    def __init__(self) -> None:
        self.stdout = Kept()
        self.stderr = Kept()
        self.results: list[Result] = []
        self._gaps = False

    def take(self, event: CellEvent | CommandEvent) -> None:
        """Adds an event."""
        if isinstance(event, Stdout):
            self.stdout.add(event.text)
        elif isinstance(event, Stderr):
            self.stderr.add(event.text)
        elif isinstance(event, Shown):
            self.results.append(event.result)
        elif isinstance(event, Gap):
            self._gaps = True

    @property
    def whole(self) -> bool:
        """Whether everything was received and kept."""
        return self.stdout.whole and self.stderr.whole and not self._gaps
