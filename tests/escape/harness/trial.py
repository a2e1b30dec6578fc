"""One attack under way: what a case's `outside` is given to drive it and to judge it."""

import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness import case as cases
from harness import far
from harness import host as hosts
from harness.api import Api
from harness.case import Case
from harness.far import Far
from harness.host import Host
from harness.people import Probe, Victim
from harness.server import Server

GONE_PATIENCE = 20.0
"""Seconds in which what has been ended must be gone, also on a busy machine."""

DURING_SAMPLES = 7
DURING_PAUSE = 0.03
DURING_ATTEMPTS = 3
DURING_FLOOR = 0.5
"""Seconds that a cell may always take beside an attack: less is noise on a busy machine."""


class Failed(Exception):
    """The case cannot go on."""


def eventually(holds: Callable[[], object], patience: float = GONE_PATIENCE) -> bool:
    """Whether something comes to hold."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@dataclass
class Scene:
    """Everything around the attacks on one server."""

    server: Server
    host: Host
    far: Far
    victim: Victim
    probe: Probe
    attacker: Api
    user: str
    long: bool
    fresh_baseline: float = 0.0
    live_baseline: float = 0.0

    @property
    def root(self) -> bool:
        return self.user == "root"


@dataclass
class Sandbox:
    """A sandbox of the attacker's, and where the host sees it."""

    id: str
    containment: dict
    namespace: str = ""
    init: hosts.Process | None = None
    members: dict[Path, set[tuple[int, int]]] = field(default_factory=dict)
    """Its control groups, and who was seen in them while it lived."""

    def look(self) -> None:
        """Adds the processes in its groups now, unless it has ended: another sandbox may then use the groups."""
        seen = {group: _members(group) for group in self.members}
        if self.init and _same(self.init):
            for group, inside in seen.items():
                self.members[group] |= inside


@dataclass
class Trial:
    """One run of a case."""

    case: Case
    scene: Scene
    failures: list[str] = field(default_factory=list)
    attempts: int = 0
    found: dict = field(default_factory=dict)
    cell: dict = field(default_factory=dict)
    sandboxes: list[Sandbox] = field(default_factory=list)
    _cleanups: list[Callable[[], object]] = field(default_factory=list)

    # Short ways to what is around.

    @property
    def api(self) -> Api:
        return self.scene.attacker

    @property
    def server(self) -> Server:
        return self.scene.server

    @property
    def host(self) -> Host:
        return self.scene.host

    @property
    def far(self) -> Far:
        return self.scene.far

    @property
    def victim(self) -> Victim:
        return self.scene.victim

    @property
    def root(self) -> bool:
        return self.scene.root

    @property
    def long(self) -> bool:
        return self.scene.long

    @property
    def id(self) -> str:
        """The attacker's sandbox; made when it is first wanted."""
        if not self.sandboxes:
            self.sandbox(**self.case.option("NEW", {}))
        return self.sandboxes[0].id

    def enforced(self, measure: str) -> bool:
        """Whether the containment report of the attacker's sandbox says that a measure is in full force."""
        _ = self.id
        return self.sandboxes[0].containment["measures"][measure]["state"] == "full"

    # Judging.

    def check(self, holds: object, words: str) -> bool:
        """Notes a failure unless something holds."""
        if not holds:
            self.failures.append(words)
        return bool(holds)

    def equal(self, found: object, expected: object, what: str) -> bool:
        return self.check(found == expected, f"{what}: {found!r}, not {expected!r}")

    def refused(self, *names: str, errors: tuple[str, ...] = ("EPERM", "ENOSYS")) -> None:
        """Each of these attempts must have been made and must have ended in one of the errors."""
        for name in names:
            self.check(self.found.get(name) in errors, f"{name}: {self.found.get(name)!r}, not one of {errors}")

    def all_refused(self, name: str = "calls", errors: tuple[str, ...] = ("EPERM", "ENOSYS")) -> None:
        """The same for a table of attempts."""
        table = self.found.get(name) or {}
        self.check(table, f"{name} was not tried")
        open_ones = {label: result for label, result in table.items() if result not in errors}
        self.check(not open_ones, f"{name}: {open_ones}")

    def tried(self, count: int = 1) -> None:
        """Counts attempts that are made from here and not from inside."""
        self.attempts += count

    # Doing.

    def sandbox(self, **fields) -> Sandbox:
        """Makes a sandbox of the attacker's, and finds it on the host."""
        fields = {"template": self.case.option("TEMPLATE", "python"), **fields}
        limits = self.case.option("LIMITS", {}) | fields.pop("limits", {})
        if limits:
            fields["limits"] = limits
        made = self.api.create(**fields)
        sandbox = Sandbox(made["id"], made["containment"])
        self.sandboxes.append(sandbox)
        self._find(sandbox)
        return sandbox

    def _find(self, sandbox: Sandbox) -> None:
        """Learns from outside which processes are the sandbox's: those beside one that wears a new name."""
        name = f"e{os.urandom(6).hex()}"
        self.api.cell(sandbox.id, f"with open('/proc/self/comm', 'w') as f: f.write({name!r})\n")
        table = hosts.processes()
        worn = [process for process in table.values() if process.name == name]
        if len(worn) != 1:
            raise Failed(f"{len(worn)} processes wear the name of the attacker's")
        sandbox.namespace = hosts.process_namespace(worn[0].pid)
        first = [process for process in hosts.in_namespace(sandbox.namespace) if hosts.is_first(process.pid)]
        # Not every user may inspect an init; its kernel is then inspected instead.
        sandbox.init = (first or worn)[0]
        sandbox.members = {group: set() for group in _groups(worn[0].pid)}
        sandbox.look()

    def run(self, entry: str = "inside()", sandbox: str | None = None, **fields) -> dict:
        """Sends the attack in and waits for its end."""
        code = cases.program(self.case.attack, self.host.told, entry)
        fields = {"timeout_seconds": self.case.option("TIMEOUT", 20), **fields}
        self.cell = self.api.cell(sandbox or self.id, code, **fields)
        self.hear(self.cell["stdout"])
        return self.cell

    def hear(self, stdout: str) -> None:
        """Takes down what an attack said it tried, and who is there after it."""
        for sandbox in self.sandboxes:
            sandbox.look()
        said = cases.evidence(stdout)
        self.attempts += len(said)
        self.found |= dict(said)

    def start(self, entry: str = "inside()", **fields) -> str:
        """Sends the attack in and does not wait; the cell's id."""
        code = cases.program(self.case.attack, self.host.told, entry)
        body = {"code": code, "background": True, "timeout_seconds": self.case.option("TIMEOUT", 20), **fields}
        return self.api.want(202, "POST", f"/v1/sandboxes/{self.id}/cells", body)["id"]

    def wait(self, cell: str) -> dict:
        """Waits for a cell that was started."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            self.cell = self.api.want(200, "GET", f"/v1/sandboxes/{self.id}/cells/{cell}?wait=30")
            if self.cell["state"] == "done":
                self.hear(self.cell["stdout"])
                return self.cell
        raise Failed(f"cell {cell} does not end")

    def ask(self, code: str, sandbox: str | None = None) -> str:
        """What an ordinary cell prints."""
        cell = self.api.cell(sandbox or self.id, code, timeout_seconds=30)
        if cell["outcome"] != "ok":
            raise Failed(f"{code!r} ended in {cell['outcome']}: {cell['error']}")
        return cell["stdout"].strip()

    def inhabitants(self, sandbox: Sandbox | None = None) -> list[hosts.Process]:
        """The processes of a sandbox that are alive, as the host sees them."""
        sandbox = sandbox or self.sandboxes[0]
        return [
            process
            for process in hosts.in_namespace(sandbox.namespace)
            if process.state != "Z" and not hosts.is_first(process.pid)
        ]

    def end(self, sandbox: Sandbox) -> None:
        """Ends a sandbox; nothing of it may remain, except its groups for the next sandbox, without its processes."""
        sandbox.look()
        answer = self.api.delete(sandbox.id)
        self.check(answer.status in (204, 404, 409), f"ending the sandbox: {answer.status} {answer.text[:200]}")
        if sandbox.init:
            self.check(eventually(lambda: not _same(sandbox.init)), "processes outlive their sandbox")
            left = [str(g) for g, was in sandbox.members.items() if not eventually(lambda g=g, was=was: not was & _members(g))]
            self.check(not left, f"processes outlive their sandbox in its groups: {left[:2]}")

    @contextmanager
    def own_server(self, **options):
        """A server for this case alone, started by the same user."""
        server = Server(self.server.ground, self.server.uid, self.server.tokens, **options)
        try:
            yield server
        finally:
            server.close()

    def bearable(self, entry: str = "inside()", processes: int = 1) -> int:
        """That others are served beside the attack as they are beside an honest busy loop of the same limits.

        Twice as long is allowed, for the median; the attack is given more than one chance to be bearable, because a busy
        machine is not its fault. Without control groups there is no share to promise, only that others are served.
        The attack must have so many processes before the first timing; returns how many were observed.
        """
        pairs, seen = [], 0
        for _ in range(DURING_ATTEMPTS):
            honest, _ = self._median_beside("while True: pass", 1)
            attacked, seen = self._median_beside(cases.program(self.case.attack, self.host.told, entry), processes)
            pairs.append((round(honest, 3), round(attacked, 3)))
            if not self.enforced("cpu_share") or attacked <= max(2 * honest, DURING_FLOOR):
                return seen
        self.check(False, f"others wait too long beside it (seconds honest, attacked): {pairs}")
        return seen

    def _median_beside(self, code: str, processes: int) -> tuple[float, int]:
        sandbox = self.sandbox(**self.case.option("NEW", {}))
        body = {"code": code, "background": True, "timeout_seconds": self.case.option("TIMEOUT", 20)}
        self.api.want(202, "POST", f"/v1/sandboxes/{sandbox.id}/cells", body)
        eventually(lambda: len(self.inhabitants(sandbox)) >= processes, 5.0)
        times = []
        for _ in range(DURING_SAMPLES):
            times.append(self.scene.probe.live())
            time.sleep(DURING_PAUSE)
        seen = len(self.inhabitants(sandbox))
        self.end(sandbox)
        self.sandboxes.remove(sandbox)
        return statistics.median(times), seen

    def secret(self, name: str, api: Api | None = None, **fields) -> str:
        """Stores a secret of the attacker's key, whose value every answer is searched for; the value."""
        value = self.server.tokens.new("secret")
        api = api or self.api
        answer = api.call("PUT", f"/v1/secrets/{name}", {"value": value, "hosts": [f"{far.API}:{far.TLS}"], **fields})
        if answer.status not in (200, 201):
            raise Failed(f"the secret: {answer.status} {answer.text[:300]}")
        self.finally_do(lambda: api.call("DELETE", f"/v1/secrets/{name}"))
        return value

    def notes(self, event: str, sandbox: str | None = None) -> list[dict]:
        """The records of the audit log about one event of the attacker's sandbox."""
        found = [one for one in self.server.audit() if one.get("event") == event]
        return [one for one in found if (sandbox or self.id) in json.dumps(one)]

    def deny_waiting(self) -> None:
        """Answers every open question with no, so that the next case may ask."""
        for one in self.server.admin.want(200, "GET", "/v1/approvals")["approvals"]:
            self.server.admin.call("POST", f"/v1/approvals/{one['id']}/deny", {"reason": "the case is over"})

    def finally_do(self, action: Callable[[], object]) -> None:
        """Something to be done when the case is over, whatever became of it."""
        self._cleanups.append(action)

    def close(self) -> None:
        for action in reversed(self._cleanups):
            action()
        for sandbox in self.sandboxes:
            self.end(sandbox)


def _same(process: hosts.Process) -> bool:
    """Whether this very process is still there."""
    found = hosts.processes().get(process.pid)
    return found is not None and found.started == process.started


def _members(group: Path) -> set[tuple[int, int]]:
    """The processes in a control group, by number and time of their start."""
    try:
        inside = {int(line) for line in (group / "cgroup.procs").read_text().split()}
    except OSError:
        return set()  # It has gone.
    return {(process.pid, process.started) for process in hosts.processes().values() if process.pid in inside}


def _groups(pid: int) -> tuple[Path, ...]:
    """The control groups of a process that are a sandbox's own."""
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "silica" not in path:
            continue
        names = [controllers, *controllers.split(","), "unified", ""]
        for name in names:
            group = Path("/sys/fs/cgroup", name.removeprefix("name="), path.lstrip("/"))
            if group.is_dir():
                found.append(group)
                break
    return tuple(found)
