"""docs/evidence/containment.md: what was attacked, and what held. Made from the cases and from a run, and from nothing else."""

from pathlib import Path

from harness.case import CLASSES, ROOT, Case, Pending
from harness.suite import Outcome

DOCUMENT = ROOT.parent.parent / "docs" / "evidence" / "containment.md"
TEXTS = ROOT / "preface.txt"

OTHER_TIERS = "pending: tiers"


def render(cases: list[Case], pending: list[Pending], outcome: Outcome) -> str:
    """The whole document."""
    parts = [TEXTS.read_text().rstrip(), "\n\n## The matrix\n"]
    for cls, title in CLASSES.items():
        rows = [(case.id, case_row(case, outcome)) for case in cases if case.cls == cls]
        rows += [(one.id, pending_row(one)) for one in pending if one.cls == cls]
        if rows:
            parts.append(f"\n### {cls}: {title}\n\n")
            parts.append("| case | attack | claim | jail, root | jail, ordinary user | other tiers |\n")
            parts.append("|---|---|---|---|---|---|\n")
            parts += [row for _, row in sorted(rows)]
    held = len({id for id, _ in outcome.held} - {id for id, _ in outcome.failures})
    parts.append(f"\n{len(cases)} cases are tried, {held} held, {len(pending)} are pending.\n")
    return "".join(parts)


def verdict(case: Case, user: str, outcome: Outcome) -> str:
    if (case.id, user) in outcome.failures:
        return "**broken**"
    if user not in case.option("USERS", ("root", "ordinary")):
        return "not there"
    return case.option("HELD", {}).get(user, "held") if (case.id, user) in outcome.held else "not run"


def case_row(case: Case, outcome: Outcome) -> str:
    link = f"[{case.id}](../../{case.path.relative_to(ROOT.parent.parent)})"
    tiers = OTHER_TIERS if "other tiers" not in case.tiers else case.tiers.split("other tiers ")[1]
    cells = [link, case.title, case.claim, verdict(case, "root", outcome), verdict(case, "ordinary", outcome), tiers]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def pending_row(one: Pending) -> str:
    word = f"pending: {one.part}"
    return f"| {one.id} | {one.title} | | {word} | {word} | {word} |\n"


def write(text: str) -> None:
    DOCUMENT.write_text(text)


def drift(text: str) -> list[str]:
    """Lines in which the document differs from what was found."""
    old = DOCUMENT.read_text().splitlines() if DOCUMENT.exists() else []
    new = text.splitlines()
    return sorted({f"- {line}" for line in old if line not in new} | {f"+ {line}" for line in new if line not in old})
