"""`kill -9` under siege: what was answered is there afterwards, and the log verifies."""

import json
import secrets
import threading
import time

from siege.server import Besieged
from siege.victim import Victim, Wrong

WRITERS = 3


class Writer(threading.Thread):
    """Runs cells with a text of their own and notes those that were answered."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        super().__init__(daemon=True)
        self.victim = Victim(address, key)
        self.answered: list[str] = []
        self.stopping = False

    def run(self) -> None:
        while not self.stopping:
            text = f"siege-{secrets.token_hex(12)}"
            try:
                cell = self.victim.cell(f"print({text!r})")
            except Wrong:
                continue
            if cell["outcome"] == "ok" and cell["stdout"] == f"{text}\n":
                self.answered.append(text)


def outcomes(log: bytes) -> dict[str, str]:
    """The outcome of each cell of ours in an exported log, by its text."""
    texts, found = {}, {}
    for line in log.splitlines():
        # The log of a siege is long, and most of it is the attacker's.
        if b"siege-" not in line and b'"finish"' not in line:
            continue
        record = json.loads(line)
        execution = record.get("execution")
        if record["kind"] == "begin":
            code = json.loads(record["body"])["code"].get("text") or ""
            if "siege-" in code:
                texts[execution] = code.removeprefix("print('").removesuffix("')")
                found[texts[execution]] = "unfinished"
        elif record["kind"] == "finish" and execution in texts:
            found[texts[execution]] = json.loads(record["body"])["outcome"]
    return found


def crash(server: Besieged, key: str, seconds: float) -> tuple[str, list[str]]:
    """Kills the server while cells are answered and starts it again; a line that says what was, and what was missed."""
    writers = [Writer(server.address, key) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    server.kill()
    for writer in writers:
        writer.stopping = True
    for writer in writers:
        writer.join()
    start = time.monotonic()
    server.start()
    back = time.monotonic() - start
    answered = [text for writer in writers for text in writer.answered]
    missed = []
    verified = server.command("audit", "verify")
    if verified.returncode != 0:
        missed.append(f"silica audit verify: {(verified.stdout + verified.stderr).decode(errors='replace')[-300:]}")
    told = outcomes(server.command("audit", "export").stdout)
    lost = [text for text in answered if told.get(text) != "ok"]
    if lost:
        missed.append(f"{len(lost)} of {len(answered)} answered cells are not in the log: {lost[:3]}")
    if not answered:
        missed.append("no cell was answered before the kill: nothing is shown")
    try:
        again = Victim(server.address, key)
        again.print()
        again.leave()
    except Wrong as wrong:
        missed.append(f"after the restart: {wrong}")
    words = f"{len(answered)} cells answered before the kill, {len(lost)} lost, back after {back:.1f} s, "
    return words + f"silica audit verify {'is content' if verified.returncode == 0 else 'FAILED'}", missed
