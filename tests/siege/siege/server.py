"""The besieged server: the real binary with default settings, and what the host sees of its process."""

import os
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.server import Ground, Server
from harness.tokens import Tokens

# The pool's default, which the harness always passes. Everything else is left at its default.
POOL = "code-interpreter=4,python=2"

CALM_PATIENCE = 45.0
"""How long everything may take to be given back after a siege."""

COMPLAINTS_SHOWN = 6


@dataclass(frozen=True)
class Size:
    """The server's process and its data, without its sandboxes."""

    memory: int
    threads: int
    descriptors: int
    disk: int


def socket_bytes() -> int:
    """What the kernel holds for TCP on this machine."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            return int(line.split()[-1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class Besieged(Server):
    """A server with default settings over a data directory of its own."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground, None, Tokens(), pool=POOL)

    def start(self) -> None:
        self.settings = {"log.level": "warn"}
        super().start()

    def size(self) -> Size:
        return Size(self.memory_bytes(), self.threads(), self.descriptors(), self.disk_bytes())

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def disk_bytes(self) -> int:
        """What the data directory takes, without the templates, which are links, and the harness's copy of the log."""
        total = 0
        for folder, _, names in os.walk(self.home):
            for name in names:
                try:
                    status = os.lstat(os.path.join(folder, name))
                except OSError:
                    continue
                total += status.st_blocks * 512
        return total - (self.log_path.stat().st_blocks * 512 if self.log_path.exists() else 0)

    def forget_peak(self) -> None:
        """Begins to look for the highest memory anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """The highest memory since `forget_peak`."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def gauges(self) -> dict[str, float]:
        """The numbers of /metrics, by name and labels."""
        text = self.admin.call("GET", "/metrics").text
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def held(self) -> dict[str, float]:
        """What is live or held of each budget; the connection that asks does not count."""
        gauges = self.gauges()
        found = {"sandboxes": gauges.get("silica_sandboxes_live", -1.0)}
        for name, value in gauges.items():
            if name.startswith('silica_budget_held{resource="'):
                found[name.split('"')[1]] = value
        return found

    def settle(self, wanted: dict[str, float], patience: float = CALM_PATIENCE) -> dict[str, float]:
        """Waits until no more than this is held, and returns what is held then."""
        deadline = time.monotonic() + patience
        while True:
            held = self.held()
            if all(held.get(name, 0) <= most for name, most in wanted.items()) or time.monotonic() > deadline:
                return held
            time.sleep(0.25)

    def complaints(self) -> list[str]:
        """The distinct warnings and errors of the server's log, without their times, most frequent first."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        words = Counter(re.sub(r"\b(req|sbx|key|exe)_?\w+|\d+", "#", line[27:])[:160] for line in lines)
        return [f"{count} × {line}" for line, count in words.most_common(COMPLAINTS_SHOWN)]

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """Runs `silica` over the same data directory."""
        environment = {"PATH": os.environ["PATH"], "SILICA_HOME": str(self.home), "HOME": str(self.home)}
        return subprocess.run([str(self.ground.binary), *words], env=environment, capture_output=True, timeout=120)
