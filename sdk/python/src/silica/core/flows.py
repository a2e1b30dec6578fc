"""The operations that take more than one request, written once for both clients; see `flow`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, Union

from silica.core import archive, requests
from silica.core.call import Answer
from silica.core.collect import Collected, Hooks, PromptHooks
from silica.core.flow import Close, Emit, Flow, Notify, Read, Sleep, open_stream, send, work
from silica.core.follow import RESUME_ATTEMPTS, E, Followed, Follower
from silica.core.local import FileSource, LocalPath, ObjectSource, PartFile, Sink, target_of
from silica.core.problem import error_of
from silica.core.requests import WAIT_SECONDS, CellOptions, Command, CommandOptions
from silica.core.retry import pause
from silica.core.sse import Parser
from silica.errors import (
    CannotConnect,
    Conflict,
    ConnectionLost,
    NotFound,
    SandboxEnded,
    SilicaError,
    TimedOut,
)
from silica.events import (
    CellEvent,
    CommandEvent,
    Done,
    Exited,
    cell_event,
    command_event,
    fields_of,
)
from silica.interpretation import Interpretation
from silica.models import CommandResult, Entry, Execution, Run, Shared

if TYPE_CHECKING:
    from silica.core.call import Call, Source

# Bytes of a download that are buffered before they are written.
WRITE_BYTES = 1 << 20

# If a request with `wait` is answered sooner than this, the server did not wait.
SHORT_WAIT_SECONDS = 0.1

# Text, bytes, or the path of a local file.
Given = Union[str, bytes, "os.PathLike[str]"]

W = TypeVar("W", Execution, CommandResult)

_DISCONNECTED = (CannotConnect, ConnectionLost, TimedOut)


# Cells


def run_code(sandbox: str, code: str, options: CellOptions, hooks: Hooks) -> Flow[Execution]:
    """Runs a cell and passes its events to the callbacks. If the flow ends early, interrupts it."""
    follower = Follower(_cells(sandbox))
    collected = Collected()
    begin = follower.begin(requests.stream_cell(sandbox, code, options))
    stop = partial(requests.interrupt_cell, sandbox)
    last = yield from _watch(follower, begin, hooks, collected, stop)
    if not isinstance(last, Done):
        execution = yield from send(requests.get_cell(sandbox, follower.id))
        return replace(execution, heard=hooks.names())
    execution = replace(
        last.execution,
        stdout=collected.stdout.text,
        stderr=collected.stderr.text,
        results=collected.results,
    )
    asked = requests.get_cell(sandbox, follower.id)
    kept = yield from _as_kept(execution, collected, asked)
    return replace(kept, heard=hooks.names())


def cell_events(sandbox: str, cell: str, after: int) -> Flow[None]:
    """Emits the events of a cell until it ends."""
    yield from _emit_all(Follower(_cells(sandbox), id=cell, after=after))


def wait_cell(sandbox: str, cell: str, timeout: float | None) -> Flow[Execution]:
    """Waits until a cell has ended."""
    ask = partial(requests.get_cell, sandbox, cell)
    return (yield from _wait(lambda wait: ask(wait=wait), f"cell {cell}", timeout))


# Prompts


def interpret(
    build: Callable[..., Call[Interpretation]],
    files: Mapping[str, Given] | None,
    hooks: PromptHooks,
) -> Flow[Interpretation]:
    """Sends a prompt and returns the answer; with callbacks, also passes its events to them.

    The server stops the model and the code when the connection ends, so a broken connection cannot
    be resumed.
    """
    callbacks = hooks.by_event()
    contents = yield from _contents(files)
    call = build(files=contents, stream=bool(callbacks))
    if not callbacks:
        return (yield from send(call))
    stream = yield from open_stream(call)
    parser = Parser()
    while piece := (yield Read(stream)):
        for message in parser.feed(piece):
            if message.event == "done":
                yield Close(stream)
                return Interpretation.parse(fields_of(message))
            if message.event == "problem":
                status = fields_of(message).whole("status")
                raise error_of(Answer(status, {}, message.data.encode()))
            if found := callbacks.get(message.event):
                callback, field = found
                yield Notify(callback, fields_of(message).text(field))
    raise ConnectionLost("the connection broke before the prompt was answered")


# Commands


def run_command(
    sandbox: str,
    command: Command,
    options: CommandOptions,
    *,
    stdin: str | bytes | None,
    hooks: Hooks,
) -> Flow[CommandResult]:
    """Runs a command and passes its events to the callbacks. If the flow ends early, kills it."""
    follower = Follower(_commands(sandbox))
    collected = Collected()
    begin = _begin_command(follower, sandbox, command, options, stdin)
    stop = partial(_kill, sandbox)
    last = yield from _watch(follower, begin, hooks, collected, stop)
    if not isinstance(last, Exited):
        return (yield from send(requests.get_command(sandbox, follower.id)))
    result = replace(last.result, stdout=collected.stdout.text, stderr=collected.stderr.text)
    asked = requests.get_command(sandbox, follower.id)
    return (yield from _as_kept(result, collected, asked))


def command_events(sandbox: str, command: str, after: int) -> Flow[None]:
    """Emits the events of a command until it ends."""
    yield from _emit_all(Follower(_commands(sandbox), id=command, after=after))


def wait_command(sandbox: str, command: str, timeout: float | None) -> Flow[CommandResult]:
    """Waits until a command has ended."""
    ask = partial(requests.get_command, sandbox, command)
    return (yield from _wait(lambda wait: ask(wait=wait), f"command {command}", timeout))


def _begin_command(
    follower: Follower[CommandEvent],
    sandbox: str,
    command: Command,
    options: CommandOptions,
    stdin: str | bytes | None,
) -> Flow[None]:
    if stdin is None:
        yield from follower.begin(requests.stream_command(sandbox, command, options))
        return
    started = yield from send(
        requests.start_command(sandbox, command, replace(options, stdin=True))
    )
    follower.id = started.id
    data = stdin.encode() if isinstance(stdin, str) else stdin
    # The command may end without reading all its input, as `head` does.
    with suppress(Conflict):
        yield from send(requests.send_stdin(sandbox, started.id, data, close=True))


def _kill(sandbox: str, command: str) -> Call[None]:
    return requests.signal_command(sandbox, command, "KILL")


# Sandboxes


def create_sandbox(
    build: Callable[..., Call[Any]], inputs: Mapping[str, Given | Shared] | None
) -> Flow[Any]:
    """Creates a sandbox; reads the inputs that are local files."""
    return (yield from send(build(inputs=(yield from _contents(inputs)))))


def run(
    build: Callable[..., Call[Any]],
    files: Mapping[str, Given] | None,
    outputs_wanted: Sequence[str] | None,
) -> Flow[Any]:
    """Runs code once; reads the files that are local. Waits for a person who has to approve it."""
    result = yield from send(build(files=(yield from _contents(files))))
    if result.done or result.sandbox is None:
        return result
    sandbox = result.sandbox
    cell = yield from wait_cell(sandbox, result.id, None)
    outputs: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    for path in outputs_wanted or ():
        try:
            outputs[path] = yield from send(requests.read_file(sandbox, path, None, None))
        except SilicaError as error:
            missing[path] = str(error)
    # Its time would end it, too.
    with suppress(SilicaError):
        yield from send(requests.delete_sandbox(sandbox))
    known = {part.name: getattr(cell, part.name) for part in fields(cell)}
    return Run(**known, outputs=outputs, missing=missing)


def list_sandboxes(
    *,
    state: str | None,
    template: str | None,
    metadata: Mapping[str, str] | None,
    page_size: int | None,
) -> Flow[None]:
    """Emits every sandbox, page by page."""
    page: str | None = None
    while True:
        found = yield from send(
            requests.list_sandboxes(
                state=state, template=template, metadata=metadata, limit=page_size, page=page
            )
        )
        for sandbox in found.sandboxes:
            yield Emit(sandbox)
        if found.next_page is None or found.next_page == page:
            return
        page = found.next_page


def delete_sandbox(sandbox: str) -> Flow[None]:
    """Ends a sandbox; does nothing if it has ended."""
    with suppress(NotFound, SandboxEnded):
        yield from send(requests.delete_sandbox(sandbox))


# Files


def exists(sandbox: str, path: str) -> Flow[bool]:
    """Returns whether a path exists in the sandbox."""
    try:
        yield from send(requests.stat_file(sandbox, path))
    except NotFound as error:
        if error.code != "file_not_found":
            raise
        return False
    return True


def upload(
    sandbox: str, local: LocalPath | BinaryIO, path: str | None, mode: int | None
) -> Flow[Entry]:
    """Uploads a local file in pieces."""
    source: Source
    if isinstance(local, (str, os.PathLike)):
        source = yield from work(partial(FileSource.of, local))
        path = path or Path(local).name
    else:
        source = yield from work(partial(ObjectSource, local))
        path = path or _name_of(local)
    return (yield from send(requests.write_file(sandbox, path, source, mode)))


def download(sandbox: str, path: str, local: LocalPath | None) -> Flow[Path]:
    """Downloads a file in pieces; the local file appears when it is complete."""
    part = yield from work(lambda: PartFile(target_of(local, path)))
    try:
        yield from _copy(requests.stream_file(sandbox, path), part)
        yield from work(part.commit)
    finally:
        part.discard()
    return part.path


def download_into(sandbox: str, path: str, sink: Sink) -> Flow[None]:
    """Downloads a file into an object open for writing."""
    yield from _copy(requests.stream_file(sandbox, path), sink)


def upload_directory(sandbox: str, local: LocalPath, path: str) -> Flow[None]:
    """Uploads the content of a local directory, through a temporary file."""
    with tempfile.TemporaryFile() as packed:
        yield from work(partial(archive.pack, Path(local), packed))
        packed.seek(0)
        source = ObjectSource(packed)
        yield from send(requests.write_archive(sandbox, path, source))


def download_directory(sandbox: str, path: str, local: LocalPath) -> Flow[Path]:
    """Downloads the content of a directory; unpacks it when the whole archive has arrived."""
    with tempfile.TemporaryFile() as packed:
        yield from _copy(requests.stream_archive(sandbox, path), packed)
        packed.seek(0)
        yield from work(partial(archive.unpack, packed, Path(local)))
    return Path(local)


def _copy(call: Call[object], sink: Sink) -> Flow[None]:
    stream = yield from open_stream(call)
    gathered = bytearray()
    while piece := (yield Read(stream)):
        gathered += piece
        if len(gathered) >= WRITE_BYTES:
            yield from work(partial(sink.write, bytes(gathered)))
            gathered.clear()
    yield from work(partial(sink.write, bytes(gathered)))
    yield Close(stream)


def _contents(given: Mapping[str, Any] | None) -> Flow[dict[str, Any]]:
    """Returns the values of `given`, with paths replaced by the content of the local files."""
    contents: dict[str, Any] = {}
    for name, value in (given or {}).items():
        is_path = isinstance(value, os.PathLike)
        contents[name] = (yield from work(Path(value).read_bytes)) if is_path else value
    return contents


def _name_of(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    if not isinstance(name, str):
        raise TypeError("the file object has no name; give the target with path=…")
    return Path(name).name


# Common to cells and commands


def _cells(sandbox: str) -> Followed[CellEvent]:
    events = partial(requests.cell_events, sandbox)
    return Followed("cell", cell_event, events, partial(requests.cell_is_done, sandbox))


def _commands(sandbox: str) -> Followed[CommandEvent]:
    events = partial(requests.command_events, sandbox)
    return Followed("command", command_event, events, partial(requests.command_is_done, sandbox))


def _watch(
    follower: Follower[E],
    begin: Flow[None],
    hooks: Hooks,
    collected: Collected,
    stop: Callable[[str], Call[None]],
) -> Flow[E | None]:
    """Reads events to the end and returns the last one; sends `stop` if the caller raises.

    A lost connection does not stop the cell or command: it runs on, and its state can be requested.
    """
    last: E | None = None
    try:
        yield from begin
        while (event := (yield from follower.next())) is not None:
            collected.take(event)
            yield from hooks.notify(event)
            last = event
    except (GeneratorExit, *_DISCONNECTED):
        raise
    except BaseException:
        if follower.id:
            yield from _quietly(stop(follower.id))
        raise
    return last


def _quietly(call: Call[None]) -> Flow[None]:
    """Sends a request while another exception is raised, and ignores its own failure."""
    with suppress(SilicaError):
        yield from send(call)


def _as_kept(result: W, collected: Collected, asked: Call[W]) -> Flow[W]:
    """Returns the result as the server has it.

    If output was truncated or lost, the server's copy replaces the received one, so that the result
    does not depend on how the client read the events.
    """
    cut = result.truncated.stdout or result.truncated.stderr
    if collected.whole and not cut:
        return result
    try:
        return (yield from send(asked))
    except SilicaError:
        # The sandbox may have ended with this cell or command.
        return result


def _emit_all(follower: Follower[E]) -> Flow[None]:
    while (event := (yield from follower.next())) is not None:
        yield Emit(event)


def _wait(ask: Callable[[float], Call[W]], what: str, timeout: float | None) -> Flow[W]:
    deadline = None if timeout is None else time.monotonic() + timeout
    failures = 0
    while True:
        asked_at = time.monotonic()
        left = WAIT_SECONDS if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            found = yield from send(ask(min(left, WAIT_SECONDS)))
        except _DISCONNECTED:
            failures += 1
            if failures > RESUME_ATTEMPTS:
                raise
            yield Sleep(pause(failures))
            continue
        failures = 0
        if found.done:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOut(f"{what} did not end within {timeout} s; it is still running")
        if time.monotonic() - asked_at < SHORT_WAIT_SECONDS:
            # The server did not wait; repeating the request at once would be a busy loop.
            yield Sleep(SHORT_WAIT_SECONDS)
