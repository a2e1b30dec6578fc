"""A sandbox, for asynchronous callers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from silica.aio.cells import AsyncCell
from silica.aio.client import AsyncClient
from silica.aio.commands import AsyncCommands
from silica.aio.files import AsyncFiles
from silica.aio.kernels import AsyncKernel, AsyncKernels
from silica.aio.network import AsyncNetwork, AsyncPorts
from silica.core import flows, requests
from silica.core.collect import Hooks, OnApproval, OnError, OnResult, OnText
from silica.core.flow import send
from silica.core.requests import CellOptions
from silica.errors import SilicaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Generator, Mapping
    from types import TracebackType

    from silica.core.flow import Flow
    from silica.core.flows import Given
    from silica.models import (
        Execution,
        LeftBehind,
        Limits,
        Mark,
        SandboxInfo,
        Shared,
        Snapshot,
        Usage,
    )
    from silica.networks import NetworkOptions

    Executions = list[Execution]
    LeftBehinds = list[LeftBehind]
    Sandboxes = list["AsyncSandbox"]


class AsyncSandbox:
    """An isolated environment with its own files, processes and limits.

    `files`, `commands`, `kernels`, `network` and `ports` give access to its parts. An `async with`
    block deletes a sandbox from `create` at its end, and leaves a sandbox from `connect` running.
    Methods raise `NotFound` if the sandbox does not exist and, except `info` and `delete`,
    `SandboxEnded` if it has ended.
    """

    def __init__(self, client: AsyncClient, id: str) -> None:
        """Refers to a sandbox by its id; does not check that it exists."""
        self._client = client
        self._owns_client = False
        self._created = False
        self.id = id
        self.left_behind: LeftBehinds = []
        self.files = AsyncFiles(client, id)
        self.commands = AsyncCommands(client, id)
        self.kernels = AsyncKernels(client, id)
        self.network = AsyncNetwork(client, id)
        self.ports = AsyncPorts(client, id)

    @classmethod
    def create(
        cls,
        *,
        template: str | None = None,
        limits: Limits | Mapping[str, float] | None = None,
        env: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        idle_seconds: float | None = None,
        max_cells: int | None = None,
        inputs: Mapping[str, Given | Shared] | None = None,
        interpreter: str | None = None,
        network: NetworkOptions | Mapping[str, object] | None = None,
        snapshot: Snapshot | str | None = None,
        client: AsyncClient | None = None,
    ) -> Opening:
        """Creates a sandbox: `async with AsyncSandbox.create(…) as sandbox`, or `await` it.

        Arguments and errors are those of `Sandbox.create`.
        """
        build = partial(
            requests.create_sandbox,
            template=template,
            limits=limits,
            env=env,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            idle_seconds=idle_seconds,
            max_cells=max_cells,
            interpreter=interpreter,
            network=network,
            snapshot=snapshot if snapshot is None or isinstance(snapshot, str) else snapshot.id,
        )
        return Opening(cls._opened(flows.create_sandbox(build, inputs), client, created=True))

    @classmethod
    def connect(cls, id: str, *, client: AsyncClient | None = None) -> Opening:
        """Returns an existing sandbox when awaited or entered, like `create`.

        Raises `NotFound` if there is none with this id.
        """
        return Opening(cls._opened(send(requests.get_sandbox(id)), client, created=False))

    @classmethod
    async def _opened(
        cls, flow: Flow[SandboxInfo], client: AsyncClient | None, *, created: bool
    ) -> AsyncSandbox:
        used = client or AsyncClient()
        try:
            info = await used.carry_out(flow)
        except BaseException:
            if client is None:
                await used.close()
            raise
        sandbox = cls(used, info.id)
        sandbox._owns_client, sandbox._created = client is None, created
        return sandbox

    @classmethod
    async def list(
        cls,
        *,
        state: str | None = None,
        template: str | None = None,
        metadata: Mapping[str, str] | None = None,
        page_size: int | None = None,
        client: AsyncClient | None = None,
    ) -> AsyncIterator[SandboxInfo]:
        """Yields the sandboxes of this key: running ones, or those in `state`.

        `template` and `metadata` select sandboxes that have these values. The list is requested in
        pages of `page_size`.
        """
        flow = flows.list_sandboxes(
            state=state, template=template, metadata=metadata, page_size=page_size
        )
        if client is not None:
            async for info in client.iterate(flow):
                yield info
            return
        async with AsyncClient() as own:
            async for info in own.iterate(flow):
                yield info

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
        kernel: str | AsyncKernel | None = None,
        policy: str | None = None,
    ) -> Execution:
        """Runs a cell and waits for its end. Code that fails is reported in the result, not raised.

        `timeout` is in seconds of wall-clock time. Callbacks, plain or asynchronous, receive all
        output, results and errors as they arrive; the returned execution holds as much as the
        limits allow. A broken connection is reopened. Cancelling the call, or an exception in a
        callback, interrupts the cell. Raises `PolicyBlocked` if `policy` forbids the code, and
        `ConnectionLost` if the connection cannot be restored; the cell may then still run.
        """
        id = kernel.id if isinstance(kernel, AsyncKernel) else kernel
        hooks = Hooks(on_stdout, on_stderr, on_result, on_error, on_approval)
        options = CellOptions(id, timeout, policy)
        return await self._client.carry_out(flows.run_code(self.id, code, options, hooks))

    async def start_code(
        self,
        code: str,
        *,
        timeout: float | None = None,
        kernel: str | AsyncKernel | None = None,
        policy: str | None = None,
        input: bool | None = None,
    ) -> AsyncCell:
        """Starts a cell in the background; arguments are those of `run_code`.

        With `input` the code may ask for lines; see `Cell.input`.
        """
        id = kernel.id if isinstance(kernel, AsyncKernel) else kernel
        call = requests.start_cell(self.id, code, CellOptions(id, timeout, policy, input))
        return self.cell((await self._client.ask(call)).id)

    def cell(self, id: str) -> AsyncCell:
        """Returns a cell by its id; does not check that it exists."""
        return AsyncCell(self._client, self.id, id)

    async def cells(self) -> Executions:
        """Returns the last 100 cells, newest first."""
        return await self._client.ask(requests.list_cells(self.id))

    async def info(self) -> SandboxInfo:
        """Returns the current state of the sandbox; also after its end."""
        return await self._client.ask(requests.get_sandbox(self.id))

    async def usage(self) -> Usage:
        """Returns the current resource usage and its samples of the last hour."""
        return await self._client.ask(requests.usage(self.id))

    async def extend(self, ttl_seconds: float) -> None:
        """Extends the lifetime to at least `ttl_seconds` from now; never shortens it."""
        await self._client.ask(requests.extend_sandbox(self.id, ttl_seconds))

    async def fork(
        self,
        count: int = 1,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        threads: str | None = None,
        shared: str | None = None,
        processes: str | None = None,
        same_random: bool = False,
    ) -> Sandboxes:
        """Makes copies that go on from the same variables and files; each is a sandbox of its own.

        `left_behind` of a copy lists what it lacks, such as sockets. Threads, other processes and
        shared memory would make a copy wrong: `Conflict` names them, unless `threads`, `processes`
        or `shared` is `leave`. With `same_random` the copies draw the same random numbers. The
        caller deletes the copies.
        """
        call = requests.fork_sandbox(
            self.id,
            count=count,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            threads=threads,
            shared=shared,
            processes=processes,
            same_random=same_random,
        )
        forked = await self._client.ask(call)
        twins = [AsyncSandbox(self._client, info.id) for info in forked.sandboxes]
        for twin in twins:
            twin._created, twin.left_behind = True, forked.left_behind
        return twins

    async def snapshot(self, name: str | None = None) -> Snapshot:
        """Keeps the state of the sandbox, in the memory of the server; the sandbox goes on.

        `create(snapshot=…)` starts others from it, also after this one has ended.
        """
        return await self._client.ask(requests.create_snapshot(self.id, name))

    async def mark(self) -> Mark:
        """Marks the state of the sandbox, for `undo`; the last eight marks are kept."""
        return await self._client.ask(requests.create_mark(self.id))

    async def undo(self, mark: Mark | str | None = None, *, cells: int | None = None) -> Mark:
        """Sets variables and files back to a mark, or to the newest one before the last `cells` cells.

        Without arguments the last cell is undone. Raises `NotFound` if there is no such mark.
        """
        id = mark if mark is None or isinstance(mark, str) else mark.id
        return await self._client.ask(requests.undo(self.id, cells=cells, mark=id))

    async def delete(self) -> None:
        """Ends the sandbox and all its processes; returns when none of them runs any more.

        Does nothing if the sandbox has already ended.
        """
        await self._client.carry_out(flows.delete_sandbox(self.id))

    async def close(self) -> None:
        """Closes the connections if no client was given; the sandbox goes on running."""
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._created and error is None:
                await self.delete()
            elif self._created:
                # The exception of the block is more important than one of `delete`.
                with suppress(SilicaError):
                    await self.delete()
        finally:
            await self.close()

    def __repr__(self) -> str:
        return f"<AsyncSandbox {self.id}>"


class Opening:
    """A sandbox that is being created or connected to: await it, or enter it with `async with`."""

    def __init__(self, coming: Coroutine[Any, Any, AsyncSandbox]) -> None:
        self._coming = coming
        self._sandbox: AsyncSandbox | None = None

    def __await__(self) -> Generator[Any, Any, AsyncSandbox]:
        return self._coming.__await__()

    async def __aenter__(self) -> AsyncSandbox:
        self._sandbox = await self._coming
        return self._sandbox

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._sandbox is not None:
            await self._sandbox.__aexit__(kind, error, traceback)
