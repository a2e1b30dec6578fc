"""The bars: what one hostile key may do to the server and to another key, and the verdict on what was measured.

The numbers are in SPECIFICATION.md. A latency is judged against the victim's own quiet value of the same run, with a
floor below which it is noise of the machine.
"""

from dataclasses import dataclass, field

from siege.server import Size
from siege.victim import Measured

MIB = 1 << 20

MEMORY_BYTES = 512 * MIB
"""The server's memory above idle, at its highest."""

MEMORY_AFTER_BYTES = 128 * MIB
"""The same when the siege is over: the allocator keeps some of what it had."""

DISK_SLACK_BYTES = 160 * MIB
"""Files that are bounded by constants: the database's log before it is truncated, the journal, indexes."""

THREADS = 600
"""The runtime's 512 threads for blocking work, and all others."""

LATENCY_TIMES = 5.0
COMPUTE_TIMES = 2.2

FAILURES_SHOWN = 3


@dataclass(frozen=True)
class Bars:
    """What depends on the form of the siege."""

    latency_floor: float
    """Seconds. A p99 below it is never a miss."""

    compute_floor: float
    """Seconds. A computation within it is never a miss."""


LONG = Bars(latency_floor=0.050, compute_floor=0.0)
SHORT = Bars(latency_floor=5.0, compute_floor=4.0)


@dataclass
class Row:
    """One weapon, or several: what the victim and the host saw."""

    name: str
    seconds: float
    seen: Measured
    idle: Size
    """At the beginning of the siege."""
    before: Size
    after: Size
    peak: int
    threads: int
    """The most."""
    descriptors: int
    sockets: int = 0
    """Bytes that the kernel held for TCP, both ends and all programs of the machine."""
    done: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """What went wrong with the weapons themselves."""

    @property
    def memory_above_idle(self) -> int:
        return max(0, self.peak - self.idle.memory)

    @property
    def disk_growth(self) -> int:
        return max(0, self.after.disk - self.before.disk)


def ratio(row: Row, quiet: Measured, kind: str, share: float) -> float | None:
    """How many times the quiet value it was."""
    now, then = row.seen.quantile(kind, share), quiet.quantile(kind, share)
    return now / then if now is not None and then else None


def misses(row: Row, quiet: Measured, bars: Bars, disk_bound: int) -> list[str]:
    """Every bar that this row misses, in words."""
    found = list(row.errors)
    if row.memory_above_idle > MEMORY_BYTES:
        found.append(f"memory +{row.memory_above_idle / MIB:.0f} MiB, allowed {MEMORY_BYTES // MIB}")
    if row.threads > THREADS:
        found.append(f"{row.threads} threads, allowed {THREADS}")
    if row.disk_growth > disk_bound:
        found.append(f"disk +{row.disk_growth / MIB:.0f} MiB, the settings allow {disk_bound / MIB:.0f}")
    if row.seen.failures:
        shown = "; ".join(sorted(set(row.seen.failures))[:FAILURES_SHOWN])
        found.append(f"{len(row.seen.failures)} calls of the victim failed: {shown}")
    for kind in quiet.samples:
        share, times, floor = 0.99, LATENCY_TIMES, bars.latency_floor
        if kind == "compute":
            share, times, floor = 0.5, COMPUTE_TIMES, bars.compute_floor
        now, then = row.seen.quantile(kind, share), quiet.quantile(kind, share)
        if now is None:
            found.append(f"{kind}: not answered")
        elif now > max(times * then, floor):
            found.append(f"{kind} {now * 1e3:.0f} ms, allowed {max(times * then, floor) * 1e3:.0f}")
    return found


def disk_bound(settings: dict[str, object], seconds: float) -> int:
    """How much the data directory may grow in this time by its settings.

    Without a setting that bounds the bytes of the audit log, this is only what constants bound.
    """
    per_minute = settings.get("quota.audit_bytes_per_minute") or 0
    in_all = settings.get("audit.bytes_max") or 0
    # The budget of a minute may be spent at its beginning, and again when the next one begins.
    by_rate = int(per_minute * (seconds / 60 + 1)) if per_minute else 0
    bounds = [bound for bound in (by_rate, in_all) if bound]
    return DISK_SLACK_BYTES + (min(bounds) if bounds else 0)
