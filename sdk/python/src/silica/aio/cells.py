"""A cell that runs in the background, for asynchronous callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import flows, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from silica.aio.client import AsyncClient
    from silica.events import CellEvent
    from silica.models import Execution


class AsyncCell:
    """A cell by its id. It runs on whether anybody looks or not."""

    def __init__(self, client: AsyncClient, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> AsyncIterator[CellEvent]:
        """Yields what happens, from the start or after the event of that number, to the end.

        A connection that breaks is made again, and nothing is missed or repeated.
        """
        return self._client.iterate(flows.cell_events(self._sandbox, self.id, after))

    async def wait(self, timeout: float | None = None) -> Execution:
        """Waits for its end; raises `TimedOut` if that takes longer than `timeout` seconds."""
        return await self._client.carry_out(flows.wait_cell(self._sandbox, self.id, timeout))

    async def result(self) -> Execution:
        """Returns it as it stands; `done` says whether it has ended."""
        return await self._client.ask(requests.get_cell(self._sandbox, self.id))

    async def interrupt(self) -> None:
        """Raises `KeyboardInterrupt` in it and in no other cell."""
        await self._client.ask(requests.interrupt_cell(self._sandbox, self.id))

    async def extend(self, seconds: float) -> None:
        """Gives it more time, up to the operator's maximum in all."""
        await self._client.ask(requests.extend_cell(self._sandbox, self.id, seconds))

    def __repr__(self) -> str:
        return f"<AsyncCell {self.id} of {self._sandbox}>"
