"""Commands: processes in a sandbox other than its interpreters, for asynchronous callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import flows, requests
from silica.core.collect import Hooks, OnText
from silica.core.requests import Command, CommandOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from silica.aio.client import AsyncClient
    from silica.events import CommandEvent
    from silica.models import CommandResult

    Listed = list[CommandResult]


class AsyncCommandHandle:
    """A command, by its id. It runs independently of this client and its connection.

    Every method raises `NotFound` if the server does not have the command any more.
    """

    def __init__(self, client: AsyncClient, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> AsyncIterator[CommandEvent]:
        """Yields the events of the command to its end, all or those after the event number `after`.

        A broken connection is reopened; no event is lost or repeated, and events that the server
        has dropped are reported as a `Gap`.
        """
        return self._client.iterate(flows.command_events(self._sandbox, self.id, after))

    def __aiter__(self) -> AsyncIterator[CommandEvent]:
        return self.events()

    async def wait(self, timeout: float | None = None) -> CommandResult:
        """Waits for the end of the command; raises `TimedOut` after `timeout` seconds.

        The command runs on after a timeout.
        """
        return await self._client.carry_out(flows.wait_command(self._sandbox, self.id, timeout))

    async def result(self) -> CommandResult:
        """Returns the state of the command; `CommandResult.done` is true if it has ended."""
        return await self._client.ask(requests.get_command(self._sandbox, self.id))

    async def send_stdin(self, data: str | bytes) -> None:
        """Writes to standard input, text as UTF-8; raises `Conflict` if the command has ended."""
        data = data.encode() if isinstance(data, str) else data
        await self._client.ask(requests.send_stdin(self._sandbox, self.id, data, close=False))

    async def close_stdin(self) -> None:
        """Closes standard input: the command reads the end of the file."""
        await self._client.ask(requests.send_stdin(self._sandbox, self.id, b"", close=True))

    async def signal(self, signal: str | int) -> None:
        """Sends a signal to the process group of the command, by name (`"TERM"`) or number."""
        await self._client.ask(requests.signal_command(self._sandbox, self.id, signal))

    async def kill(self) -> None:
        """Kills the process group of the command with `SIGKILL`."""
        await self.signal("KILL")

    async def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the command's terminal, in characters."""
        await self._client.ask(requests.resize_command(self._sandbox, self.id, (columns, rows)))

    def __repr__(self) -> str:
        return f"<AsyncCommandHandle {self.id} of {self._sandbox}>"


class AsyncCommands:
    """The commands of one sandbox."""

    def __init__(self, client: AsyncClient, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    async def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: OnText = None,
        on_stderr: OnText = None,
    ) -> CommandResult:
        """Runs a command and waits for its end. Cancelling the call kills the command.

        A string is run by a shell, a list of arguments without one. Standard input is `stdin`, or
        empty. `timeout` is in seconds of wall-clock time. A command that fails is reported in the
        result, not raised; raises `CannotStart` if the program does not exist.
        """
        options = CommandOptions(env=env, directory=directory, timeout=timeout)
        hooks = Hooks(on_stdout, on_stderr)
        return await self._client.carry_out(
            flows.run_command(self._sandbox, command, options, stdin=stdin, hooks=hooks)
        )

    async def start(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bool = False,
        timeout: float | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> AsyncCommandHandle:
        """Starts a command in the background; other arguments are those of `run`.

        With `stdin`, or a `terminal` as a pair of columns and rows, standard input stays open until
        `close_stdin`.
        """
        options = CommandOptions(env, directory, stdin, timeout, terminal)
        started = await self._client.ask(requests.start_command(self._sandbox, command, options))
        return self.get(started.id)

    def get(self, id: str) -> AsyncCommandHandle:
        """Returns a command by its id; does not check that it exists."""
        return AsyncCommandHandle(self._client, self._sandbox, id)

    async def list(self) -> Listed:
        """Returns the running commands, and those that ended last."""
        return await self._client.ask(requests.list_commands(self._sandbox))
