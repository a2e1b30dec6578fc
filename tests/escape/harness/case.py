"""An attack, parsed from its file: the header with the claim, and the code for inside and outside.

A file has a docstring in a fixed form, and functions: `inside*` are sent into the sandbox as they stand and `inside()` is
called there; `outside(trial)` runs here, drives the API where that is the attack, and looks at what must not have happened.
"""

import ast
import importlib.util
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
GUEST_LIBRARY = (ROOT / "lib" / "attack.py").read_text()

FIELDS = ("Claim", "Technique", "Source", "Tiers")
HEADER = re.compile(r"(?P<id>[A-Z]{2}-\d\d): (?P<title>.+)\.")
TIERS = re.compile(r"jail (contained|bounded|works)(; .+)?")

CLASSES = {
    "FS": "Files and mounts",
    "PR": "/proc, /sys and information",
    "PV": "Privileges",
    "SY": "System calls",
    "LF": "Lifetimes and ends",
    "RS": "Resources",
    "OT": "Output and the protocol",
    "FI": "Files through the API",
    "UI": "What pages show",
    "XS": "Across sessions",
    "NT": "Network",
    "SE": "Secrets",
    "AP": "The API",
    "PA": "Policy and approval",
    "TI": "Other tiers",
    "PY": "Python",
    "CT": "Controls: ordinary work that must go on",
}


class BadCase(Exception):
    """A file that is not in the form a case has."""


@dataclass(frozen=True)
class Case:
    """One attack."""

    id: str
    title: str
    claim: str
    technique: str
    source: str
    tiers: str
    path: Path
    module: ModuleType = field(repr=False)
    attack: str = field(repr=False)
    """The text of the `inside` functions, empty if the attack is on the API."""

    @property
    def cls(self) -> str:
        return self.id[:2]

    def option(self, name: str, default):
        """A constant that the file may set: LIMITS, TEMPLATE, TIMEOUT, ENDS, NEW, USERS, CROWDED."""
        return getattr(self.module, name, default)


@dataclass(frozen=True)
class Pending:
    """An attack that cannot be tried before a part exists."""

    id: str
    title: str
    part: str

    @property
    def cls(self) -> str:
        return self.id[:2]


def header(text: str, path: Path) -> dict[str, str]:
    """The fields of a docstring in the fixed form."""
    first, _, rest = text.strip().partition("\n")
    matched = HEADER.fullmatch(first)
    if not matched:
        raise BadCase(f"{path.name}: the first line is not 'ID: Title.'")
    fields: dict[str, str] = {}
    name = ""
    for line in rest.strip().splitlines():
        key, colon, value = line.partition(":")
        if colon and key in FIELDS:
            name = key
            fields[name] = value.strip()
        elif name:
            fields[name] += " " + line.strip()
    if list(fields) != list(FIELDS) or not all(fields.values()):
        raise BadCase(f"{path.name}: the header has {list(fields)}, not {FIELDS}")
    if not TIERS.fullmatch(fields["Tiers"]):
        raise BadCase(f"{path.name}: Tiers is {fields['Tiers']!r}")
    if not path.stem.startswith(matched["id"] + "-"):
        raise BadCase(f"{path.name} holds {matched['id']}")
    return {"id": matched["id"], "title": matched["title"], **fields}


def load(path: Path) -> Case:
    text = path.read_text()
    tree = ast.parse(text)
    fields = header(ast.get_docstring(tree) or "", path)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in functions}
    if not names & {"inside", "outside"}:
        raise BadCase(f"{path.name} tries nothing")
    attack = "\n\n".join(ast.get_source_segment(text, node) for node in functions if node.name.startswith("inside"))
    spec = importlib.util.spec_from_file_location("case_" + path.stem.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lower = {name.lower(): value for name, value in fields.items()}
    return Case(**lower, path=path, module=module, attack=attack)


def load_all() -> tuple[list[Case], list[Pending]]:
    """Every case, and those that wait for a part; each id once, and none forgotten."""
    cases = [load(path) for path in sorted((ROOT / "cases").glob("*/*.py"))]
    table = tomllib.loads((ROOT / "cases" / "pending.toml").read_text())
    pending = [Pending(id, title, part) for part, rows in table.items() for id, title in rows.items()]
    ids = [one.id for one in [*cases, *pending]]
    twice = {id for id in ids if ids.count(id) > 1}
    if twice:
        raise BadCase(f"more than once: {sorted(twice)}")
    return cases, sorted(pending, key=lambda one: one.id)


def program(attack: str, told: dict, entry: str = "inside()") -> str:
    """The code that is sent into a sandbox."""
    return (
        "import sys, types\n"
        "attack = sys.modules['attack'] = types.ModuleType('attack')\n"
        f"exec(compile({GUEST_LIBRARY!r}, 'attack.py', 'exec'), attack.__dict__)\n"
        f"attack.HOST.update({json.dumps(told)})\n"
        f"{attack}\n"
        f"{entry}\n"
    )


def evidence(stdout: str) -> list[tuple[str, object]]:
    """What the attack said it tried."""
    found = []
    for line in stdout.split("\n"):
        _, mark, word = line.partition("\x1e")
        if mark:
            try:
                name, value = json.loads(word)
            except ValueError:
                continue  # Cut short where the output was.
            found.append((name, value))
    return found
