"""Kernels: the interpreters of a sandbox."""

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
    """An interpreter, by its id. Each has its own variables; all share the files of the sandbox.

    Every method raises `NotFound` if there is no such kernel.
    """

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
        """Runs a cell in this kernel and waits for its end, like `Sandbox.run_code`."""
        hooks = Hooks(on_stdout, on_stderr, on_result, on_error, on_approval)
        options = CellOptions(self.id, timeout, policy)
        return self._client.carry_out(flows.run_code(self._sandbox, code, options, hooks))

    def start_code(
        self,
        code: str,
        *,
        timeout: float | None = None,
        policy: str | None = None,
        input: bool | None = None,
    ) -> Cell:
        """Starts a cell in this kernel in the background, like `Sandbox.start_code`."""
        call = requests.start_cell(
            self._sandbox, code, CellOptions(self.id, timeout, policy, input)
        )
        return Cell(self._client, self._sandbox, self._client.ask(call).id)

    def info(self) -> KernelInfo:
        """Returns the current state of the kernel."""
        return self._client.ask(requests.get_kernel(self._sandbox, self.id))

    def interrupt(self) -> None:
        """Interrupts the cell that the kernel is running; does nothing if it is idle."""
        self._client.ask(requests.interrupt_kernel(self._sandbox, self.id))

    def restart(self) -> None:
        """Replaces the interpreter with a new one: variables are lost, files are kept."""
        self._client.ask(requests.restart_kernel(self._sandbox, self.id))

    def complete(self, code: str, cursor: int | None = None) -> list[str]:
        """Returns the names that can follow code, or the part of it before `cursor`."""
        return self._client.ask(requests.complete(self._sandbox, self.id, code, cursor))

    def inspect(self, code: str, cursor: int | None = None, *, detail: int = 0) -> str | None:
        """Returns what the name at `cursor` is, or None; with a `detail` of 1 its source, too."""
        return self._client.ask(requests.inspect(self._sandbox, self.id, code, cursor, detail))

    def delete(self) -> None:
        """Ends the kernel."""
        self._client.ask(requests.delete_kernel(self._sandbox, self.id))

    def __repr__(self) -> str:
        return f"<Kernel {self.id} of {self._sandbox}>"


class Kernels:
    """The kernels of one sandbox; the first one is `k1`."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def create(
        self, *, env: Mapping[str, str] | None = None, directory: str | None = None
    ) -> Kernel:
        """Starts another kernel with the given environment and working directory."""
        created = self._client.ask(requests.create_kernel(self._sandbox, env, directory))
        return self.get(created.id)

    def get(self, id: str) -> Kernel:
        """Returns a kernel by its id; does not check that it exists."""
        return Kernel(self._client, self._sandbox, id)

    def list(self) -> Listed:
        """Returns the current state of all kernels."""
        return self._client.ask(requests.list_kernels(self._sandbox))
