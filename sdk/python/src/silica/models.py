"""What the server tells: sandboxes, kernels, cells, commands, files, as plain values.

Each class reads itself from an answer (`parse`); none of them talks to anybody.
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
from silica.review import Approval, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from silica.core.fields import Fields


class Limits(TypedDict, total=False):
    """Limits of a sandbox; what is left out has the server's default."""

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
    """An input that the server's operator offers by name."""

    name: str


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """One result of a cell, in one or more MIME types; pictures are in base 64.

    `main` is true for the value of the last expression. In a notebook it shows itself.
    """

    main: bool
    data: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, fields: Fields) -> Result:
        """Reads one of `results`."""
        return cls(
            main=fields.flag("main", default=False),
            data=fields.object("data"),
            metadata=fields.object("metadata"),
        )

    @property
    def text(self) -> str | None:
        """As plain text."""
        return self._string("text/plain")

    @property
    def html(self) -> str | None:
        """As HTML."""
        return self._string("text/html")

    @property
    def markdown(self) -> str | None:
        """As Markdown."""
        return self._string("text/markdown")

    @property
    def latex(self) -> str | None:
        """As LaTeX."""
        return self._string("text/latex")

    @property
    def svg(self) -> str | None:
        """As an SVG picture."""
        return self._string("image/svg+xml")

    @property
    def png(self) -> bytes | None:
        """As a PNG picture."""
        return self._bytes("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """As a JPEG picture."""
        return self._bytes("image/jpeg")

    @property
    def pdf(self) -> bytes | None:
        """As a PDF page."""
        return self._bytes("application/pdf")

    @property
    def json(self) -> Any:
        """As JSON, parsed."""
        return self._object("application/json")

    @property
    def chart(self) -> Any:
        """What a figure shows: its kind, axes and points, for drawing it again."""
        return self._object("application/vnd.silica.chart+json")

    @property
    def table(self) -> Any:
        """What a data frame holds: columns and rows."""
        return self._object("application/vnd.silica.data+json")

    def __repr__(self) -> str:
        return describe_result(self)

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Lets a notebook show it as the sandbox's own notebook would."""
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
        """Reads `error`."""
        return cls(fields.text("name"), fields.text("value", ""), fields.texts("traceback"))

    def __str__(self) -> str:
        return "\n".join(self.traceback) or f"{self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that a cell made, changed or removed."""

    path: str
    size: int | None

    @classmethod
    def parse(cls, fields: Fields) -> ChangedFile:
        """Reads one of `created`, `changed` or `removed`."""
        return cls(fields.text("path"), fields.whole_or_none("size"))


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What a cell did to files. With `truncated` there was more than is listed."""

    created: list[ChangedFile] = field(default_factory=list)
    changed: list[ChangedFile] = field(default_factory=list)
    removed: list[ChangedFile] = field(default_factory=list)
    truncated: bool = False

    @classmethod
    def parse(cls, fields: Fields) -> FileChanges:
        """Reads `files`."""
        return cls(
            created=fields.many("created", ChangedFile.parse),
            changed=fields.many("changed", ChangedFile.parse),
            removed=fields.many("removed", ChangedFile.parse),
            truncated=fields.flag("truncated", default=False),
        )


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that was reached, and words that say how to raise it."""

    limit: str
    message: str

    @classmethod
    def parse(cls, fields: Fields) -> LimitHit:
        """Reads one of `limits_hit`."""
        return cls(fields.text("limit"), fields.text("message", ""))


@dataclass(frozen=True, slots=True)
class Truncated:
    """What was left out: bytes of `stdout` and `stderr`, and a number of `results`."""

    stdout: int = 0
    stderr: int = 0
    results: int = 0

    @classmethod
    def parse(cls, fields: Fields) -> Truncated:
        """Reads `truncated`."""
        return cls(fields.whole("stdout", 0), fields.whole("stderr", 0), fields.whole("results", 0))

    def __bool__(self) -> bool:
        return bool(self.stdout or self.stderr or self.results)


@dataclass(frozen=True, slots=True)
class CellUsage:
    """What a cell used; None where nothing measures it."""

    cpu_ms: float | None = None
    memory_peak_bytes: int | None = None

    @classmethod
    def parse(cls, fields: Fields) -> CellUsage:
        """Reads `usage` of a cell."""
        return cls(fields.number_or_none("cpu_ms"), fields.whole_or_none("memory_peak_bytes"))


@dataclass(frozen=True, repr=False)
class Execution:
    """A cell: what was run, how it ended and what came out.

    While `state` is `awaiting_approval`, `queued` or `running`, `outcome` is None. `message` says
    for people how it ended, `text` is the text of the main result. When an interpreter is lost,
    `lost` says what went with it and what is still there. `findings` is what `policy` found, and
    `approval` what it waits or waited for, if it does.
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

    @classmethod
    def parse(cls, fields: Fields) -> Execution:
        """Reads a cell."""
        return cls(**_execution(fields))

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.state == "done"

    @property
    def ok(self) -> bool:
        """Whether it ended without an exception, a signal or a limit."""
        return self.outcome == "ok"

    def raise_for_error(self) -> Execution:
        """Returns itself if all went well, else raises `ExecutionFailed`."""
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
        """Shows in a notebook what the cell would have shown there."""
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for result in self.results:
            display(result)
        if not self.ok:
            sys.stderr.write(self._complaint() + "\n")


@dataclass(frozen=True, repr=False)
class Run(Execution):
    """A one-off run: the cell, and the files that were asked for, by path.

    A file that could not be had is in `missing` with the reason.
    """

    outputs: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, fields: Fields) -> Run:
        """Reads the answer of `/v1/run`."""
        found = fields.many("outputs", _output)
        return cls(
            **_execution(fields),
            outputs={path: content for path, content, _ in found if content is not None},
            missing={path: reason for path, content, reason in found if content is None},
        )


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A live interpreter. `cell` is what it runs, if it is `busy`."""

    id: str
    state: str
    cell: str | None
    cells_run: int
    restarts: int
    created_at: datetime | None

    @classmethod
    def parse(cls, fields: Fields) -> KernelInfo:
        """Reads a kernel."""
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
    """A sandbox as it stands. `containment` says what is really enforced; lists leave it out."""

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
        """Reads a sandbox."""
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
    """What a sandbox used up to a moment; None where nothing measures it."""

    at: datetime
    cpu_ms: float | None
    memory_bytes: int | None
    memory_peak_bytes: int | None
    disk_bytes: int | None
    files: int | None

    @classmethod
    def parse(cls, fields: Fields) -> UsageSample:
        """Reads one sample."""
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
    """What a sandbox uses now, and used every ten seconds of the last hour."""

    now: UsageSample
    samples: list[UsageSample] = field(repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> Usage:
        """Reads the answer of `…/usage`."""
        now = UsageSample.parse(fields.sub("now"))
        return cls(now=now, samples=fields.many("samples", UsageSample.parse))


@dataclass(frozen=True, repr=False)
class CommandResult:
    """A command: how it ended and what it printed.

    While `state` is `running`, `outcome` is None. `exit_code` is 128 and the number of the signal
    for one that was killed.
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
        """Reads a command."""
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
        """Whether it has ended, well or not."""
        return self.state == "done"

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with 0."""
        return self.outcome == "exited" and self.exit_code == 0

    def raise_for_error(self) -> CommandResult:
        """Returns itself if all went well, else raises `CommandFailed`."""
        if self.ok:
            return self
        ended = f"exited with {self.exit_code}" if self.outcome == "exited" else f"{self.outcome}"
        last = self.stderr.strip().rsplit("\n", 1)[-1]
        raise CommandFailed(f"{self.command!r} {ended}" + (f": {last}" if last else ""), self)

    def __repr__(self) -> str:
        return describe_command(self)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory. `kind` is `file`, `directory`, `symlink` or `other`."""

    path: str
    name: str
    kind: str
    size: int
    mode: int | None
    modified_at: datetime | None

    @classmethod
    def parse(cls, fields: Fields) -> Entry:
        """Reads an entry."""
        return cls(
            path=fields.text("path"),
            name=fields.text("name"),
            kind=fields.text("kind"),
            size=fields.whole("size", 0),
            mode=_mode(fields.text_or_none("mode")),
            modified_at=fields.time_or_none("modified_at"),
        )


class Listing(list[Entry]):
    """The entries of a directory. With `truncated` there were more than the server lists."""

    def __init__(self, entries: Iterable[Entry] = (), *, truncated: bool = False) -> None:
        super().__init__(entries)
        self.truncated = truncated

    @classmethod
    def parse(cls, fields: Fields) -> Listing:
        """Reads a listing."""
        entries = fields.many("entries", Entry.parse)
        return cls(entries, truncated=fields.flag("truncated", default=False))


@dataclass(frozen=True, slots=True)
class Link:
    """An address that works without a key until it expires."""

    url: str = field(repr=False)
    expires_at: datetime

    @classmethod
    def parse(cls, fields: Fields) -> Link:
        """Reads a link."""
        return cls(fields.text("url"), fields.time("expires_at"))


def decode_base64(text: str, what: str) -> bytes:
    """Decodes base 64, or says what was not."""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError) as error:
        raise BadAnswer(f"{what} is not base 64") from error


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
    }


def _mode(octal: str | None) -> int | None:
    try:
        return None if octal is None else int(octal, 8)
    except ValueError as error:
        raise BadAnswer(f"the mode {octal!r} is not octal") from error


def _output(fields: Fields) -> tuple[str, bytes | None, str]:
    path, content = fields.text("path"), fields.text_or_none("content_base64")
    if content is None:
        return path, None, fields.text("error", "not there")
    return path, decode_base64(content, path), ""
