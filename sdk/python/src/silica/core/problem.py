"""Maps an answer with an error status to an exception.

The `code` of the answer decides, or its status if the code is unknown.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from silica.core.fields import Fields
from silica.errors import (
    BadAnswer,
    BadRequest,
    CannotStart,
    Conflict,
    DiskFull,
    Forbidden,
    NotADirectory,
    NotAFile,
    NotFound,
    PolicyBlocked,
    RateLimited,
    Refused,
    SandboxEnded,
    ServerFault,
    SilicaError,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from silica.review import Finding

if TYPE_CHECKING:
    from silica.core.call import Answer

# Bytes shown of an error that is not JSON, for example from a proxy.
EXCERPT_MAX = 200

_BY_CODE: dict[str, type[SilicaError]] = {
    kind.default_code: kind
    for kind in (
        NotAFile,
        NotADirectory,
        CannotStart,
        TooLarge,
        PolicyBlocked,
        SandboxEnded,
        Refused,
        DiskFull,
    )
}

_BY_STATUS: dict[int, type[SilicaError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: DiskFull,
}

_CLIENT_FAULTS = range(400, 500)
_SERVER_FAULTS = range(500, 600)


def error_of(answer: Answer) -> SilicaError:
    """Returns the exception for an answer with an error status."""
    parsed = _parsed(answer.body)
    problem = {key: value for key, value in parsed.items() if isinstance(value, str)}
    code = problem.get("code")
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(answer.status) or _by_range(answer.status)
    error = kind(
        problem.get("detail") or problem.get("title") or _excerpt(answer),
        code=code,
        status=answer.status,
        request_id=problem.get("request_id") or answer.headers.get("x-request-id"),
        retry_after=retry_after(answer),
    )
    if isinstance(error, PolicyBlocked):
        error.findings = Fields(parsed, "the error").many("findings", Finding.parse)
    return error


def retry_after(answer: Answer) -> float | None:
    """Returns the seconds of `Retry-After`; None for a date, which Silica never sends."""
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _by_range(status: int) -> type[SilicaError]:
    if status in _CLIENT_FAULTS:
        return BadRequest
    return ServerFault if status in _SERVER_FAULTS else BadAnswer


def _parsed(body: bytes) -> dict[str, Any]:
    """Returns a `problem+json` body; an empty dict if it is not one."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _excerpt(answer: Answer) -> str:
    text = answer.body[:EXCERPT_MAX].decode("utf-8", "replace").strip()
    return f"the server answered {answer.status}" + (f": {text}" if text else "")
