"""The repr of results: one line with the outcome, then the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from silica.interpretation import Interpretation
    from silica.models import CommandResult, Execution, FileChanges, Result
    from silica.networks import Denied

# Characters shown of one text.
TEXT_MAX = 400
# Results or files shown.
ITEMS_MAX = 8


def describe_execution(execution: Execution) -> str:
    """Returns the repr of an execution."""
    ended = execution.outcome or execution.state
    if ended == "exited":
        ended += f" {execution.exit_code}"
    head = [execution.id or "cell", ended]
    if execution.duration_ms is not None:
        head.append(f"{execution.duration_ms:.1f} ms")
    rows = [
        ("stdout", _text(execution.stdout)),
        ("stderr", _text(execution.stderr)),
        *(("result", _result(result)) for result in execution.results[:ITEMS_MAX]),
        ("error", _error(execution)),
        *(("finding", str(finding)) for finding in execution.findings[:ITEMS_MAX]),
        *(("limit", hit.message or hit.limit) for hit in execution.limits_hit),
        ("message", "" if execution.limits_hit else execution.message or ""),
        *(("refused", str(one)) for one in _denied(execution)[:ITEMS_MAX]),
        ("files", _files(execution.files)),
        ("lost", execution.lost or ""),
        ("missing", ", ".join(getattr(execution, "missing", ()))),
        ("outputs", ", ".join(_sizes(getattr(execution, "outputs", {})))),
    ]
    return _block(f"<{type(execution).__name__} {', '.join(head)}>", rows)


def _denied(execution: Execution) -> list[Denied]:
    return [] if execution.network is None else execution.network.denied


def describe_interpretation(interpretation: Interpretation) -> str:
    """Returns the repr of an interpretation."""
    rows = [
        ("prompt", _text(interpretation.prompt)),
        ("code", _text(interpretation.code)),
        ("output", _text(interpretation.output)),
        ("error", _text(interpretation.error)),
        *(("result", _result(result)) for result in interpretation.results[:ITEMS_MAX]),
        ("files", " ".join(file.path for file in interpretation.files[:ITEMS_MAX])),
    ]
    return _block(f"<Interpretation {interpretation.ending}>", rows)


def describe_command(result: CommandResult) -> str:
    """Returns the repr of a command's result."""
    ended = str(result.outcome or result.state)
    if result.exit_code is not None:
        ended += f" {result.exit_code}"
    rows = [("stdout", _text(result.stdout)), ("stderr", _text(result.stderr))]
    return _block(f"<CommandResult {result.id}, {ended}: {result.command!r}>", rows)


def describe_result(result: Result) -> str:
    """Returns the repr of a result."""
    return f"<Result {_result(result)}>"


def _block(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"  {name:<8}{text}" for name, text in rows if text]
    return "\n".join([head, *lines])


def _result(result: Result) -> str:
    others = [mime for mime in result.data if mime != "text/plain"]
    return ", ".join([*([_text(result.text)] if result.text else []), *others])


def _error(execution: Execution) -> str:
    error = execution.error
    return "" if error is None else f"{error.name}: {_shortened(error.value)}"


def _files(files: FileChanges) -> str:
    marks = (("+", files.created), ("~", files.changed), ("-", files.removed))
    found = [f"{mark}{file.path}" for mark, listed in marks for file in listed]
    more = len(found) > ITEMS_MAX or files.truncated
    return " ".join([*found[:ITEMS_MAX], *(["…"] if more else [])])


def _sizes(outputs: dict[str, Any]) -> list[str]:
    return [f"{path} ({len(content)} bytes)" for path, content in outputs.items()]


def _text(text: str | None) -> str:
    """Returns text, shortened, with its lines after the first indented."""
    if not text:
        return ""
    return _shortened(text.rstrip("\n")).replace("\n", "\n" + " " * 10)


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"
