"""The order of things: quiet, each weapon alone, all at once, the end of the siege, and a kill under siege."""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness.server import Ground
from siege import bars, table
from siege.bars import MIB, Row
from siege.crash import crash
from siege.server import Besieged, socket_bytes
from siege.victim import Measured, Victim
from weapons import WEAPONS, Weapon

ARM_PATIENCE = 60.0
"""How long a weapon may take until it is in place; what it has by then is what it attacks with."""

DISARM_PATIENCE = 90.0
LOOK_SECONDS = 0.1

# Beside all others a weapon has a share of the connections and sandboxes that it takes alone, so that no weapon
# takes from the key what the others need.
SHARE_OF_ALL = 0.25

OTHER_KEYS = 8

NOT_GIVEN_BACK = ("connections", "audit_bytes")
"""The connection that asks is one; the bytes of records are those of the last minute."""

CRASH_WEAPONS = ("audit flood", "slow writers", "kept output", "requests at the rate limit")


@dataclass(frozen=True)
class Form:
    """How long each part takes."""

    name: str
    quiet: float
    each: float
    """Seconds of measuring under each weapon; none for 0."""
    all: float
    """Seconds of measuring under all weapons at once; none for 0."""
    crash: float
    compute: float
    """Seconds that the victim's computation takes when nothing else runs."""
    computations: int
    arm: float
    bars: bars.Bars


SHORT = Form("short", quiet=4, each=1.5, all=12, crash=2.5, compute=0.25, computations=1, arm=12, bars=bars.SHORT)
LONG = Form("long", quiet=20, each=12, all=600, crash=10, compute=1.0, computations=3, arm=ARM_PATIENCE, bars=bars.LONG)


class Attacker:
    """The process of one weapon."""

    def __init__(self, weapon: Weapon, server: Besieged, keys: list[str], short: bool, share: float) -> None:
        self.weapon = weapon
        run = Path(__file__).resolve().parent.parent / "run"
        self.process = subprocess.Popen(
            [sys.executable, str(run), "--wield"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        order = {"weapon": weapon.name, "host": server.address[0], "port": server.address[1]}
        order |= {"keys": keys, "short": short, "share": share}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        self.ready, self.said = threading.Event(), {}
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            words = json.loads(line)
            if "ready" in words:
                self.ready.set()
            else:
                self.said = words
        self.ready.set()

    def stop(self) -> None:
        """Asks it to end; `end` waits for it."""
        self.process.stdin.close()

    def end(self) -> None:
        try:
            self.process.wait(DISARM_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join()

    def errors(self) -> list[str]:
        """What keeps this weapon from proving anything."""
        if not self.said:
            return [f"the weapon {self.weapon.name!r} ended without a word"]
        if self.said.get("error"):
            return [f"the weapon {self.weapon.name!r} broke: {self.said['error']}"]
        if not self.said["done"].get(self.weapon.armed):
            return [f"the weapon {self.weapon.name!r} did nothing: refused {table.most(self.said['refused'])}"]
        return []


class Watch(threading.Thread):
    """Looks at the server's process while a weapon works, and keeps the highest figures."""

    def __init__(self, server: Besieged) -> None:
        super().__init__(daemon=True)
        self.server, self.threads, self.descriptors, self.over = server, 0, 0, threading.Event()
        self.sockets_before, self.sockets = socket_bytes(), 0
        server.forget_peak()

    def run(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            self.threads = max(self.threads, self.server.threads())
            self.descriptors = max(self.descriptors, self.server.descriptors())
            self.sockets = max(self.sockets, socket_bytes() - self.sockets_before)

    def end(self) -> int:
        """The highest memory."""
        self.over.set()
        self.join()
        return self.server.peak_bytes()


class Campaign:
    """One siege, from the start of the server to its end."""

    def __init__(self, ground: Ground, form: Form, names: list[str]) -> None:
        self.form, self.names = form, names
        self.server = Besieged(ground)
        # The others only help to fill the server's connections.
        self.attacker_keys = [self.server.new_key(f"attacker {number}")[1] for number in range(1 + OTHER_KEYS)]
        self.victim_key = self.server.new_key("victim")[1]
        self.settings = self._settings()
        self.rows: list[tuple[Row, list[str]]] = []
        self.missed: list[str] = []

    def _settings(self) -> dict[str, object]:
        told = json.loads(self.server.command("config", "--json").stdout)
        return {one["key"]: one["value"] for one in told["settings"]}

    def run(self) -> int:
        start = time.monotonic()
        try:
            self._quiet()
            for name in self.names if self.form.each else ():
                self._row(name, [WEAPONS[name]], self.form.each, 1.0)
            if self.form.all and len(self.names) > 1:
                weapons = [WEAPONS[name] for name in self.names]
                self._row(f"all {len(weapons)} at once", weapons, self.form.all, SHARE_OF_ALL)
            self._after()
            self._crash()
            complaints = self.server.complaints()
        finally:
            self.server.close()
        for one in complaints:
            print("log:", one)
        self._report(time.monotonic() - start)
        return 1 if self.missed else 0

    def _quiet(self) -> None:
        self.victim = Victim(self.server.address, self.victim_key)
        self.victim.calibrate(self.form.compute)
        self.victim.measure(1.0, 0)
        self.idle = self.server.size()
        self.quiet = self.victim.measure(self.form.quiet, max(3, self.form.computations))
        if self.quiet.failures:
            raise RuntimeError(f"the victim's calls fail without an attack: {self.quiet.failures[:3]}")
        say(f"idle: {self.idle.memory / MIB:.0f} MiB, {self.idle.threads} threads, {self.idle.descriptors} descriptors")
        say(table.quiet_line(self.quiet))

    def _row(self, name: str, weapons: list[Weapon], seconds: float, share: float) -> None:
        before, watch, start = self.server.size(), Watch(self.server), time.monotonic()
        watch.start()
        short = self.form.name == "short"
        attackers = [Attacker(weapon, self.server, self.attacker_keys, short, share) for weapon in weapons]
        deadline = time.monotonic() + self.form.arm
        for attacker in attackers:
            attacker.ready.wait(max(0.0, deadline - time.monotonic()))
        armed = time.monotonic() - start
        # A long siege has more computations, not longer ones.
        computations = max(self.form.computations, int(seconds / 20))
        seen = self.victim.measure(seconds, computations)
        after, peak = self.server.size(), watch.end()
        for attacker in attackers:
            attacker.stop()
        for attacker in attackers:
            attacker.end()
        row = Row(name, armed + seconds, seen, self.idle, before, after, peak, watch.threads, watch.descriptors)
        row.sockets = watch.sockets
        for attacker in attackers:
            row.errors += attacker.errors()
            for counts, told in ((row.done, "done"), (row.refused, "refused")):
                for what, count in attacker.said.get(told, {}).items():
                    counts[what] = counts.get(what, 0) + count
        held = self.server.settle({"sandboxes": 1, "transfers": 0, "in_flight_bytes": 0})
        if held["sandboxes"] > 1 or held.get("transfers", 0) or held.get("in_flight_bytes", 0):
            row.errors.append(f"not given back: {held}")
        verdict = bars.misses(row, self.quiet, self.form.bars, bars.disk_bound(self.settings, row.seconds))
        self.rows.append((row, verdict))
        self.missed += [f"{name}: {one}" for one in verdict]
        took = f"armed {armed:.1f} s, whole {time.monotonic() - start:.1f} s"
        say(f"{name}: {took}, memory +{row.memory_above_idle / MIB:.0f} MiB")
        say(f"    did {table.most(row.done)}; refused {table.most(row.refused)}")
        for one in verdict:
            say(f"    MISSED {one}")

    def _after(self) -> None:
        """Everything is given back, and the victim sees a quiet server again."""
        seen = self.victim.measure(self.form.quiet / 2, self.form.computations)
        self.victim.leave()
        held = self.server.settle({"sandboxes": 0, "transfers": 0, "in_flight_bytes": 0, "kept_bytes": 0})
        for name, value in held.items():
            if name not in NOT_GIVEN_BACK and value:
                self.missed.append(f"after the siege: {name} is {value:.0f}, not 0")
        size = self.server.size()
        above = size.memory - self.idle.memory
        if bars.MEMORY_AFTER_BYTES < above <= bars.MEMORY_BYTES:
            allowed = bars.MEMORY_AFTER_BYTES // MIB
            self.missed.append(f"after the siege: memory +{above / MIB:.0f} MiB, allowed {allowed}")
        row = Row("(after the siege)", 0, seen, self.idle, size, size, size.memory, size.threads, size.descriptors)
        verdict = bars.misses(row, self.quiet, self.form.bars, bars.DISK_SLACK_BYTES)
        self.missed += [f"after the siege: {one}" for one in verdict]
        self.rows.append((row, verdict))
        say(f"after the siege: memory {above / MIB:+.0f} MiB, held {held}")

    def _crash(self) -> None:
        names = [name for name in CRASH_WEAPONS if name in self.names] or self.names[:1]
        short = self.form.name == "short"
        attackers = [Attacker(WEAPONS[name], self.server, self.attacker_keys, short, SHARE_OF_ALL) for name in names]
        for attacker in attackers:
            attacker.ready.wait(5)
        words, missed = crash(self.server, self.victim_key, self.form.crash)
        for attacker in attackers:
            attacker.stop()
            # Its server is gone, and with it everything it would clean up.
            attacker.process.kill()
            attacker.end()
        self.missed += [f"kill -9: {one}" for one in missed]
        self.crashed = f"kill -9 under siege: {words}"

    def _report(self, seconds: float) -> None:
        load = os.getloadavg()
        print(table.render(self.rows, self.quiet))
        print()
        print(table.quiet_line(self.quiet))
        print("calls: p50/p99 as times the quiet value; CPU cell: median, likewise; memory: MiB above idle; disk: MiB")
        print(self.crashed)
        for one in self.missed:
            print("MISSED", one)
        count = len(self.missed)
        print(f"{self.form.name} siege: {seconds:.0f} s, load average at the end {load[0]:.1f}; {count} bars missed")


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
