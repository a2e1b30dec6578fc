"""The judge that is the same for every attack: what must be as it was, whatever the attacker says."""

import statistics
import time

from harness.people import Crowd
from harness.trial import Scene, Trial, eventually

BASELINE_SAMPLES = 15
HEALTH_FACTOR = 2.0
HEALTH_FLOOR = 0.1
"""Seconds below which a delay is accepted; a baseline on an idle machine may be far less."""
HEALTH_PATIENCE = 60.0

DESCRIPTORS_MORE_MAX = 16
"""Descriptors that the server may have open beyond what it had: its pool and its clients come and go."""


SETTLE_SAMPLES = 10
SETTLE_PATIENCE = 20.0


def measure_baseline(scene: Scene) -> None:
    """How long operations take without an attack."""
    # The process that carries networks is started by the first sandbox that has one.
    scene.attacker.delete(scene.attacker.create(network={"mode": "list"})["id"])
    scene.fresh_baseline = statistics.median(scene.probe.fresh() for _ in range(BASELINE_SAMPLES))
    scene.live_baseline = statistics.median(scene.probe.live() for _ in range(BASELINE_SAMPLES))


def settled_descriptors(server) -> int:
    """How many descriptors the server has when its pool is full again."""
    count, steady = server.descriptors(), 0
    deadline = time.monotonic() + SETTLE_PATIENCE
    while steady < SETTLE_SAMPLES and time.monotonic() < deadline:
        time.sleep(0.1)
        now = server.descriptors()
        count, steady = now, steady + 1 if now == count else 0
    return count


class Oracle:
    """Looks around after each attack."""

    def __init__(self, scene: Scene, crowd: Crowd | None) -> None:
        self.scene, self.crowd = scene, crowd
        self.descriptors = settled_descriptors(scene.server) if scene.server.alive() else 0
        self.log_seen = len(scene.server.log())

    def judge(self, trial: Trial) -> None:
        """Adds to the failures of a trial whatever is not as it was."""
        scene = self.scene
        trial.check(trial.attempts > 0, "nothing was tried")
        if not trial.check(scene.server.alive(), "the server is gone"):
            return
        eventually(lambda: not scene.host.changes(), 2.0)
        for words in (*scene.host.changes(), *scene.victim.harm(), *(self.crowd.harm() if self.crowd else ())):
            trial.check(False, words)
        scene.host.listeners.hits.clear()
        trial.check(not scene.server.tokens.leaks, f"tokens came out: {scene.server.tokens.leaks[:3]}")
        scene.server.tokens.leaks.clear()
        self._health(trial)
        self._server(trial)

    def _health(self, trial: Trial) -> None:
        """Others are served as fast as before, soon."""
        limits = {
            "fresh": HEALTH_FACTOR * max(self.scene.fresh_baseline, HEALTH_FLOOR),
            "live": HEALTH_FACTOR * max(self.scene.live_baseline, HEALTH_FLOOR),
        }
        for name, limit in limits.items():
            times = []
            deadline = time.monotonic() + HEALTH_PATIENCE
            try:
                while True:
                    times.append(getattr(self.scene.probe, name)())
                    if times[-1] <= limit or time.monotonic() > deadline:
                        break
            except Exception as error:
                trial.check(False, f"another session is not served: {error}")
                return
            trial.check(times[-1] <= limit, f"{name} sessions take {times[-1]:.2f} s, allowed are {limit:.2f} s")

    def _server(self, trial: Trial) -> None:
        """The server holds no more than before and said nothing alarming."""
        most = self.descriptors + DESCRIPTORS_MORE_MAX
        settled = eventually(lambda: self.scene.server.descriptors() <= most)
        trial.check(settled, f"the server has {self.scene.server.descriptors()} descriptors open, {most} are allowed")
        log = self.scene.server.log()[self.log_seen :]
        self.log_seen += len(log)
        trial.check(b"panicked" not in log, "the server panicked")
        trial.check(not self.scene.server.tokens.within(log), "tokens are in the server's log")
