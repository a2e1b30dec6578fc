"""The host as the oracle sees it: canaries and listeners to be left alone, processes, mounts and settings.

An attack has failed if none of this has changed. `told` is what the attacker receives of it: paths and addresses, never
contents.
"""

import hashlib
import os
import platform
import select
import shutil
import socket
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from harness.tokens import Tokens

CANARY_PLACES = ("/root", "/home", "/var/lib", "/opt", "/srv", "/mnt", "/tmp", "/var/tmp", "/etc", "/run")

SETTINGS = (
    "kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname", "kernel/randomize_va_space",
    "kernel/ns_last_pid", "user/max_user_namespaces", "user/max_inotify_instances", "vm/overcommit_memory",
    "vm/drop_caches", "fs/suid_dumpable", "net/ipv4/ip_forward", "kernel/core_uses_pid", "kernel/panic",
)  # fmt: skip
CHANGES_BY_ITSELF = ("kernel/ns_last_pid",)


@dataclass(frozen=True)
class Process:
    """A process of this host; its start time distinguishes it from a later one with the same id."""

    pid: int
    parent: int
    name: str
    state: str
    started: int
    uid: int


def processes() -> dict[int, Process]:
    """Every process of this host by its number."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            line = Path(f"/proc/{entry}/stat").read_text(errors="replace")
            uid = os.stat(f"/proc/{entry}").st_uid
        except OSError:
            continue
        start, end = line.index("("), line.rindex(")")
        fields = line[end + 2 :].split()
        found[int(entry)] = Process(int(entry), int(fields[1]), line[start + 1 : end], fields[0], int(fields[19]), uid)
    return found


def below(pid: int, table: dict[int, Process] | None = None) -> list[Process]:
    """All processes below one."""
    table = processes() if table is None else table
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found, waiting = [], [pid]
    while waiting:
        for process in children.get(waiting.pop(), []):
            found.append(process)
            waiting.append(process.pid)
    return found


def in_namespace(link: str) -> list[Process]:
    """The processes of one pid namespace that this user may look at; the first one is the namespace's init if it is there."""
    found = []
    for process in processes().values():
        if process_namespace(process.pid) == link:
            found.append(process)
    return sorted(found, key=lambda process: process.started)


def process_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""  # Gone, or closed to an ordinary user.


def is_first(pid: int) -> bool:
    """Whether a process is number 1 of its own pid namespace."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in lines)


def mounts() -> frozenset[str]:
    """The host's mounts without their numbers."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return frozenset(" ".join(line.split()[2:]) for line in lines)


def settings() -> dict[str, str]:
    """Kernel settings that an escape would like to change."""
    found = {}
    for name in SETTINGS:
        if name in CHANGES_BY_ITSELF:
            continue
        try:
            found[name] = (Path("/proc/sys") / name).read_text().strip()
        except OSError:
            pass
    return found


def digest(path: Path) -> str:
    """SHA-256 of a file, through the page cache, where some attacks would leave their traces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(root: Path) -> str:
    """One digest over names, kinds, modes and contents of a whole tree."""
    total = hashlib.sha256()
    for directory, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = Path(directory, name)
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else digest(path) if path.is_file() else "other"
            total.update(f"{path} {status.st_mode:o} {status.st_uid} {content}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


class Host:
    """Canaries, listeners, and what must not change."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.word = f"canary-{os.getpid()}-{os.urandom(4).hex()}"
        self.files: list[Path] = []
        self.tree = Path(tempfile.mkdtemp(prefix="canary-tree-"))
        os.chmod(self.tree, 0o755)
        self._plant()
        self.listeners = Listeners(tokens, self.tree, self.word)
        self.told = {
            "canaries": [str(path) for path in self.files],
            "tree": str(self.tree),
            "word": self.word,
            "addresses": own_addresses(),
            **self.listeners.told,
        }
        self.watched = self.state()

    def _plant(self) -> None:
        for place in CANARY_PLACES:
            path = Path(place) / self.word
            try:
                path.write_text(self.tokens.new(place.strip("/").replace("/", "-")))
                path.chmod(0o644)
            except OSError:
                continue  # As an ordinary user some places are closed to the harness itself.
            self.files.append(path)
        for name in ("keep", "folder/deep/keep"):
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.tokens.new("tree"))
            self.files.append(path)

    def state(self) -> dict:
        """Everything here that an attack could have changed, cheaply enough to be asked after every case."""
        canaries = {}
        for path in self.files:
            status = path.lstat()
            canaries[str(path)] = (status.st_ino, status.st_mode, status.st_uid, status.st_mtime_ns, path.read_text())
        listing = sorted(str(path) for path in self.tree.rglob("*"))
        return {
            "canary files": canaries,
            "canary tree": listing,
            "mounts": mounts(),
            "settings": settings(),
            "names": (platform.node(), os.uname().release),
        }

    def changes(self) -> list[str]:
        """In words, what is not as it was at the start."""
        now = self.state()
        found = []
        for name, before in self.watched.items():
            if now[name] == before:
                continue
            if name == "mounts":
                found.append(f"mounts: {sorted(now[name] ^ before)[:3]}")
            else:
                found.append(f"{name} changed")
        if self.listeners.hits:
            found.append(f"listeners were reached: {self.listeners.hits}")
        return found

    def close(self) -> None:
        self.listeners.close()
        for path in self.files:
            path.unlink(missing_ok=True)
        shutil.rmtree(self.tree, ignore_errors=True)


class Listeners:
    """Sockets of the host that no sandbox may reach: each connection or packet is a hit."""

    def __init__(self, tokens: Tokens, folder: Path, word: str) -> None:
        self.hits: list[str] = []
        self._sockets: dict[socket.socket, str] = {}
        self._banner = tokens.new("listener").encode()
        tcp = self._add("tcp", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0))
        udp = self._add("udp", socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0))
        self.told = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1]}
        try:
            tcp6 = self._add("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
            self.told["tcp6"] = tcp6.getsockname()[1]
        except OSError:
            self.told["tcp6"] = self.told["tcp"]  # A host without IPv6: the attack tries the number all the same.
        path, abstract = str(folder / "socket"), "\0" + word
        self._add("unix", socket.AF_UNIX, socket.SOCK_STREAM, path)
        os.chmod(path, 0o777)
        self._add("abstract", socket.AF_UNIX, socket.SOCK_STREAM, abstract)
        self._add("abstract datagram", socket.AF_UNIX, socket.SOCK_DGRAM, abstract + "d")
        self.told |= {"unix": path, "abstract": abstract, "abstract_datagram": abstract + "d"}
        self._wake, self._end = os.pipe()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _add(self, name: str, family: int, kind: int, address) -> socket.socket:
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        self._sockets[listener] = name
        return listener

    def _watch(self) -> None:
        while True:
            ready, _, _ = select.select([*self._sockets, self._wake], [], [])
            for one in ready:
                if one == self._wake:
                    return
                self._take(one)

    def _take(self, listener: socket.socket) -> None:
        self.hits.append(self._sockets[listener])
        try:
            if listener.type == socket.SOCK_STREAM:
                stream, _ = listener.accept()
                stream.sendall(self._banner)
                stream.close()
            else:
                listener.recv(65536)
        except OSError:
            pass  # The peer has closed the connection; it was counted.

    def close(self) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        for listener in self._sockets:
            listener.close()


def own_addresses() -> list[str]:
    """Addresses under which this host is reached, loopback and all."""
    found = ["127.0.0.1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # Chooses an address and sends nothing.
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    return found
