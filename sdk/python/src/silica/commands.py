"""Commands in a sandbox: processes beside the interpreters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silica.core import flows, requests
from silica.core.collect import Hooks, OnText
from silica.core.requests import Command, CommandOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from silica.client import Client
    from silica.events import CommandEvent
    from silica.models import CommandResult

    Listed = list[CommandResult]


class CommandHandle:
    """A command by its id. It runs on whether anybody looks or not."""

    def __init__(self, client: Client, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> Iterator[CommandEvent]:
        """Yields what happens, from the start or after the event of that number, to the end.

        A connection that breaks is made again, and nothing is missed or repeated.
        """
        return self._client.iterate(flows.command_events(self._sandbox, self.id, after))

    def __iter__(self) -> Iterator[CommandEvent]:
        return self.events()

    def wait(self, timeout: float | None = None) -> CommandResult:
        """Waits for its end; raises `TimedOut` if that takes longer than `timeout` seconds."""
        return self._client.carry_out(flows.wait_command(self._sandbox, self.id, timeout))

    def result(self) -> CommandResult:
        """Returns it as it stands; `done` says whether it has ended."""
        return self._client.ask(requests.get_command(self._sandbox, self.id))

    def send_stdin(self, data: str | bytes) -> None:
        """Writes to its standard input."""
        data = data.encode() if isinstance(data, str) else data
        self._client.ask(requests.send_stdin(self._sandbox, self.id, data, close=False))

    def close_stdin(self) -> None:
        """Closes its standard input, which it reads as the end."""
        self._client.ask(requests.send_stdin(self._sandbox, self.id, b"", close=True))

    def signal(self, signal: str | int) -> None:
        """Sends a signal to its whole process group, by name (`"TERM"`) or number."""
        self._client.ask(requests.signal_command(self._sandbox, self.id, signal))

    def kill(self) -> None:
        """Ends it and its process group at once."""
        self.signal("KILL")

    def resize(self, columns: int, rows: int) -> None:
        """Tells its terminal the new size."""
        self._client.ask(requests.resize_command(self._sandbox, self.id, (columns, rows)))

    def __repr__(self) -> str:
        return f"<CommandHandle {self.id} of {self._sandbox}>"


class Commands:
    """All commands of one sandbox."""

    def __init__(self, client: Client, sandbox: str) -> None:
        self._client = client
        self._sandbox = sandbox

    def run(
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
        """Runs a command and waits for its end; Ctrl-C kills it.

        A string goes to a shell, a list of arguments to no shell. Standard input is `stdin` and
        then its end.
        """
        options = CommandOptions(env=env, directory=directory, timeout=timeout)
        hooks = Hooks(on_stdout, on_stderr)
        return self._client.carry_out(
            flows.run_command(self._sandbox, command, options, stdin=stdin, hooks=hooks)
        )

    def start(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bool = False,
        timeout: float | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> CommandHandle:
        """Runs a command in the background.

        With `stdin`, or a `terminal` of so many columns and rows, its standard input stays open
        until it is closed.
        """
        options = CommandOptions(env, directory, stdin, timeout, terminal)
        started = self._client.ask(requests.start_command(self._sandbox, command, options))
        return self.get(started.id)

    def get(self, id: str) -> CommandHandle:
        """Returns a command by its id, without asking whether it is there."""
        return CommandHandle(self._client, self._sandbox, id)

    def list(self) -> Listed:
        """Returns those that run, and the last that ended."""
        return self._client.ask(requests.list_commands(self._sandbox))
