"""When a request is tried again: never if that could do something twice.

A connection that could not be made carried nothing, so any request is tried again. An answer 429
or 503 is, if the request is idempotent, after the time the server asks for.
"""

from __future__ import annotations

import random

from silica.core.call import Answer, Call
from silica.core.problem import retry_after
from silica.errors import CannotConnect, SilicaError

# Pauses grow from the first to the last of these, with some chance in it, so that clients that
# failed together do not come back together.
FIRST_PAUSE_SECONDS = 0.1
PAUSE_SECONDS_MAX = 5.0

# A server that wants a longer pause than this gets none: the caller is told and decides.
RETRY_AFTER_SECONDS_MAX = 30.0

_COME_BACK = frozenset({429, 503})


def pause(failures: int) -> float:
    """Returns how long to wait after so many failures in a row, in seconds."""
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1), PAUSE_SECONDS_MAX)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def pause_before_retry(
    call: Call[object], met: Answer | SilicaError, failures: int, retries: int
) -> float | None:
    """Returns how long to wait before another attempt, or None if there should be none."""
    if failures > retries:
        return None
    if isinstance(met, SilicaError):
        return pause(failures) if isinstance(met, CannotConnect) else None
    if met.status not in _COME_BACK or not call.idempotent:
        return None
    wanted = retry_after(met)
    if wanted is None:
        return pause(failures)
    return wanted if wanted <= RETRY_AFTER_SECONDS_MAX else None
