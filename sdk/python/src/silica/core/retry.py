"""Decides whether a failed request is repeated: never if it could be executed twice.

Any request is repeated if the connection could not be made, since nothing was sent. After an answer
429 or 503 an idempotent request is repeated, after the time that the server asks for.
"""

from __future__ import annotations

import random

from silica.core.call import Answer, Call
from silica.core.problem import retry_after
from silica.errors import CannotConnect, SilicaError

# Pauses double from the first value to the second, and are randomised so that clients that failed
# together do not retry together.
FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0

# If the server asks for a longer pause, the request is not repeated and the error is raised.
RETRY_AFTER_SECONDS_MAX = 30.0

_RETRYABLE = frozenset({429, 503})


def pause(failures: int) -> float:
    """Returns how many seconds to wait after a number of consecutive failures."""
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1), PAUSE_SECONDS_MAX)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def pause_before_retry(
    call: Call[object], met: Answer | SilicaError, failures: int, retries: int
) -> float | None:
    """Returns the seconds to wait before another attempt, or None if there must be none."""
    if failures > retries:
        return None
    if isinstance(met, SilicaError):
        return pause(failures) if isinstance(met, CannotConnect) else None
    if met.status not in _RETRYABLE or not call.idempotent:
        return None
    wanted = retry_after(met)
    if wanted is None:
        return pause(failures)
    return wanted if wanted <= RETRY_AFTER_SECONDS_MAX else None
