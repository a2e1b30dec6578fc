"""The interpreters of a sandbox, for asynchronous callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.aio.cells import AsyncCell
from silica.core import flows, requests
from silica.core.collect import Hooks, OnApproval, OnError, OnResult, OnText
from silica.core.requests import CellOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silica.aio.client import AsyncClient
    from silica.models import Execution, KernelInfo

    Listed = list[KernelInfo]


class AsyncKernel:
    """One interpreter by its id. It has variables of its own; files are common."""

    def __init__(self, client: AsyncClient, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    async def run_code(
        self,
        code: str,
        *,
        on_stdout: OnText = None,
        on_stderr: OnText = None,
        on_result: OnResult = None,
        on_error: OnError = None,
        on_approval: OnApproval = None,
        timeout: float | None = None,
        policy: str | None = None,
    ) -> Execution:
        """Runs code here; see `AsyncSandbox.run_code`."""
        hooks = Hooks(on_stdout, on_stderr, on_result, on_error, on_approval)
        options = CellOptions(self.id, timeout, policy)
        return await self._client.carry_out(flows.run_code(self._sandbox, code, options, hooks))

    async def start_code(
        self, code: str, *, timeout: float | None = None, policy: str | None = None
    ) -> AsyncCell:
        """Runs code here in the background; see `AsyncSandbox.start_code`."""
        call = requests.start_cell(self._sandbox, code, CellOptions(self.id, timeout, policy))
        return AsyncCell(self._client, self._sandbox, (await self._client.ask(call)).id)

    async def info(self) -> KernelInfo:
        """Returns it as it stands."""
        return await self._client.ask(requests.get_kernel(self._sandbox, self.id))

    async def interrupt(self) -> None:
        """Interrupts whatever it runs; does nothing if it runs nothing."""
        await self._client.ask(requests.interrupt_kernel(self._sandbox, self.id))

    async def restart(self) -> None:
        """Gives it a new interpreter: variables are lost, files stay."""
        await self._client.ask(requests.restart_kernel(self._sandbox, self.id))

    async def delete(self) -> None:
        """Ends it."""
        await self._client.ask(requests.delete_kernel(self._sandbox, self.id))

    def __repr__(self) -> str:
        return f"<AsyncKernel {self.id} of {self._sandbox}>"


class AsyncKernels:
    """All interpreters of one sandbox; it starts with `k1`."""

    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def create(
        self, *, env: Mapping[str, str] | None = None, directory: str | None = None
    ) -> AsyncKernel:
        """Starts another interpreter."""
        created = await self._client.ask(requests.create_kernel(self._sandbox, env, directory))
        return self.get(created.id)

    def get(self, id: str) -> AsyncKernel:
        """Returns a kernel by its id, without asking whether it is there."""
        return AsyncKernel(self._client, self._sandbox, id)

    async def list(self) -> Listed:
        """Returns all of them as they stand."""
        return await self._client.ask(requests.list_kernels(self._sandbox))
