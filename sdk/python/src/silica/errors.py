"""The exceptions of this package: one class for each failure that a caller can handle.

An exception means that a request failed. Code that fails in a sandbox is reported in its result,
not raised, unless `Execution.raise_for_error` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silica.models import CommandResult, Execution
    from silica.review import Finding


class SilicaError(Exception):
    """The base class of all exceptions of this package.

    `code` is stable and meant for programs, `detail` is the message. `status` is the HTTP status,
    or None if no answer arrived. `request_id` identifies the request in the log of the server.
    `retry_after` is the number of seconds that the server asks to wait, or None.
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        marks = [self.code, *([self.request_id] if self.request_id else [])]
        return f"{self.detail} ({', '.join(marks)})"


class BadRequest(SilicaError):
    """The request is invalid, or a value in it is not allowed; `detail` names the value."""

    default_code = "bad_request"


class NotAFile(BadRequest):
    """The path is a directory, and the operation requires a file."""

    default_code = "not_a_file"


class NotADirectory(BadRequest):
    """The path is a file, and the operation requires a directory."""

    default_code = "not_a_directory"


class CannotStart(BadRequest):
    """The command could not be started: there is no such program in the sandbox."""

    default_code = "cannot_start"


class TooLarge(BadRequest):
    """The body of the request is larger than the server accepts."""

    default_code = "too_large"


class PolicyBlocked(BadRequest):
    """The policy forbids the code. `findings` holds its findings, or the first of them."""

    default_code = "policy_blocked"
    findings: Sequence[Finding] = ()


class Unauthorized(SilicaError):
    """The key is missing, unknown or revoked."""

    default_code = "unauthorized"


class Forbidden(SilicaError):
    """The key is valid but has no right to this operation."""

    default_code = "forbidden"


class NotFound(SilicaError):
    """The object does not exist or belongs to another key. `code` names its kind."""

    default_code = "not_found"


class Conflict(SilicaError):
    """The object already exists, is not empty, is busy or has ended; `code` says which."""

    default_code = "conflict"


class SandboxEnded(Conflict):
    """The sandbox has ended; `Sandbox.info().end_reason` is the reason."""

    default_code = "sandbox_ended"


class Refused(SilicaError):
    """The path is a link, FIFO, socket or device; the server never opens these."""

    default_code = "refused"


class RateLimited(SilicaError):
    """A rate limit or quota of the key is used up; retry after `retry_after` seconds."""

    default_code = "rate_limited"


class Unavailable(SilicaError):
    """The server is temporarily unavailable; retry after `retry_after` seconds."""

    default_code = "unavailable"


class DiskFull(SilicaError):
    """The disk of the sandbox is full; create the sandbox with a larger `disk_bytes`."""

    default_code = "disk_full"


class ServerFault(SilicaError):
    """The server failed. `request_id` identifies the cause in its log."""

    default_code = "internal"


class BadAnswer(SilicaError):
    """The answer does not follow the API: another program, or an incompatible version."""

    default_code = "bad_answer"


class CannotConnect(SilicaError):
    """No connection to the server could be made; nothing was sent."""

    default_code = "cannot_connect"


class ConnectionLost(SilicaError):
    """The connection broke after the request was sent; it may have been executed."""

    default_code = "connection_lost"


class TimedOut(SilicaError):
    """No answer arrived in time. The request may still be executed."""

    default_code = "timed_out"


class ExecutionFailed(SilicaError):
    """A cell failed. Raised by `Execution.raise_for_error`; `execution` is the cell."""

    default_code = "execution_failed"

    def __init__(self, detail: str, execution: Execution) -> None:
        super().__init__(detail, code=execution.outcome)
        self.execution = execution

    def __str__(self) -> str:
        return self.detail


class CommandFailed(SilicaError):
    """A command failed. Raised by `CommandResult.raise_for_error`; `result` is the command."""

    default_code = "command_failed"

    def __init__(self, detail: str, result: CommandResult) -> None:
        super().__init__(detail, code=result.outcome)
        self.result = result

    def __str__(self) -> str:
        return self.detail
