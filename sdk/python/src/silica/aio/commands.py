"""Commands in a sandbox, for asynchronous callers."""

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
    """A command by its id. It runs on whether anybody looks or not."""

    def __init__(self, client: AsyncClient, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> AsyncIterator[CommandEvent]:
        """Yields what happens, from the start or after the event of that number, to the end.

        A connection that breaks is made again, and nothing is missed or repeated.
        """
        return self._client.iterate(flows.command_events(self._sandbox, self.id, after))

    def __aiter__(self) -> AsyncIterator[CommandEvent]:
        return self.events()

    async def wait(self, timeout: float | None = None) -> CommandResult:
        """Waits for its end; raises `TimedOut` if that takes longer than `timeout` seconds."""
        return await self._client.carry_out(flows.wait_command(self._sandbox, self.id, timeout))

    async def result(self) -> CommandResult:
        """Returns it as it stands; `done` says whether it has ended."""
        return await self._client.ask(requests.get_command(self._sandbox, self.id))

    async def send_stdin(self, data: str | bytes) -> None:
        """Writes to its standard input."""
        data = data.encode() if isinstance(data, str) else data
        await self._client.ask(requests.send_stdin(self._sandbox, self.id, data, close=False))

    async def close_stdin(self) -> None:
        """Closes its standard input, which it reads as the end."""
        await self._client.ask(requests.send_stdin(self._sandbox, self.id, b"", close=True))

    async def signal(self, signal: str | int) -> None:
        """Sends a signal to its whole process group, by name (`"TERM"`) or number."""
        await self._client.ask(requests.signal_command(self._sandbox, self.id, signal))

    async def kill(self) -> None:
        """Ends it and its process group at once."""
        await self.signal("KILL")

    async def resize(self, columns: int, rows: int) -> None:
        """Tells its terminal the new size."""
        await self._client.ask(requests.resize_command(self._sandbox, self.id, (columns, rows)))

    def __repr__(self) -> str:
        return f"<AsyncCommandHandle {self.id} of {self._sandbox}>"


class AsyncCommands:
    """All commands of one sandbox."""

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
        """Runs a command and waits for its end; cancelled, it is killed.

        A string goes to a shell, a list of arguments to no shell. Standard input is `stdin` and
        then its end.
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
        """Runs a command in the background.

        With `stdin`, or a `terminal` of so many columns and rows, its standard input stays open
        until it is closed.
        """
        options = CommandOptions(env, directory, stdin, timeout, terminal)
        started = await self._client.ask(requests.start_command(self._sandbox, command, options))
        return self.get(started.id)

    def get(self, id: str) -> AsyncCommandHandle:
        """Returns a command by its id, without asking whether it is there."""
        return AsyncCommandHandle(self._client, self._sandbox, id)

    async def list(self) -> Listed:
        """Returns those that run, and the last that ended."""
        return await self._client.ask(requests.list_commands(self._sandbox))
