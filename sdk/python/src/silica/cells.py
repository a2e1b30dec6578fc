"""A cell that runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import flows, requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silica.client import Client
    from silica.events import CellEvent
    from silica.models import Execution


class Cell:
    """A cell, by its id. It runs independently of this client and its connection.

    Every method raises `NotFound` if the server does not have the cell any more.
    """

    def __init__(self, client: Client, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> Iterator[CellEvent]:
        """Yields the events of the cell to its end, all or those after the event number `after`.

        A broken connection is reopened; no event is lost or repeated, and events that the server
        has dropped are reported as a `Gap`.
        """
        return self._client.iterate(flows.cell_events(self._sandbox, self.id, after))

    def wait(self, timeout: float | None = None) -> Execution:
        """Waits for the end of the cell; raises `TimedOut` after `timeout` seconds.

        The cell runs on after a timeout.
        """
        return self._client.carry_out(flows.wait_cell(self._sandbox, self.id, timeout))

    def result(self) -> Execution:
        """Returns the current state of the cell; `Execution.done` is true if it has ended."""
        return self._client.ask(requests.get_cell(self._sandbox, self.id))

    def interrupt(self) -> None:
        """Raises `KeyboardInterrupt` in this cell and in no other; `Conflict` if it has ended."""
        self._client.ask(requests.interrupt_cell(self._sandbox, self.id))

    def input(self, line: str) -> None:
        """Gives the code a line that it has asked for by the event `Question`."""
        self._client.ask(requests.answer_cell(self._sandbox, self.id, line))

    def extend(self, seconds: float) -> None:
        """Adds `seconds` to the time limit of the cell, up to the maximum of the server."""
        self._client.ask(requests.extend_cell(self._sandbox, self.id, seconds))

    def __repr__(self) -> str:
        return f"<Cell {self.id} of {self._sandbox}>"
