"""A real `silica serve` over a data directory of its own, as root or as an ordinary user."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.api import Api
from harness.tokens import Tokens

START_PATIENCE = 120.0
STOP_PATIENCE = 60.0

ORDINARY_USER_FIRST = 54321
"""The first id in the search for an unused user id."""

# Attacks ask more often than people do, and in long runs more than a key may by default.
SETTINGS = {
    "sandboxes.template": "python",
    "quota.requests_per_second": 100_000,
    "quota.request_burst": 100_000,
    "log.format": "json",
}


@dataclass(frozen=True)
class Ground:
    """What servers are started from: the binary, and the data directories that hold built templates."""

    binary: Path
    homes: tuple[Path, ...]


def ordinary_user() -> int:
    """An id that no user of this host has."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(ORDINARY_USER_FIRST, ORDINARY_USER_FIRST + 1000) if uid not in used)


def as_user(uid: int | None) -> list[str]:
    """The words before a command that make another user run it; none for oneself."""
    if uid is None or uid == os.geteuid():
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]


class Server:
    """A running server. Its log is kept until `close`."""

    def __init__(
        self,
        ground: Ground,
        uid: int | None,
        tokens: Tokens,
        settings: dict | None = None,
        pool: str = "python=4,code-interpreter=0",
        arguments: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        resolver: str | None = None,
    ) -> None:
        self.ground, self.uid, self.tokens = ground, uid, tokens
        self.settings, self.pool, self.arguments = {**SETTINGS, **(settings or {})}, pool, arguments
        self.environment = environment or {}
        self.resolver = resolver
        self.home = Path(tempfile.mkdtemp(prefix="silica-escape-"))
        os.chmod(self.home, 0o755)
        self._furnish()
        self.log_path = self.home / "server.log"
        self.start()

    def _furnish(self) -> None:
        """Links to the templates, and a guest's layer that the server writes itself."""
        (self.home / "templates").mkdir()
        for home in self.ground.homes:
            for template in (home / "templates").iterdir():
                link = self.home / "templates" / template.name
                if not link.exists():
                    link.symlink_to(template)
        if self.uid is not None and os.geteuid() == 0:
            for path in (self.home, self.home / "templates"):
                os.chown(path, self.uid, self.uid)

    def start(self) -> None:
        command = [*self._with_resolver(), *as_user(self.uid), str(self.ground.binary), "serve", "--print", "json"]
        command += ["--listen", "127.0.0.1:0", "--set", f"pool={self.pool}", *self.arguments]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        environment = {"PATH": os.environ["PATH"], "SILICA_HOME": str(self.home), "HOME": str(self.home)}
        environment |= {"ESCAPE_CANARY": self.tokens.new("environment"), **self.environment}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd=self.home
            )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start: {self.log_path.read_text(errors='replace')[-2000:]}")
        said = json.loads(line)
        host, port = said["url"].removeprefix("http://").rsplit(":", 1)
        self.address = (host, int(port))
        self.key = said.get("key") or self.key
        self.pid = self.process.pid
        self.admin = Api(self.address, self.key, None)

    def _with_resolver(self) -> list[str]:
        """The words before a command that give it another resolver than the host's, in a mount namespace of its own."""
        if not self.resolver:
            return []
        path = self.home / "resolv.conf"
        path.write_text(f"nameserver {self.resolver}\noptions attempts:1 timeout:2\n")
        script = f'mount --bind "{path}" /etc/resolv.conf && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]

    def new_key(self, name: str, admin: bool = False) -> tuple[str, str]:
        """The id and the secret of a new key."""
        made = self.admin.want(201, "POST", "/v1/keys", {"name": name, "admin": admin})
        secret = next(value for value in made.values() if isinstance(value, str) and value.startswith("silica_"))
        return made["id"], secret

    def holder(self, name: str, scanned: bool = True) -> Api:
        """A client with a key of its own."""
        return Api(self.address, self.new_key(name)[1], self.tokens if scanned else None)

    def log(self) -> bytes:
        return self.log_path.read_bytes()

    def audit(self) -> list[dict]:
        """The records of the audit log, as the operator exports them."""
        command = [*as_user(self.uid), str(self.ground.binary), "audit", "export"]
        environment = {"PATH": os.environ["PATH"], "SILICA_HOME": str(self.home)}
        lines = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.split("\n")
        # Not `splitlines`: a name in a record may hold what Unicode calls an end of a line.
        records = [json.loads(line) for line in lines if line]
        return [{**one, **json.loads(one["body"])} for one in records if "body" in one]

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kills it as nothing else would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(STOP_PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("the server did not stop") from None

    def close(self) -> None:
        """Stops it and removes what it kept."""
        try:
            self.stop()
        finally:
            self.process.stdout.close()
            clear_groups(self.home)
            shutil.rmtree(self.home, ignore_errors=True)

    # What the host knows of it.

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


def clear_groups(home: Path) -> None:
    """Removes the empty control groups that a killed server could not remove itself."""
    deadline = time.monotonic() + 10
    for record in (home / "run").glob("zone-*.lock"):
        try:
            groups = [Path(path) for path in json.loads(record.read_text())]
        except (OSError, ValueError):
            continue
        for group in groups:
            while group.is_dir() and time.monotonic() < deadline:
                for below in sorted(group.rglob("*"), reverse=True):
                    if below.is_dir():
                        try_rmdir(below)
                try_rmdir(group)


def try_rmdir(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        pass  # Its processes are still dying.
