"""Findings of a policy about code, and the approvals that it requires."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from silica.core.fields import Fields


@dataclass(frozen=True, slots=True)
class Finding:
    """A place in the code that matches a rule of the policy.

    `action` is the consequence: `warn`, `ask` or `block`. `line` and `column` count from 1. `why`
    is the reason, `instead` a suggestion or None.
    """

    rule: str
    severity: str
    action: str
    line: int
    column: int
    code: str
    why: str
    instead: str | None

    @classmethod
    def parse(cls, fields: Fields) -> Finding:
        """Parses a finding."""
        return cls(
            rule=fields.text("rule"),
            severity=fields.text("severity", ""),
            action=fields.text("action"),
            line=fields.whole("line"),
            column=fields.whole("column"),
            code=fields.text("code", ""),
            why=fields.text("why"),
            instead=fields.text_or_none("instead"),
        )

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's decision about one piece of code or one connection, pending or made.

    `state` is `pending`, `approved`, `denied` or `expired`, and `sha256` the digest of the code. In
    the approval of an `Execution` the fields after `reason` are not set. `code` is set while the
    approval is pending, and `runnable` is true if the code can still run once it is approved. For
    the `kind` `network`, `connection` is the `host` and `port`, and `scope` how far the approval
    reaches.
    """

    id: str
    state: str
    sha256: str
    expires_at: datetime
    decided_by: str | None
    reason: str | None
    owner: str | None = None
    sandbox: str | None = None
    cell: str | None = None
    policy: str | None = None
    findings: list[Finding] = field(default_factory=list)
    created_at: datetime | None = None
    decided_at: datetime | None = None
    code: str | None = field(default=None, repr=False)
    runnable: bool | None = None
    kind: str = "code"
    connection: dict[str, Any] | None = None
    scope: str | None = None

    @classmethod
    def parse(cls, fields: Fields) -> Approval:
        """Parses an approval, or the part of it that a cell includes."""
        return cls(
            id=fields.text("id"),
            state=fields.text("state"),
            sha256=fields.text("sha256"),
            expires_at=fields.time("expires_at"),
            decided_by=fields.text_or_none("decided_by"),
            reason=fields.text_or_none("reason"),
            owner=fields.text_or_none("owner"),
            sandbox=fields.text_or_none("sandbox"),
            cell=fields.text_or_none("cell"),
            policy=fields.text_or_none("policy"),
            findings=fields.many("findings", Finding.parse),
            created_at=fields.time_or_none("created_at"),
            decided_at=fields.time_or_none("decided_at"),
            code=fields.text_or_none("code"),
            runnable=fields.flag_or_none("runnable"),
            kind=fields.text("kind", "code"),
            connection=fields.object("connection") or None,
            scope=fields.text_or_none("scope"),
        )
