"""The interpreters of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.cells import Cell
from silica.core import flows, requests
from silica.core.collect import Hooks, OnApproval, OnError, OnResult, OnText
from silica.core.requests import CellOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from silica.client import Client
    from silica.models import Execution, KernelInfo

    Listed = list[KernelInfo]


class Kernel:
    """One interpreter by its id. It has variables of its own; files are common."""

    def __init__(self, client: Client, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

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
        policy: str | None = None,
    ) -> Execution:
        """Runs code here; see `Sandbox.run_code`."""
        hooks = Hooks(on_stdout, on_stderr, on_result, on_error, on_approval)
        options = CellOptions(self.id, timeout, policy)
        return self._client.carry_out(flows.run_code(self._sandbox, code, options, hooks))

    def start_code(
        self, code: str, *, timeout: float | None = None, policy: str | None = None
    ) -> Cell:
        """Runs code here in the background; see `Sandbox.start_code`."""
        call = requests.start_cell(self._sandbox, code, CellOptions(self.id, timeout, policy))
        return Cell(self._client, self._sandbox, self._client.ask(call).id)

    def info(self) -> KernelInfo:
        """Returns it as it stands."""
        return self._client.ask(requests.get_kernel(self._sandbox, self.id))

    def interrupt(self) -> None:
        """Interrupts whatever it runs; does nothing if it runs nothing."""
        self._client.ask(requests.interrupt_kernel(self._sandbox, self.id))

    def restart(self) -> None:
        """Gives it a new interpreter: variables are lost, files stay."""
        self._client.ask(requests.restart_kernel(self._sandbox, self.id))

    def delete(self) -> None:
        """Ends it."""
        self._client.ask(requests.delete_kernel(self._sandbox, self.id))

    def __repr__(self) -> str:
        return f"<Kernel {self.id} of {self._sandbox}>"


class Kernels:
    """All interpreters of one sandbox; it starts with `k1`."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def create(
        self, *, env: Mapping[str, str] | None = None, directory: str | None = None
    ) -> Kernel:
        """Starts another interpreter."""
        created = self._client.ask(requests.create_kernel(self._sandbox, env, directory))
        return self.get(created.id)

    def get(self, id: str) -> Kernel:
        """Returns a kernel by its id, without asking whether it is there."""
        return Kernel(self._client, self._sandbox, id)

    def list(self) -> Listed:
        """Returns all of them as they stand."""
        return self._client.ask(requests.list_kernels(self._sandbox))
