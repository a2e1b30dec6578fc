"""Everything that can go wrong, as exceptions: one class for each thing a caller can act on.

An exception means that a request failed. Code that raises in a sandbox is an answer, not an
exception, unless `Execution.raise_for_error` is asked to make it one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from silica.models import CommandResult, Execution
    from silica.review import Finding


class SilicaError(Exception):
    """The base of all of them.

    `code` is stable and meant for programs, `detail` is for people. `status` is the HTTP status, or
    None if there was no answer. `request_id` finds the request in the server's log.
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
    """The request makes no sense to the server, or asks for what cannot be."""

    default_code = "bad_request"


class NotAFile(BadRequest):
    """The path is a directory."""

    default_code = "not_a_file"


class NotADirectory(BadRequest):
    """The path is a file."""

    default_code = "not_a_directory"


class CannotStart(BadRequest):
    """There is no such command in the sandbox."""

    default_code = "cannot_start"


class TooLarge(BadRequest):
    """The body is larger than the server takes."""

    default_code = "too_large"


class PolicyBlocked(BadRequest):
    """The policy does not let the code run. `findings` says what it found, or the first of it."""

    default_code = "policy_blocked"
    findings: Sequence[Finding] = ()


class Unauthorized(SilicaError):
    """The key is missing or not known."""

    default_code = "unauthorized"


class Forbidden(SilicaError):
    """The key is known and may not do this."""

    default_code = "forbidden"


class NotFound(SilicaError):
    """There is no such thing, or it belongs to another key. `code` says which."""

    default_code = "not_found"


class Conflict(SilicaError):
    """It exists already, is not empty, is busy or has ended; `code` says which."""

    default_code = "conflict"


class SandboxEnded(Conflict):
    """The sandbox is no more; `Sandbox.info().end_reason` says why."""

    default_code = "sandbox_ended"


class Refused(SilicaError):
    """The path is a link, FIFO, socket or device, which are never opened."""

    default_code = "refused"


class RateLimited(SilicaError):
    """Too much at once. `retry_after` is in seconds, or None if the server did not say."""

    default_code = "rate_limited"


class Unavailable(SilicaError):
    """The server cannot serve at the moment. `retry_after` is in seconds or None."""

    default_code = "unavailable"


class DiskFull(SilicaError):
    """The sandbox's disk is full; create it with a larger `disk_bytes`."""

    default_code = "disk_full"


class ServerFault(SilicaError):
    """The server failed. `request_id` finds the cause in its log."""

    default_code = "internal"


class BadAnswer(SilicaError):
    """The answer is not what the API promises: another program, or a version that does not fit."""

    default_code = "bad_answer"


class CannotConnect(SilicaError):
    """There was nobody to talk to; nothing was sent."""

    default_code = "cannot_connect"


class ConnectionLost(SilicaError):
    """The connection broke after something was sent; the request may have been carried out."""

    default_code = "connection_lost"


class TimedOut(SilicaError):
    """No answer came in time. What was asked for may still happen."""

    default_code = "timed_out"


class ExecutionFailed(SilicaError):
    """A cell did not end well; `execution` is all of it. Raised by its `raise_for_error`."""

    default_code = "execution_failed"

    def __init__(self, detail: str, execution: Execution) -> None:
        super().__init__(detail, code=execution.outcome)
        self.execution = execution

    def __str__(self) -> str:
        return self.detail


class CommandFailed(SilicaError):
    """A command did not end well; `result` is all of it. Raised by its `raise_for_error`."""

    default_code = "command_failed"

    def __init__(self, detail: str, result: CommandResult) -> None:
        super().__init__(detail, code=result.outcome)
        self.result = result

    def __str__(self) -> str:
        return self.detail
