"""One function for each request of the API, which returns the `Call`.

Nothing is sent here, and no local file is opened.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from silica.core.call import Answer, Call, Source, nothing, of_stream, path_of, raw
from silica.core.fields import Fields, parsed
from silica.errors import BadAnswer
from silica.interpretation import Interpretation
from silica.models import (
    CommandResult,
    Entry,
    Execution,
    Forked,
    KernelInfo,
    Limits,
    Link,
    Listing,
    Mark,
    Run,
    SandboxInfo,
    Shared,
    Snapshot,
    Usage,
)
from silica.networks import Connection, Exposure, NetworkCheck, NetworkInfo, SecretInfo
from silica.review import Approval

if TYPE_CHECKING:
    from collections.abc import Callable

# An answer that waits for code may take as long as the code. TCP keepalive detects a server that
# has disappeared (see `silica.core.http`), so this only has to be longer than any cell.
RUN_PATIENCE = 24 * 3600.0
# The server sends a comment on event streams every few seconds; one silent for this long is broken.
EVENTS_PATIENCE = 120.0
# How long one request waits for the end of a cell or command; then the next is sent.
WAIT_SECONDS = 20.0
# A fork waits for the cell that runs, and then copies all memory and files.
FORK_PATIENCE = 180.0
# The timeout of an interrupt that is sent while an exception is raised.
INTERRUPT_PATIENCE = 5.0

Content = Union[str, bytes]
Command = Union[str, Sequence[str]]

_EVENTS = {"accept": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of sandboxes."""

    sandboxes: list[SandboxInfo]
    next_page: str | None


def given(**fields: object) -> dict[str, object]:
    """Returns the fields that are not None; the server has defaults for the others."""
    return {name: value for name, value in fields.items() if value is not None}


def content_of(content: Content) -> dict[str, object]:
    """Returns the request fields of a content: text as text, bytes as base64."""
    if isinstance(content, str):
        return {"content": content}
    return {"content_base64": base64.b64encode(content).decode("ascii")}


def normal(path: str) -> str:
    """Removes `.` and repeated slashes from a path.

    The meaning of `..` depends on links, so it is kept, and the server rejects it.
    """
    parts = "/".join(part for part in path.split("/") if part not in {"", "."})
    if path.startswith("/"):
        return f"/{parts}"
    return parts or "/workspace"


# Run once


def run(
    code: str,
    *,
    template: str | None,
    limits: Limits | Mapping[str, float] | None,
    env: Mapping[str, str] | None,
    arguments: Sequence[str] | None,
    timeout: float | None,
    files: Mapping[str, Content],
    outputs: Sequence[str] | None,
    policy: str | None,
    network: Mapping[str, object] | None,
) -> Call[Run]:
    """Runs code in a new sandbox."""
    body = given(
        code=code,
        template=template,
        limits=limits,
        env=env,
        arguments=arguments,
        timeout_seconds=timeout,
        files=_files_in(files),
        outputs=outputs,
        policy=policy,
        network=network,
    )
    return Call("POST", "/v1/run", parsed("the run", Run.parse), json=body, patience=RUN_PATIENCE)


def interpret(
    prompt: str, *, files: Mapping[str, Content], stream: bool, **options: object
) -> Call[Interpretation]:
    """Sends a prompt; the answer is one object or a stream of events."""
    body = given(prompt=prompt, files=_files_in(files), **options)
    parse = parsed("the interpretation", Interpretation.parse)
    return Call(
        "POST",
        "/v1/interpret",
        parse,
        json=body,
        headers=_EVENTS if stream else {},
        patience=EVENTS_PATIENCE if stream else RUN_PATIENCE,
    )


# Sandboxes


def create_sandbox(
    *,
    template: str | None,
    limits: Limits | Mapping[str, float] | None,
    env: Mapping[str, str] | None,
    metadata: Mapping[str, str] | None,
    ttl_seconds: float | None,
    idle_seconds: float | None,
    max_cells: int | None,
    inputs: Mapping[str, Content | Shared],
    interpreter: str | None,
    network: Mapping[str, object] | None = None,
    snapshot: str | None = None,
) -> Call[SandboxInfo]:
    """Creates a sandbox."""
    body = given(
        template=template,
        limits=limits,
        env=env,
        metadata=metadata,
        ttl_seconds=ttl_seconds,
        idle_seconds=idle_seconds,
        max_cells=max_cells,
        inputs=[_input(name, content) for name, content in inputs.items()] or None,
        interpreter=interpreter,
        network=network,
        snapshot=snapshot,
    )
    return Call("POST", "/v1/sandboxes", _sandbox, json=body)


def list_sandboxes(
    *,
    state: str | None,
    template: str | None,
    metadata: Mapping[str, str] | None,
    limit: int | None,
    page: str | None,
) -> Call[Page]:
    """Requests one page of sandboxes."""
    query = _query(state=state, template=template, limit=limit, page=page)
    query.update({f"metadata.{key}": value for key, value in (metadata or {}).items()})
    return Call("GET", "/v1/sandboxes", parsed("the list of sandboxes", _page), query=query)


def get_sandbox(sandbox: str) -> Call[SandboxInfo]:
    """Requests a sandbox."""
    return Call("GET", path_of("sandboxes", sandbox), _sandbox)


def extend_sandbox(sandbox: str, ttl_seconds: float) -> Call[SandboxInfo | None]:
    """Extends the lifetime of a sandbox to at least `ttl_seconds` from now."""
    return Call(
        "POST",
        path_of("sandboxes", sandbox, "extend"),
        lambda answer: _sandbox(answer) if answer.body else None,
        json={"ttl_seconds": ttl_seconds},
        repeatable=True,
    )


def fork_sandbox(
    sandbox: str,
    *,
    count: int,
    metadata: Mapping[str, str] | None,
    ttl_seconds: float | None,
    threads: str | None,
    shared: str | None,
    processes: str | None,
    same_random: bool,
) -> Call[Forked]:
    """Copies a live sandbox."""
    body = given(
        count=count,
        metadata=metadata,
        ttl_seconds=ttl_seconds,
        threads=threads,
        shared=shared,
        processes=processes,
        same_random=same_random or None,
    )
    path = path_of("sandboxes", sandbox, "fork")
    return Call("POST", path, parsed("the copies", Forked.parse), json=body, patience=FORK_PATIENCE)


def create_snapshot(sandbox: str, name: str | None) -> Call[Snapshot]:
    """Keeps the state of a sandbox."""
    path = path_of("sandboxes", sandbox, "snapshots")
    parse = parsed("the snapshot", Snapshot.parse)
    return Call("POST", path, parse, json=given(name=name), patience=FORK_PATIENCE)


def list_snapshots() -> Call[list[Snapshot]]:
    """Requests all snapshots of the key."""
    parse = parsed("the snapshots", lambda fields: fields.many("snapshots", Snapshot.parse))
    return Call("GET", "/v1/snapshots", parse)


def delete_snapshot(snapshot: str) -> Call[None]:
    """Deletes a snapshot."""
    return Call("DELETE", path_of("snapshots", snapshot), nothing)


def create_mark(sandbox: str) -> Call[Mark]:
    """Marks the state of a sandbox."""
    path = path_of("sandboxes", sandbox, "marks")
    return Call("POST", path, parsed("the mark", Mark.parse), json={}, patience=FORK_PATIENCE)


def undo(sandbox: str, *, cells: int | None, mark: str | None) -> Call[Mark]:
    """Sets a sandbox back to a mark."""
    path = path_of("sandboxes", sandbox, "undo")
    body = given(cells=cells, mark=mark)
    return Call("POST", path, parsed("the mark", Mark.parse), json=body, patience=FORK_PATIENCE)


def delete_sandbox(sandbox: str) -> Call[None]:
    """Ends a sandbox."""
    return Call("DELETE", path_of("sandboxes", sandbox), nothing)


def usage(sandbox: str) -> Call[Usage]:
    """Requests the resource usage of a sandbox."""
    return Call("GET", path_of("sandboxes", sandbox, "usage"), parsed("the usage", Usage.parse))


# Kernels


def list_kernels(sandbox: str) -> Call[list[KernelInfo]]:
    """Requests all kernels."""
    return Call("GET", path_of("sandboxes", sandbox, "kernels"), _many("kernels", KernelInfo.parse))


def create_kernel(
    sandbox: str, env: Mapping[str, str] | None, directory: str | None
) -> Call[KernelInfo]:
    """Starts another kernel."""
    path = path_of("sandboxes", sandbox, "kernels")
    return Call("POST", path, _kernel, json=given(env=env, directory=directory))


def get_kernel(sandbox: str, kernel: str) -> Call[KernelInfo]:
    """Requests a kernel."""
    return Call("GET", path_of("sandboxes", sandbox, "kernels", kernel), _kernel)


def delete_kernel(sandbox: str, kernel: str) -> Call[None]:
    """Ends a kernel."""
    return Call("DELETE", path_of("sandboxes", sandbox, "kernels", kernel), nothing)


def interrupt_kernel(sandbox: str, kernel: str) -> Call[None]:
    """Interrupts the cell that a kernel is running."""
    path = path_of("sandboxes", sandbox, "kernels", kernel, "interrupt")
    return Call("POST", path, nothing)


def restart_kernel(sandbox: str, kernel: str) -> Call[None]:
    """Replaces the interpreter of a kernel with a new one."""
    path = path_of("sandboxes", sandbox, "kernels", kernel, "restart")
    return Call("POST", path, nothing)


def complete(sandbox: str, kernel: str, code: str, cursor: int | None) -> Call[list[str]]:
    """Requests the names that can follow code."""
    path = path_of("sandboxes", sandbox, "kernels", kernel, "complete")
    body = given(code=code, cursor=cursor)
    return Call(
        "POST", path, parsed("completions", lambda fields: fields.texts("matches")), json=body
    )


def inspect(
    sandbox: str, kernel: str, code: str, cursor: int | None, detail: int
) -> Call[str | None]:
    """Requests what a name in code is."""
    path = path_of("sandboxes", sandbox, "kernels", kernel, "inspect")
    body = given(code=code, cursor=cursor, detail=detail)
    return Call(
        "POST", path, parsed("an inspection", lambda fields: fields.text_or_none("text")), json=body
    )


# Cells


@dataclass(frozen=True, slots=True)
class CellOptions:
    """The options of a cell."""

    kernel: str | None = None
    timeout: float | None = None
    policy: str | None = None
    input: bool | None = None

    def body(self, code: str, *, background: bool | None = None) -> dict[str, object]:
        """Returns the body of the request."""
        return given(
            code=code,
            kernel=self.kernel,
            timeout_seconds=self.timeout,
            policy=self.policy,
            input=self.input,
            background=background,
        )


def start_cell(sandbox: str, code: str, options: CellOptions) -> Call[Execution]:
    """Starts a cell in the background."""
    body = options.body(code, background=True)
    return Call("POST", path_of("sandboxes", sandbox, "cells"), _cell, json=body)


def stream_cell(sandbox: str, code: str, options: CellOptions) -> Call[object]:
    """Runs a cell and streams its events."""
    body = options.body(code)
    path = path_of("sandboxes", sandbox, "cells")
    return Call("POST", path, of_stream, json=body, headers=_EVENTS, patience=EVENTS_PATIENCE)


def list_cells(sandbox: str) -> Call[list[Execution]]:
    """Requests the last cells, newest first."""
    return Call("GET", path_of("sandboxes", sandbox, "cells"), _many("cells", Execution.parse))


def get_cell(sandbox: str, cell: str, *, wait: float | None = None) -> Call[Execution]:
    """Requests a cell; with `wait`, the server waits up to so many seconds for its end."""
    path = path_of("sandboxes", sandbox, "cells", cell)
    return Call("GET", path, _cell, query=_wait(wait), patience=_patience(wait))


def cell_events(sandbox: str, cell: str, after: int) -> Call[object]:
    """Streams the events of a cell."""
    return _events(path_of("sandboxes", sandbox, "cells", cell, "events"), after)


def cell_is_done(sandbox: str, cell: str) -> Call[bool]:
    """Requests whether a cell has ended."""
    return Call("GET", path_of("sandboxes", sandbox, "cells", cell), lambda one: _cell(one).done)


def interrupt_cell(sandbox: str, cell: str) -> Call[None]:
    """Raises `KeyboardInterrupt` in a cell."""
    path = path_of("sandboxes", sandbox, "cells", cell, "interrupt")
    return Call("POST", path, nothing, patience=INTERRUPT_PATIENCE)


def extend_cell(sandbox: str, cell: str, seconds: float) -> Call[None]:
    """Adds seconds to the time limit of a cell."""
    path = path_of("sandboxes", sandbox, "cells", cell, "extend")
    return Call("POST", path, nothing, json={"seconds": seconds})


def answer_cell(sandbox: str, cell: str, line: str) -> Call[None]:
    """Gives a cell a line of input."""
    path = path_of("sandboxes", sandbox, "cells", cell, "input")
    return Call("POST", path, nothing, json={"value": line})


# Commands


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of a command."""

    env: Mapping[str, str] | None = None
    directory: str | None = None
    stdin: bool = False
    timeout: float | None = None
    terminal: tuple[int, int] | None = None

    def body(self, command: Command, *, background: bool) -> dict[str, object]:
        """Returns the body of the request."""
        what = {"command": command} if isinstance(command, str) else {"arguments": list(command)}
        return {
            **what,
            **given(
                env=self.env,
                directory=self.directory,
                stdin=self.stdin or None,
                timeout_seconds=self.timeout,
                terminal=None if self.terminal is None else _size(self.terminal),
                background=background or None,
            ),
        }


def start_command(sandbox: str, command: Command, options: CommandOptions) -> Call[CommandResult]:
    """Starts a command in the background."""
    path = path_of("sandboxes", sandbox, "commands")
    return Call("POST", path, _command, json=options.body(command, background=True))


def stream_command(sandbox: str, command: Command, options: CommandOptions) -> Call[object]:
    """Runs a command and streams its events."""
    return Call(
        "POST",
        path_of("sandboxes", sandbox, "commands"),
        of_stream,
        json=options.body(command, background=False),
        headers=_EVENTS,
        patience=EVENTS_PATIENCE,
    )


def list_commands(sandbox: str) -> Call[list[CommandResult]]:
    """Requests the running commands, and those that ended last."""
    path = path_of("sandboxes", sandbox, "commands")
    return Call("GET", path, _many("commands", CommandResult.parse))


def get_command(sandbox: str, command: str, *, wait: float | None = None) -> Call[CommandResult]:
    """Requests a command; with `wait`, the server waits up to so many seconds for its end."""
    path = path_of("sandboxes", sandbox, "commands", command)
    return Call("GET", path, _command, query=_wait(wait), patience=_patience(wait))


def command_events(sandbox: str, command: str, after: int) -> Call[object]:
    """Streams the events of a command."""
    return _events(path_of("sandboxes", sandbox, "commands", command, "events"), after)


def command_is_done(sandbox: str, command: str) -> Call[bool]:
    """Requests whether a command has ended."""
    path = path_of("sandboxes", sandbox, "commands", command)
    return Call("GET", path, lambda answer: _command(answer).done)


def send_stdin(sandbox: str, command: str, data: bytes, *, close: bool) -> Call[None]:
    """Writes to a command's standard input."""
    path = path_of("sandboxes", sandbox, "commands", command, "stdin")
    return Call("POST", path, nothing, query=_query(close="true" if close else None), body=data)


def signal_command(sandbox: str, command: str, signal: str | int) -> Call[None]:
    """Sends a signal to a command's process group."""
    path = path_of("sandboxes", sandbox, "commands", command, "signal")
    return Call("POST", path, nothing, json={"signal": signal}, patience=INTERRUPT_PATIENCE)


def resize_command(sandbox: str, command: str, size: tuple[int, int]) -> Call[None]:
    """Sets the size of a command's terminal."""
    path = path_of("sandboxes", sandbox, "commands", command, "resize")
    return Call("POST", path, nothing, json=_size(size), repeatable=True)


# Files


def list_files(sandbox: str, path: str, depth: int) -> Call[Listing]:
    """Lists a directory."""
    query = {**_at(path), "depth": str(depth)}
    parse = parsed("the listing", Listing.parse)
    return Call("GET", path_of("sandboxes", sandbox, "files"), parse, query=query)


def remove_file(sandbox: str, path: str) -> Call[None]:
    """Removes a file or a whole directory."""
    return Call("DELETE", path_of("sandboxes", sandbox, "files"), nothing, query=_at(path))


def stat_file(sandbox: str, path: str) -> Call[Entry]:
    """Requests the entry at a path."""
    return Call("GET", _files(sandbox, "stat"), _entry, query=_at(path))


def read_file(sandbox: str, path: str, start: int | None, length: int | None) -> Call[bytes]:
    """Reads a file, or a part of it."""
    headers = {} if start is None and length is None else {"range": _range(start or 0, length)}
    return Call("GET", _files(sandbox, "content"), raw, query=_at(path), headers=headers)


def stream_file(sandbox: str, path: str) -> Call[object]:
    """Reads a file piece by piece."""
    return Call("GET", _files(sandbox, "content"), of_stream, query=_at(path))


def write_file(sandbox: str, path: str, body: bytes | Source, mode: int | None) -> Call[Entry]:
    """Writes a file."""
    query = {**_at(path), **_query(mode=None if mode is None else f"{mode:o}")}
    return Call("PUT", _files(sandbox, "content"), _entry, query=query, body=body)


def make_directory(sandbox: str, path: str) -> Call[Entry | None]:
    """Creates a directory and its parents."""
    target = _files(sandbox, "directory")
    return Call("POST", target, _entry_or_none, json=_at(path), repeatable=True)


def move_file(sandbox: str, source: str, target: str, *, overwrite: bool) -> Call[Entry | None]:
    """Moves or renames a file or directory."""
    body = {"from": normal(source), "to": normal(target), "overwrite": overwrite}
    return Call("POST", _files(sandbox, "move"), _entry_or_none, json=body)


def stream_archive(sandbox: str, path: str) -> Call[object]:
    """Reads a directory as a tar stream."""
    return Call("GET", _files(sandbox, "archive"), of_stream, query=_at(path))


def write_archive(sandbox: str, path: str, body: Source) -> Call[None]:
    """Unpacks a tar stream into a directory."""
    headers = {"content-type": "application/x-tar"}
    query = _at(path)
    return Call("PUT", _files(sandbox, "archive"), nothing, query=query, headers=headers, body=body)


def link_file(sandbox: str, path: str, method: str, expires_seconds: float | None) -> Call[Link]:
    """Requests a URL that is valid without a key."""
    body = given(path=normal(path), method=method, expires_seconds=expires_seconds)
    parse = parsed("the link", Link.parse)
    return Call("POST", _files(sandbox, "link"), parse, json=body, repeatable=True)


# Networks, ports and secrets


def get_network(sandbox: str) -> Call[NetworkInfo]:
    """Requests the network of a sandbox."""
    parse = parsed("the network", NetworkInfo.parse)
    return Call("GET", path_of("sandboxes", sandbox, "network"), parse)


def set_network(sandbox: str, network: Mapping[str, object]) -> Call[None]:
    """Replaces the network of a sandbox."""
    return Call("PUT", path_of("sandboxes", sandbox, "network"), nothing, json=network)


def check_network(
    sandbox: str, url: str | None, host: str | None, port: int | None, method: str | None
) -> Call[NetworkCheck]:
    """Asks what the rules say."""
    body = given(url=url, host=host, port=port, method=method)
    parse = parsed("the check", NetworkCheck.parse)
    path = path_of("sandboxes", sandbox, "network", "check")
    return Call("POST", path, parse, json=body, repeatable=True)


def list_connections(sandbox: str) -> Call[list[Connection]]:
    """Requests the connections of a sandbox."""
    path = path_of("sandboxes", sandbox, "network", "connections")
    return Call("GET", path, _many("connections", Connection.parse))


def list_ports(sandbox: str) -> Call[Exposure]:
    """Requests the exposed ports."""
    path = path_of("sandboxes", sandbox, "ports")
    return Call("GET", path, parsed("the ports", Exposure.parse))


def port_path(sandbox: str, port: int) -> str:
    """Returns the path below which the server of a port answers."""
    return path_of("sandboxes", sandbox, "ports", str(port)) + "/"


def link_port(
    sandbox: str, port: int, path: str | None, expires_seconds: float | None
) -> Call[Link]:
    """Requests a URL of a port that is valid without a key."""
    body = given(path=path, expires_seconds=expires_seconds)
    target = path_of("sandboxes", sandbox, "ports", str(port), "link")
    return Call("POST", target, parsed("the link", Link.parse), json=body, repeatable=True)


def put_secret(
    name: str, *, places: Sequence[str] | None, hosts: Sequence[str], **fields: object
) -> Call[SecretInfo]:
    """Stores a secret."""
    body = given(hosts=list(hosts), **fields)
    if places is not None:
        body["in"] = list(places)
    return Call("PUT", path_of("secrets", name), _secret, json=body)


def list_secrets() -> Call[list[SecretInfo]]:
    """Requests all secrets, without values."""
    return Call("GET", path_of("secrets"), _many("secrets", SecretInfo.parse))


def get_secret(name: str) -> Call[SecretInfo]:
    """Requests a secret, without its value."""
    return Call("GET", path_of("secrets", name), _secret)


def delete_secret(name: str) -> Call[None]:
    """Deletes a secret."""
    return Call("DELETE", path_of("secrets", name), nothing)


# Approvals


def list_approvals(state: str | None) -> Call[list[Approval]]:
    """Requests approvals, pending or in `state`."""
    parse = _many("approvals", Approval.parse)
    return Call("GET", path_of("approvals"), parse, query=_query(state=state))


def get_approval(approval: str) -> Call[Approval]:
    """Requests an approval."""
    return Call("GET", path_of("approvals", approval), _approval)


def decide(
    approval: str, verb: str, reason: str | None, sha256: str | None, scope: str | None = None
) -> Call[Approval]:
    """Approves or denies; `verb` is `approve` or `deny`."""
    body = given(reason=reason, sha256=sha256, scope=scope)
    return Call("POST", path_of("approvals", approval, verb), _approval, json=body)


# Other resources


def get_json(*segments: str, query: Mapping[str, str] | None = None) -> Call[Any]:
    """Requests JSON that is returned unchanged."""
    return Call("GET", path_of(*segments), _json, query=query or {})


def audit(**query: object) -> Call[Any]:
    """Requests audit records."""
    return get_json("audit", query=_query(**query))


def create_key(
    name: str, *, admin: bool, approve: bool, network: Mapping[str, object] | None
) -> Call[Any]:
    """Creates a key."""
    body = given(name=name, admin=admin, approve=approve, network=network)
    return Call("POST", path_of("keys"), _json, json=body)


def revoke_key(key: str) -> Call[None]:
    """Revokes a key."""
    return Call("DELETE", path_of("keys", key), nothing)


def _json(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"the answer is not JSON: {error}") from error


def _many(name: str, parse: Callable[[Fields], Any]) -> Callable[[Answer], list[Any]]:
    """Returns a parser of a list, which is the whole answer or its field `name`."""

    def read(answer: Answer) -> list[Any]:
        found = _json(answer)
        return Fields(found if isinstance(found, dict) else {name: found}, name).many(name, parse)

    return read


def _page(fields: Fields) -> Page:
    sandboxes = fields.many("sandboxes", SandboxInfo.parse)
    return Page(sandboxes, fields.text_or_none("next_page"))


def _at(path: str) -> dict[str, str]:
    return {"path": normal(path)}


def _entry_or_none(answer: Answer) -> Entry | None:
    return _entry(answer) if answer.body else None


def _events(path: str, after: int) -> Call[object]:
    query = _query(after=after or None)
    return Call("GET", path, of_stream, query=query, headers=_EVENTS, patience=EVENTS_PATIENCE)


def _files(sandbox: str, what: str) -> str:
    return path_of("sandboxes", sandbox, "files", what)


def _files_in(files: Mapping[str, Content]) -> list[dict[str, object]] | None:
    return [{"path": path, **content_of(content)} for path, content in files.items()] or None


def _input(name: str, content: Content | Shared) -> dict[str, object]:
    if isinstance(content, Shared):
        return {"name": name, "shared": content.name}
    return {"name": name, **content_of(content)}


def _patience(wait: float | None) -> float | None:
    return None if wait is None else wait + WAIT_SECONDS


def _query(**fields: object) -> dict[str, str]:
    return {name: str(value) for name, value in given(**fields).items()}


def _wait(wait: float | None) -> dict[str, str]:
    return {} if wait is None else {"wait": f"{wait:g}"}


def _range(start: int, length: int | None) -> str:
    if start < 0 or (length is not None and length < 1):
        raise ValueError("start must be at least 0, and length at least 1")
    return f"bytes={start}-{'' if length is None else start + length - 1}"


def _size(size: tuple[int, int]) -> dict[str, object]:
    columns, rows = size
    return {"columns": columns, "rows": rows}


_sandbox = parsed("the sandbox", SandboxInfo.parse)
_kernel = parsed("the kernel", KernelInfo.parse)
_cell = parsed("the cell", Execution.parse)
_command = parsed("the command", CommandResult.parse)
_entry = parsed("the entry", Entry.parse)
_approval = parsed("the approval", Approval.parse)
_secret = parsed("the secret", SecretInfo.parse)
