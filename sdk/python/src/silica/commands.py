"""Commands: processes in a sandbox other than its interpreters."""

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
    """A command, by its id. It runs independently of this client and its connection.

    Every method raises `NotFound` if the server does not have the command any more.
    """

    def __init__(self, client: Client, sandbox: str, id: str) -> None:
        self._client = client
        self._sandbox = sandbox
        self.id = id

    def events(self, after: int = 0) -> Iterator[CommandEvent]:
        """Yields the events of the command to its end, all or those after the event number `after`.

        A broken connection is reopened; no event is lost or repeated, and events that the server
        has dropped are reported as a `Gap`.
        """
        return self._client.iterate(flows.command_events(self._sandbox, self.id, after))

    def __iter__(self) -> Iterator[CommandEvent]:
        return self.events()

    def wait(self, timeout: float | None = None) -> CommandResult:
        """Waits for the end of the command; raises `TimedOut` after `timeout` seconds.

        The command runs on after a timeout.
        """
        return self._client.carry_out(flows.wait_command(self._sandbox, self.id, timeout))

    def result(self) -> CommandResult:
        """Returns the state of the command; `CommandResult.done` is true if it has ended."""
        return self._client.ask(requests.get_command(self._sandbox, self.id))

    def send_stdin(self, data: str | bytes) -> None:
        """Writes to standard input, text as UTF-8; raises `Conflict` if the command has ended."""
        data = data.encode() if isinstance(data, str) else data
        self._client.ask(requests.send_stdin(self._sandbox, self.id, data, close=False))

    def close_stdin(self) -> None:
        """Closes standard input: the command reads the end of the file."""
        self._client.ask(requests.send_stdin(self._sandbox, self.id, b"", close=True))

    def signal(self, signal: str | int) -> None:
        """Sends a signal to the process group of the command, by name (`"TERM"`) or number."""
        self._client.ask(requests.signal_command(self._sandbox, self.id, signal))

    def kill(self) -> None:
        """Kills the process group of the command with `SIGKILL`."""
        self.signal("KILL")

    def resize(self, columns: int, rows: int) -> None:
        """Sets the size of the command's terminal, in characters."""
        self._client.ask(requests.resize_command(self._sandbox, self.id, (columns, rows)))

    def __repr__(self) -> str:
        return f"<CommandHandle {self.id} of {self._sandbox}>"


class Commands:
    """The commands of one sandbox."""

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
        """Runs a command and waits for its end. Ctrl-C, or an exception in a callback, kills it.

        A string is run by a shell, a list of arguments without one. Standard input is `stdin`, or
        empty. `timeout` is in seconds of wall-clock time. A command that fails is reported in the
        result, not raised; raises `CannotStart` if the program does not exist.
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
        """Starts a command in the background; other arguments are those of `run`.

        With `stdin`, or a `terminal` as a pair of columns and rows, standard input stays open until
        `close_stdin`.
        """
        options = CommandOptions(env, directory, stdin, timeout, terminal)
        started = self._client.ask(requests.start_command(self._sandbox, command, options))
        return self.get(started.id)

    def get(self, id: str) -> CommandHandle:
        """Returns a command by its id; does not check that it exists."""
        return CommandHandle(self._client, self._sandbox, id)

    def list(self) -> Listed:
        """Returns the running commands, and those that ended last."""
        return self._client.ask(requests.list_commands(self._sandbox))
