"""Runs the cases: as each user, alone and in company, and looks at the whole once more at the end."""

import os
import shutil
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from harness import host as hosts
from harness.case import Case
from harness.far import Far
from harness.host import Host
from harness.oracle import Oracle, measure_baseline
from harness.people import Crowd, Probe, Victim
from harness.server import Ground, Server, ordinary_user
from harness.tokens import Tokens
from harness.trial import Scene, Trial, eventually

SERVER_MEMORY_MORE_MAX = 256 << 20
"""By how much the server may have grown after all attacks: event logs are kept for a while."""

COMPANIES = ("alone", "crowd")


@dataclass
class Plan:
    """What is to be run."""

    ground: Ground
    cases: list[Case]
    users: tuple[str, ...]
    companies: tuple[str, ...] = COMPANIES
    long: bool = False
    verbose: bool = False


@dataclass
class Outcome:
    """The result of a run: failures by case and user, and the number of attacks."""

    failures: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    held: set[tuple[str, str]] = field(default_factory=set)
    runs: int = 0
    slowest: list[tuple[float, str]] = field(default_factory=list)

    def fail(self, case: str, user: str, words: list[str]) -> None:
        self.failures.setdefault((case, user), []).extend(words)


def run(plan: Plan) -> Outcome:
    outcome = Outcome()
    for user in plan.users:
        run_as(plan, user, outcome)
    return outcome


def run_as(plan: Plan, user: str, outcome: Outcome) -> None:
    """All cases against one server, which is started by this user."""
    uid = None if user == "root" or os.geteuid() != 0 else ordinary_user()
    tokens = Tokens()
    host = Host(tokens)
    before = digests(plan.ground)
    far = Far()
    host.told["far"] = far.told
    server = Server(plan.ground, uid, tokens, arguments=far.arguments)
    try:
        scene = Scene(server, host, far, Victim(server), Probe(server), server.holder("attacker"), user, plan.long)
        measure_baseline(scene)
        print(f"{user}: a new session takes {scene.fresh_baseline * 1000:.0f} ms, a cell "
              f"{scene.live_baseline * 1000:.0f} ms", flush=True)  # fmt: skip
        memory = server.memory_bytes()
        for company in plan.companies:
            run_in_company(plan, scene, company, outcome)
        outcome_words = last_look(plan, scene, before, memory)
        if outcome_words:
            outcome.fail("the whole", user, outcome_words)
    finally:
        try:
            server.close()
        finally:
            far.close()
            host.close()


def run_in_company(plan: Plan, scene: Scene, company: str, outcome: Outcome) -> None:
    crowd = Crowd(scene.server) if company == "crowd" else None
    try:
        oracle = Oracle(scene, crowd)
        for case in plan.cases:
            if scene.user not in case.option("USERS", ("root", "ordinary")):
                continue
            if crowd and not case.option("CROWDED", True):
                continue
            start = time.monotonic()
            words = run_case(case, scene, oracle)
            seconds = time.monotonic() - start
            outcome.runs += 1
            outcome.slowest = sorted([*outcome.slowest, (seconds, f"{case.id} {scene.user} {company}")])[-12:]
            if words:
                outcome.fail(case.id, scene.user, [f"{company}: {one}" for one in words])
                print(f"FAIL {case.id} {scene.user} {company}: {case.title}", flush=True)
                for one in words:
                    print(f"     {one}", flush=True)
            else:
                outcome.held.add((case.id, scene.user))
                if plan.verbose:
                    print(f"held {case.id} {scene.user} {company} {seconds:.2f} s", flush=True)
        if crowd and not crowd.cells:
            outcome.fail("the whole", scene.user, ["the crowd did nothing"])
    finally:
        if crowd:
            crowd.close()


def run_case(case: Case, scene: Scene, oracle: Oracle) -> list[str]:
    """One attack and its judgement; the failures in words."""
    trial = Trial(case, scene)
    scene.far.clear()
    try:
        outside = getattr(case.module, "outside", None)
        if case.attack and not case.option("DRIVEN", False):
            cell = trial.run()
            ends = case.option("ENDS", ("ok",))
            if cell["outcome"] not in ends:
                error = (cell.get("error") or {}).get("traceback") or cell.get("message") or cell["stderr"]
                trial.check(False, f"the attack ended in {cell['outcome']}, not {ends}: {str(error)[-600:]}")
        if outside:
            outside(trial)
    except Exception:
        trial.failures.append(traceback.format_exc(limit=-4))
    try:
        trial.close()
    except Exception:
        trial.failures.append(traceback.format_exc(limit=-3))
    oracle.judge(trial)
    return trial.failures


def digests(ground: Ground) -> dict[str, str]:
    """Of everything that sandboxes share with each other and with the host."""
    found = {"binary": hosts.digest(ground.binary), "harness's interpreter": hosts.digest(Path(sys.executable).resolve())}
    for home in ground.homes:
        for template in (home / "templates").iterdir():
            found[f"template {template.name}"] = hosts.tree_digest(template.resolve())
    for name in ("sh", "python3", "su", "mount"):
        if path := shutil.which(name):
            found[path] = hosts.digest(Path(path).resolve())
    return found


def last_look(plan: Plan, scene: Scene, before: dict[str, str], memory: int) -> list[str]:
    """What is looked at once, after all attacks of one user."""
    server, words = scene.server, []
    words += [f"{name} was changed" for name, value in digests(plan.ground).items() if before.get(name) != value]
    more = server.memory_bytes() - memory
    if more > SERVER_MEMORY_MORE_MAX:
        words.append(f"the server grew by {more >> 20} MiB")
    verdict = server.admin.want(200, "GET", "/v1/audit/verify")
    if not verdict.get("intact", verdict.get("ok")):
        words.append(f"the audit chain: {verdict}")
    metrics = server.admin.call("GET", "/metrics").body
    if server.tokens.within(metrics):
        words.append("tokens are in the metrics")
    for path in sorted(server.home.rglob("*")):
        if path.is_file() and not path.is_symlink() and server.tokens.within(path.read_bytes()):
            words.append(f"tokens are in {path.name}")
    pid = server.pid
    server.stop()
    if not eventually(lambda: not hosts.below(pid)):
        words.append("processes outlive the server")
    return words
