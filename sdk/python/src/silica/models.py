"""The values in answers of the server: sandboxes, kernels, cells, commands and files.

Each class parses itself from an answer (`parse`); none of them sends a request.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from silica.core.display import describe_command, describe_execution, describe_result
from silica.errors import BadAnswer, CommandFailed, ExecutionFailed
from silica.networks import CellNetwork
from silica.review import Approval, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from silica.core.fields import Fields


class Limits(TypedDict, total=False):
    """Limits of a sandbox; those that are left out have the defaults of the server."""

    memory_bytes: int
    disk_bytes: int
    cpus: float
    cpu_seconds: float
    wall_seconds: float
    processes: int
    open_files: int
    file_bytes: int
    output_bytes: int
    results: int
    result_bytes: int


@dataclass(frozen=True, slots=True)
class Shared:
    """An input that the operator of the server shares under a name."""

    name: str


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """One result of a cell: `data` maps MIME types to values; binary types are base64 text.

    `main` is true for the value of the last expression. Jupyter displays a result as its value.
    Each property returns one MIME type, or None if the result does not have it.
    """

    main: bool
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, fields: Fields) -> Result:
        """Parses one of `results`."""
        return cls(
            main=fields.flag("main", default=False),
            data=fields.object("data"),
            metadata=fields.object("metadata"),
        )

    @property
    def text(self) -> str | None:
        """The value of `text/plain`."""
        return self._string("text/plain")

    @property
    def html(self) -> str | None:
        """The value of `text/html`."""
        return self._string("text/html")

    @property
    def markdown(self) -> str | None:
        """The value of `text/markdown`."""
        return self._string("text/markdown")

    @property
    def latex(self) -> str | None:
        """The value of `text/latex`."""
        return self._string("text/latex")

    @property
    def svg(self) -> str | None:
        """The value of `image/svg+xml`."""
        return self._string("image/svg+xml")

    @property
    def png(self) -> bytes | None:
        """The bytes of `image/png`."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The bytes of `image/jpeg`."""
        return self._bytes("image/jpeg")

    @property
    def pdf(self) -> bytes | None:
        """The bytes of `application/pdf`."""
        return self._bytes("application/pdf")

    @property
    def json(self) -> Any:
        """The parsed value of `application/json`."""
        return self._object("application/json")

    @property
    def chart(self) -> Any:
        """The chart data of a figure: its type, axes and points."""
        return self._object("application/vnd.silica.chart+json")

    @property
    def table(self) -> Any:
        """The data of a DataFrame or Series: a list of values for each column."""
        return self._object("application/vnd.silica.data+json")

    def __repr__(self) -> str:
        return describe_result(self)

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Returns the MIME data for Jupyter to display."""
        wanted = set(self.data if include is None else include) - set(exclude or ())
        return {mime: value for mime, value in self.data.items() if mime in wanted}

    def _string(self, mime: str) -> str | None:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    def _bytes(self, mime: str) -> bytes | None:
        value = self._string(mime)
        return None if value is None else decode_base64(value, mime)

    def _object(self, mime: str) -> Any:
        value = self.data.get(mime)
        return json.loads(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An exception that was raised in a cell."""

    name: str
    value: str
    traceback: list[str] = field(default_factory=list, repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> ErrorInfo:
        """Parses `error`."""
        return cls(fields.text("name"), fields.text("value", ""), fields.texts("traceback"))

    def __str__(self) -> str:
        return "\n".join(self.traceback) or f"{self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that a cell created, changed or removed. `size` is in bytes."""

    path: str
    size: int | None

    @classmethod
    def parse(cls, fields: Fields) -> ChangedFile:
        """Parses one of `created`, `changed` or `removed`."""
        return cls(fields.text("path"), fields.whole_or_none("size"))


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changes of files by a cell. `truncated` is true if the lists are incomplete."""

    created: list[ChangedFile] = field(default_factory=list)
    changed: list[ChangedFile] = field(default_factory=list)
    removed: list[ChangedFile] = field(default_factory=list)
    truncated: bool = False

    @classmethod
    def parse(cls, fields: Fields) -> FileChanges:
        """Parses `files`."""
        return cls(
            created=fields.many("created", ChangedFile.parse),
            changed=fields.many("changed", ChangedFile.parse),
            removed=fields.many("removed", ChangedFile.parse),
            truncated=fields.flag("truncated", default=False),
        )


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that was reached; `message` says how to raise it."""

    limit: str
    message: str

    @classmethod
    def parse(cls, fields: Fields) -> LimitHit:
        """Parses one of `limits_hit`."""
        return cls(fields.text("limit"), fields.text("message", ""))


@dataclass(frozen=True, slots=True)
class Truncated:
    """The amount that was dropped: bytes of `stdout` and `stderr`, and number of `results`.

    `by_budget` is true if the key's budget of kept bytes had no room for it.
    """

    stdout: int = 0
    stderr: int = 0
    results: int = 0
    by_budget: bool = False

    @classmethod
    def parse(cls, fields: Fields) -> Truncated:
        """Parses `truncated`."""
        return cls(
            fields.whole("stdout", 0),
            fields.whole("stderr", 0),
            fields.whole("results", 0),
            fields.flag("by_budget", default=False),
        )

    def __bool__(self) -> bool:
        return bool(self.stdout or self.stderr or self.results)


@dataclass(frozen=True, slots=True)
class CellUsage:
    """The resource usage of a cell; None for values that the server cannot measure."""

    cpu_ms: float | None = None
    memory_peak_bytes: int | None = None

    @classmethod
    def parse(cls, fields: Fields) -> CellUsage:
        """Parses `usage` of a cell."""
        return cls(fields.number_or_none("cpu_ms"), fields.whole_or_none("memory_peak_bytes"))


@dataclass(frozen=True, repr=False)
class Execution:
    """A cell: its state, outcome, output and results.

    While `state` is `awaiting_approval`, `queued` or `running`, `outcome` is None. `message`
    describes the outcome, and `text` is the text of the main result. If the cell's interpreter was
    lost, `lost` says what was lost with it and what remains. `findings` are those of `policy`, and
    `approval` is set if the policy required one. `network` is what the cell did with the network
    of its sandbox.
    """

    id: str
    kernel: str
    state: str
    outcome: str | None = None
    exit_code: int | None = None
    message: str | None = None
    stdout: str = ""
    stderr: str = ""
    text: str | None = None
    results: list[Result] = field(default_factory=list)
    error: ErrorInfo | None = None
    files: FileChanges = field(default_factory=FileChanges)
    duration_ms: float | None = None
    limits_hit: list[LimitHit] = field(default_factory=list)
    truncated: Truncated = field(default_factory=Truncated)
    usage: CellUsage = field(default_factory=CellUsage)
    kernel_state: str | None = None
    lost: str | None = None
    policy: str | None = None
    findings: list[Finding] = field(default_factory=list)
    approval: Approval | None = None
    network: CellNetwork | None = None
    # What callbacks have received already, which Jupyter does not display again.
    heard: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def parse(cls, fields: Fields) -> Execution:
        """Parses a cell."""
        return cls(**_execution(fields))

    @property
    def done(self) -> bool:
        """Whether the cell has ended, with any outcome."""
        return self.state == "done"

    @property
    def ok(self) -> bool:
        """Whether the cell ended without an exception, a signal or a limit."""
        return self.outcome == "ok"

    def raise_for_error(self) -> Execution:
        """Returns this execution if `ok` is true; raises `ExecutionFailed` if not."""
        if self.ok:
            return self
        raise ExecutionFailed(self._complaint(), self)

    def _complaint(self) -> str:
        if self.error is not None:
            return str(self.error)
        hit = "; ".join(limit.message for limit in self.limits_hit)
        ended = f"the cell ended as {self.outcome or self.state}"
        return hit or self.message or self.lost or ended

    def __repr__(self) -> str:
        return describe_execution(self)

    def _ipython_display_(self) -> None:
        """Displays output and results in Jupyter as if the cell had run there."""
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

        if "stdout" not in self.heard:
            sys.stdout.write(self.stdout)
        if "stderr" not in self.heard:
            sys.stderr.write(self.stderr)
        for result in () if "result" in self.heard else self.results:
            display(result)
        if not self.ok and "error" not in self.heard:
            sys.stderr.write(self._complaint() + "\n")


@dataclass(frozen=True, repr=False)
class Run(Execution):
    """The result of `Client.run`: the cell, and the content of the requested files by path.

    `missing` maps the path of each file that could not be read to the reason. `sandbox` is set
    while the run waits for a person.
    """

    sandbox: str | None = None
    outputs: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, fields: Fields) -> Run:
        """Parses the answer of `/v1/run`."""
        found = fields.many("outputs", _output)
        return cls(
            **_execution(fields),
            sandbox=fields.text_or_none("sandbox"),
            outputs={path: content for path, content, _ in found if content is not None},
            missing={path: reason for path, content, reason in found if content is None},
        )


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel. `cell` is the id of the cell that it runs, if its state is `busy`."""

    id: str
    state: str
    cell: str | None
    cells_run: int
    restarts: int
    created_at: datetime | None

    @classmethod
    def parse(cls, fields: Fields) -> KernelInfo:
        """Parses a kernel."""
        return cls(
            id=fields.text("id"),
            state=fields.text("state"),
            cell=fields.text_or_none("cell"),
            cells_run=fields.whole("cells_run", 0),
            restarts=fields.whole("restarts", 0),
            created_at=fields.time_or_none("created_at"),
        )


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """The state of a sandbox. `containment` lists what is enforced; it is None in lists."""

    id: str
    state: str
    template: str
    metadata: dict[str, str]
    limits: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None
    idle_seconds: float | None
    max_cells: int | None
    cells_run: int
    kernels: list[KernelInfo]
    end_reason: str | None
    ended_at: datetime | None
    containment: dict[str, Any] | None = field(repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> SandboxInfo:
        """Parses a sandbox."""
        return cls(
            id=fields.text("id"),
            state=fields.text("state"),
            template=fields.text("template"),
            metadata=fields.object("metadata"),
            limits=fields.object("limits"),
            created_at=fields.time("created_at"),
            expires_at=fields.time_or_none("expires_at"),
            idle_seconds=fields.number_or_none("idle_seconds"),
            max_cells=fields.whole_or_none("max_cells"),
            cells_run=fields.whole("cells_run", 0),
            kernels=fields.many("kernels", KernelInfo.parse),
            end_reason=fields.text_or_none("end_reason"),
            ended_at=fields.time_or_none("ended_at"),
            containment=fields.object("containment") or None,
        )


@dataclass(frozen=True, slots=True)
class UsageSample:
    """The resource usage of a sandbox at a time; None for values that cannot be measured."""

    at: datetime
    cpu_ms: float | None
    memory_bytes: int | None
    memory_peak_bytes: int | None
    disk_bytes: int | None
    files: int | None

    @classmethod
    def parse(cls, fields: Fields) -> UsageSample:
        """Parses a sample."""
        return cls(
            at=fields.time("at"),
            cpu_ms=fields.number_or_none("cpu_ms"),
            memory_bytes=fields.whole_or_none("memory_bytes"),
            memory_peak_bytes=fields.whole_or_none("memory_peak_bytes"),
            disk_bytes=fields.whole_or_none("disk_bytes"),
            files=fields.whole_or_none("files"),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """The current resource usage of a sandbox, and samples of the last hour, every ten seconds."""

    now: UsageSample
    samples: list[UsageSample] = field(repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> Usage:
        """Parses the answer of `…/usage`."""
        now = UsageSample.parse(fields.sub("now"))
        return cls(now=now, samples=fields.many("samples", UsageSample.parse))


@dataclass(frozen=True)
class LeftBehind:
    """Something that a copy of a sandbox does not have, such as a socket or a thread."""

    kind: str
    name: str

    @classmethod
    def parse(cls, fields: Fields) -> LeftBehind:
        """Parses one of `left_behind`."""
        return cls(kind=fields.text("kind"), name=fields.text("name"))


@dataclass(frozen=True)
class Snapshot:
    """A state of a sandbox that is kept; `Sandbox.create(snapshot=…)` starts from it."""

    id: str
    name: str | None
    sandbox: str
    bytes: int
    created_at: datetime | None
    expires_at: datetime | None
    left_behind: list[LeftBehind]

    @classmethod
    def parse(cls, fields: Fields) -> Snapshot:
        """Parses a snapshot."""
        return cls(
            id=fields.text("id"),
            name=fields.text_or_none("name"),
            sandbox=fields.text("sandbox"),
            bytes=fields.whole("bytes"),
            created_at=fields.time_or_none("created_at"),
            expires_at=fields.time_or_none("expires_at"),
            left_behind=fields.many("left_behind", LeftBehind.parse),
        )


@dataclass(frozen=True)
class Mark:
    """A state that a sandbox can be set back to, after its first `cells` cells."""

    id: str
    cells: int

    @classmethod
    def parse(cls, fields: Fields) -> Mark:
        """Parses a mark."""
        return cls(id=fields.text("id"), cells=fields.whole("cells"))


@dataclass(frozen=True)
class Forked:
    """The copies of a sandbox, and what they do not have."""

    sandboxes: list[SandboxInfo]
    left_behind: list[LeftBehind]

    @classmethod
    def parse(cls, fields: Fields) -> Forked:
        """Parses the answer of `…/fork`."""
        return cls(
            sandboxes=fields.many("sandboxes", SandboxInfo.parse),
            left_behind=fields.many("left_behind", LeftBehind.parse),
        )


@dataclass(frozen=True, repr=False)
class CommandResult:
    """A command: its state, outcome and output.

    While `state` is `running`, `outcome` is None. `exit_code` is 128 plus the signal number for a
    command that was killed by a signal.
    """

    id: str
    state: str
    command: str | list[str]
    process_id: int | None = None
    exit_code: int | None = None
    signal: str | int | None = None
    outcome: str | None = None
    stdout: str = ""
    stderr: str = ""
    duration_ms: float | None = None
    truncated: Truncated = field(default_factory=Truncated)

    @classmethod
    def parse(cls, fields: Fields) -> CommandResult:
        """Parses a command."""
        return cls(
            id=fields.text("id"),
            state=fields.text("state"),
            command=fields.values.get("command") or fields.texts("arguments"),
            process_id=fields.whole_or_none("process_id"),
            exit_code=fields.whole_or_none("exit_code"),
            signal=fields.values.get("signal"),
            outcome=fields.text_or_none("outcome"),
            stdout=fields.text("stdout", ""),
            stderr=fields.text("stderr", ""),
            duration_ms=fields.number_or_none("duration_ms"),
            truncated=Truncated.parse(fields.sub("truncated")),
        )

    @property
    def done(self) -> bool:
        """Whether the command has ended, with any outcome."""
        return self.state == "done"

    @property
    def ok(self) -> bool:
        """Whether the command exited with 0."""
        return self.outcome == "exited" and self.exit_code == 0

    def raise_for_error(self) -> CommandResult:
        """Returns this result if `ok` is true; raises `CommandFailed` if not."""
        if self.ok:
            return self
        ended = f"exited with {self.exit_code}" if self.outcome == "exited" else f"{self.outcome}"
        last = self.stderr.strip().rsplit("\n", 1)[-1]
        raise CommandFailed(f"{self.command!r} {ended}" + (f": {last}" if last else ""), self)

    def __repr__(self) -> str:
        return describe_command(self)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a directory. `kind` is `file`, `directory`, `symlink` or `other`."""

    path: str
    name: str
    kind: str
    size: int
    mode: int | None
    modified_at: datetime | None

    @classmethod
    def parse(cls, fields: Fields) -> Entry:
        """Parses an entry."""
        return cls(
            path=fields.text("path"),
            name=fields.text("name"),
            kind=fields.text("kind"),
            size=fields.whole("size", 0),
            mode=_mode(fields.text_or_none("mode")),
            modified_at=fields.time_or_none("modified_at"),
        )


class Listing(list[Entry]):
    """The entries of a directory. `truncated` is true if the server did not list all of them."""

    def __init__(self, entries: Iterable[Entry] = (), *, truncated: bool = False) -> None:
        super().__init__(entries)
        self.truncated = truncated

    @classmethod
    def parse(cls, fields: Fields) -> Listing:
        """Parses a listing."""
        entries = fields.many("entries", Entry.parse)
        return cls(entries, truncated=fields.flag("truncated", default=False))


@dataclass(frozen=True, slots=True)
class Link:
    """A URL that is valid without a key until `expires_at`."""

    url: str = field(repr=False)
    expires_at: datetime

    @classmethod
    def parse(cls, fields: Fields) -> Link:
        """Parses a link."""
        return cls(fields.text("url"), fields.time("expires_at"))


def decode_base64(text: str, what: str) -> bytes:
    """Decodes base64; raises `BadAnswer` that names `what` if it is invalid."""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError) as error:
        raise BadAnswer(f"{what} is not valid base64") from error


def _execution(fields: Fields) -> dict[str, Any]:
    return {
        "id": fields.text("id", ""),
        "kernel": fields.text("kernel", ""),
        "state": fields.text("state", "done"),
        "outcome": fields.text_or_none("outcome"),
        "exit_code": fields.whole_or_none("exit_code"),
        "message": fields.text_or_none("message"),
        "stdout": fields.text("stdout", ""),
        "stderr": fields.text("stderr", ""),
        "text": fields.text_or_none("text"),
        "results": fields.many("results", Result.parse),
        "error": fields.sub_or_none("error", ErrorInfo.parse),
        "files": FileChanges.parse(fields.sub("files")),
        "duration_ms": fields.number_or_none("duration_ms"),
        "limits_hit": fields.many("limits_hit", LimitHit.parse),
        "truncated": Truncated.parse(fields.sub("truncated")),
        "usage": CellUsage.parse(fields.sub("usage")),
        "kernel_state": fields.text_or_none("kernel_state"),
        "lost": fields.text_or_none("lost"),
        "policy": fields.text_or_none("policy"),
        "findings": fields.many("findings", Finding.parse),
        "approval": fields.sub_or_none("approval", Approval.parse),
        "network": fields.sub_or_none("network", CellNetwork.parse),
    }


def _mode(octal: str | None) -> int | None:
    try:
        return None if octal is None else int(octal, 8)
    except ValueError as error:
        raise BadAnswer(f"the mode {octal!r} is not an octal number") from error


def _output(fields: Fields) -> tuple[str, bytes | None, str]:
    path, content = fields.text("path"), fields.text_or_none("content_base64")
    if content is None:
        return path, None, fields.text("error", "not found")
    return path, decode_base64(content, path), ""
