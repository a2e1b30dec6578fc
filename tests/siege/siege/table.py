"""The table: each weapon, what the victim saw, what the server held, what was refused, and the verdict."""

from siege.bars import MIB, Row, ratio
from siege.victim import Measured

KINDS = ("print", "create", "read", "list", "sandboxes")


def times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def cells(row: Row, quiet: Measured, verdict: list[str]) -> list[str]:
    """The columns of one row."""
    latencies = [f"{times(ratio(row, quiet, kind, 0.5))}/{times(ratio(row, quiet, kind, 0.99))}" for kind in KINDS]
    size = [f"+{row.memory_above_idle / MIB:.0f}", f"+{row.sockets / MIB:.0f}", str(row.threads), str(row.descriptors)]
    size.append(f"+{row.disk_growth / MIB:.0f}")
    compute = times(ratio(row, quiet, "compute", 0.5))
    refused = sum(row.refused.values())
    return [row.name, *latencies, compute, *size, str(refused), "MISSED" if verdict else "held"]


HEADER = ["weapon", *KINDS, "CPU cell", "memory", "sockets", "threads", "fds", "disk", "refused", "verdict"]


def render(rows: list[tuple[Row, list[str]]], quiet: Measured) -> str:
    lines = [HEADER, *(cells(row, quiet, verdict) for row, verdict in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    shown = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    shown.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(shown)


def quiet_line(quiet: Measured) -> str:
    """The victim's quiet values, to which all ratios are."""
    parts = []
    for kind, samples in quiet.samples.items():
        p50, p99 = quiet.quantile(kind, 0.5) * 1e3, quiet.quantile(kind, 0.99) * 1e3
        parts.append(f"{kind} {p50:.1f}/{p99:.1f} ms ({len(samples)})")
    return "quiet p50/p99: " + ", ".join(parts)


def most(counts: dict[str, int], number: int = 4) -> str:
    """The most frequent of some counts."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])[:number]
    return ", ".join(f"{count} × {name}" for name, count in ordered) or "none"
