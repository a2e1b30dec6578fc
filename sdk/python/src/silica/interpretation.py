"""The answer to a prompt: the code that a model wrote, and the output of running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from silica.core.display import describe_interpretation
from silica.models import Result, decode_base64
from silica.review import Finding

if TYPE_CHECKING:
    from silica.core.fields import Fields


@dataclass(frozen=True, slots=True)
class Attempt:
    """One program that the model wrote. `outcome` is None if it did not run."""

    code: str
    blocked: bool
    findings: list[Finding]
    outcome: str | None
    output: str | None
    error: str | None
    duration_ms: float | None

    @classmethod
    def parse(cls, fields: Fields) -> Attempt:
        """Parses an attempt."""
        return cls(
            code=fields.text("code"),
            blocked=fields.flag("blocked", default=False),
            findings=fields.many("findings", Finding.parse),
            outcome=fields.text_or_none("outcome"),
            output=fields.text_or_none("output"),
            error=fields.text_or_none("error"),
            duration_ms=fields.number_or_none("duration_ms"),
        )


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file that the code created or changed.

    `content` is set if the sandbox has been deleted and the files together are small enough.
    """

    path: str
    size: int
    content: bytes | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> MadeFile:
        """Parses a file."""
        path, content = fields.text("path"), fields.text_or_none("content_base64")
        data = None if content is None else decode_base64(content, path)
        return cls(path, fields.whole("size"), data)


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The requests made to the model. `cost_dollars` is None if the price is not known."""

    model: str | None
    requests: int
    input_tokens: int
    output_tokens: int
    cost_dollars: float | None

    @classmethod
    def parse(cls, fields: Fields) -> ModelUsage:
        """Parses `usage` of an interpretation."""
        return cls(
            model=fields.text_or_none("model"),
            requests=fields.whole("requests", 0),
            input_tokens=fields.whole("input_tokens", 0),
            output_tokens=fields.whole("output_tokens", 0),
            cost_dollars=fields.number_or_none("cost_dollars"),
        )


@dataclass(frozen=True, repr=False)
class Interpretation:
    """The answer to a prompt.

    `output` is the output of the last `code`, with the value of its last expression; `answer` is
    the text of the model. `ok` is true if the code ran without an error. `ending` is how the
    request ended: `answered`, `blocked`, `failed`, `model_failed` … `attempts` lists all programs.
    """

    prompt: str
    code: str
    output: str
    answer: str
    ok: bool
    blocked: bool
    ending: str
    error: str | None
    outcome: str | None
    exit_code: int | None
    errors: list[str]
    attempts: list[Attempt]
    results: list[Result]
    files: list[MadeFile]
    usage: ModelUsage
    conversation_id: str | None
    sandbox_id: str | None

    @classmethod
    def parse(cls, fields: Fields) -> Interpretation:
        """Parses the answer of `/v1/interpret`."""
        return cls(
            prompt=fields.text("prompt"),
            code=fields.text("code"),
            output=fields.text("output"),
            answer=fields.text("answer", ""),
            ok=fields.flag("success", default=False),
            blocked=fields.flag("blocked", default=False),
            ending=fields.text("ending", ""),
            error=fields.text_or_none("error"),
            outcome=fields.text_or_none("outcome"),
            exit_code=fields.whole_or_none("exit_code"),
            errors=fields.texts("errors"),
            attempts=fields.many("attempts", Attempt.parse),
            results=fields.many("results", Result.parse),
            files=fields.many("files", MadeFile.parse),
            usage=ModelUsage.parse(fields.sub("usage")),
            conversation_id=fields.text_or_none("conversation_id"),
            sandbox_id=fields.text_or_none("sandbox_id"),
        )

    def __repr__(self) -> str:
        return describe_interpretation(self)
