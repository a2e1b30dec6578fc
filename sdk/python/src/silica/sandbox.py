"""A sandbox, for blocking callers."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from silica.cells import Cell
from silica.client import Client
from silica.commands import Commands
from silica.core import flows, requests
from silica.core.collect import Hooks, OnApproval, OnError, OnResult, OnText
from silica.core.flow import send
from silica.core.requests import CellOptions
from silica.errors import SilicaError
from silica.files import Files
from silica.kernels import Kernel, Kernels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from silica.core.flow import Flow
    from silica.core.flows import Given
    from silica.models import Execution, Limits, SandboxInfo, Shared, Usage

    Executions = list[Execution]


class Sandbox:
    """One isolated place with its files, processes, limits and end.

    `files`, `commands` and `kernels` are what it holds. In a `with` block, one that was created is
    deleted at the end, and one that was connected to is left as it is.
    """

    def __init__(self, client: Client, id: str) -> None:
        """Takes a sandbox by its id, without asking whether it is there."""
        self._client = client
        self._owns_client = False
        self._created = False
        self.id = id
        self.files = Files(client, id)
        self.commands = Commands(client, id)
        self.kernels = Kernels(client, id)

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
        client: Client | None = None,
    ) -> Sandbox:
        """Creates a sandbox. What is not given has the server's default.

        `inputs` are shown read-only below `/data/input`: text, bytes, a `Path` to read, or a
        `Shared` that the operator offers. `interpreter` is `forked` (milliseconds) or `fresh`
        (shares nothing with any other sandbox). It ends after `ttl_seconds`, after `idle_seconds`
        without a request, or with `max_cells`.
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
        )
        return cls._opened(flows.create_sandbox(build, inputs), client, created=True)

    @classmethod
    def connect(cls, id: str, *, client: Client | None = None) -> Sandbox:
        """Takes a sandbox that is there; `NotFound` if it is not."""
        return cls._opened(send(requests.get_sandbox(id)), client, created=False)

    @classmethod
    def _opened(cls, flow: Flow[SandboxInfo], client: Client | None, *, created: bool) -> Sandbox:
        used = client or Client()
        try:
            info = used.carry_out(flow)
        except BaseException:
            if client is None:
                used.close()
            raise
        sandbox = cls(used, info.id)
        sandbox._owns_client, sandbox._created = client is None, created
        return sandbox

    @classmethod
    def list(
        cls,
        *,
        state: str | None = None,
        template: str | None = None,
        metadata: Mapping[str, str] | None = None,
        page_size: int | None = None,
        client: Client | None = None,
    ) -> Iterator[SandboxInfo]:
        """Yields this key's sandboxes, page by page; running ones unless `state` says otherwise."""
        flow = flows.list_sandboxes(
            state=state, template=template, metadata=metadata, page_size=page_size
        )
        if client is not None:
            yield from client.iterate(flow)
            return
        with Client() as own:
            yield from own.iterate(flow)

    def run_code(
        self,
        code: str,
        *,
        on_stdout: OnText = None,
        on_stderr: OnText = None,
        on_result: OnResult = None,
        on_error: OnError = None,
        on_approval: OnApproval = None,
        timeout: float | None = None,
        kernel: str | Kernel | None = None,
        policy: str | None = None,
    ) -> Execution:
        """Runs a cell and waits for its end. Code that raises is an answer, not an exception.

        Callbacks hear everything as it happens; what is returned holds as much as the limits allow.
        A connection that breaks is made again. Ctrl-C, or an exception in a callback, interrupts
        the cell and is raised.
        """
        id = kernel.id if isinstance(kernel, Kernel) else kernel
        hooks = Hooks(on_stdout, on_stderr, on_result, on_error, on_approval)
        options = CellOptions(id, timeout, policy)
        return self._client.carry_out(flows.run_code(self.id, code, options, hooks))

    def start_code(
        self,
        code: str,
        *,
        timeout: float | None = None,
        kernel: str | Kernel | None = None,
        policy: str | None = None,
    ) -> Cell:
        """Runs a cell in the background."""
        id = kernel.id if isinstance(kernel, Kernel) else kernel
        call = requests.start_cell(self.id, code, CellOptions(id, timeout, policy))
        return self.cell(self._client.ask(call).id)

    def cell(self, id: str) -> Cell:
        """Returns a cell by its id, without asking whether it is there."""
        return Cell(self._client, self.id, id)

    def cells(self) -> Executions:
        """Returns the last cells, newest first."""
        return self._client.ask(requests.list_cells(self.id))

    def info(self) -> SandboxInfo:
        """Returns it as it stands."""
        return self._client.ask(requests.get_sandbox(self.id))

    def usage(self) -> Usage:
        """Returns what it uses now and used before."""
        return self._client.ask(requests.usage(self.id))

    def extend(self, ttl_seconds: float) -> None:
        """Lets it live at least so long from now."""
        self._client.ask(requests.extend_sandbox(self.id, ttl_seconds))

    def delete(self) -> None:
        """Ends it: nothing in it runs any more when this returns. One that has ended is fine."""
        self._client.carry_out(flows.delete_sandbox(self.id))

    def close(self) -> None:
        """Closes connections of its own and leaves it as it is."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._created and error is None:
                self.delete()
            elif self._created:
                # What went wrong in the block matters more.
                with suppress(SilicaError):
                    self.delete()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {self.id}>"
