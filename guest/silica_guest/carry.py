"""Carries this interpreter into another sandbox: writes an image of it, and goes on where the image is woken.

Owns the survey of what cannot come along, the fork that writes, and the first
steps in the new sandbox. The native part is in `gate.so`: `silica_image_write`
writes the memory, and the gate of another sandbox turns a new process into it.
"""

from __future__ import annotations

import os
import stat
import sys

NAMES_MAX = 256
NAME_CHARS_MAX = 200
FIRST_OWN_FD = 4  # 0 to 2 are the standard streams, 3 is the control socket; each sandbox has its own.
# Kept by the kernel's own reader of files, which the host starts and ends as it likes.
READER = b"/silica_guest/reader.py"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Their workers start anew after a fork, by handlers of the library itself.
FORK_SAFE_POOLS = ("pyarrow",)
SSL_SEED_BYTES = 48
EXIT_NOT_WRITTEN = 1


class Survey:
    """What would not come along: `refused` makes the copy wrong, `left` is only missing in it."""

    def __init__(self, head: dict) -> None:
        self.refused: list[tuple[str, str]] = []
        self.left: list[tuple[str, str]] = []
        self.files: list[tuple[int, str, int, int]] = []
        self.lost: list[int] = []
        self._leaves = {kind for kind in ("threads", "shared", "processes") if head.get(kind) == "leave"}

    def conflict(self, option: str, kind: str, name: str) -> None:
        """Notes something that the host may have allowed to be left behind, by `option`."""
        (self.left if option in self._leaves else self.refused).append((kind, name))

    def take(self, kernel) -> None:
        """Looks at threads, processes, shared memory, descriptors and timers of this process."""
        self._threads()
        self._processes()
        self._shared_memory()
        self._tasks(kernel.shell)
        self._descriptors(own_descriptors(kernel.shell))
        self._timers()

    def _threads(self) -> None:
        threading = sys.modules.get("threading")
        main = threading and threading.main_thread()
        named = [thread.name for thread in threading.enumerate() if thread is not main] if threading else []
        for name in named:
            self.conflict("threads", "thread", name)
        others = len(os.listdir("/proc/self/task")) - 1 - len(named)
        if others > 0 and any(name in sys.modules for name in FORK_SAFE_POOLS):
            self.left.extend([("thread", "a worker of pyarrow")] * others)
        else:
            for _ in range(others):
                self.conflict("threads", "thread", "a thread of a library")

    def _processes(self) -> None:
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) not in (1, os.getpid()):
                command = running(name)
                if command is not None:
                    self.conflict("processes", "process", command)

    def _shared_memory(self) -> None:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                _, mode, _, _, _, *name = line.split(None, 5)
                if mode[1] == "w" and mode[3] == "s":
                    self.conflict("shared", "shared_memory", "".join(name).strip() or "anonymous")

    def _tasks(self, shell) -> None:
        if shell.event_loop is not None and not shell.event_loop.is_closed():
            asyncio = sys.modules["asyncio"]
            self.left.extend([("task", task.get_name()) for task in asyncio.all_tasks(shell.event_loop)])

    def _descriptors(self, own: set[int]) -> None:
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            if fd < FIRST_OWN_FD or fd in own:
                continue
            try:
                self._descriptor(fd)
            except OSError:
                pass  # It was the directory that is being listed.

    def _descriptor(self, fd: int) -> None:
        status, path = os.fstat(fd), os.readlink(f"/proc/self/fd/{fd}")
        if reopens(path, status):
            flags, offset = open_state(fd)
            self.files.append((fd, path, flags, offset))
        else:
            self.lost.append(fd)
            self.left.append((kind_of(status.st_mode, path), f"{path} (descriptor {fd})"))

    def _timers(self) -> None:
        import signal

        for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"):
            if signal.getitimer(getattr(signal, name))[0]:
                self.left.append(("timer", name))


def running(pid: str) -> str | None:
    """Returns the name of a process; None if it has ended or works for the host."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        return None
    name, _, rest = text.partition(b"(")[2].rpartition(b")")
    if rest.split()[0] in (b"Z", b"X") or READER in command:
        return None
    return name.decode("utf-8", "replace")


def own_descriptors(shell) -> set[int]:
    """Returns the descriptors of the kernel's event loop, which is closed in the new sandbox."""
    loop = shell.event_loop
    if loop is None or loop.is_closed():
        return set()
    return {end.fileno() for end in (loop._selector, loop._ssock, loop._csock)}


def reopens(path: str, status: os.stat_result) -> bool:
    """Returns whether an open file can be opened again by its path, in a copy of the files."""
    if path in DEVICES:
        return True
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return False
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), status)
    except OSError:
        return False


def open_state(fd: int) -> tuple[int, int]:
    """Returns the flags and the position of a descriptor."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["flags"], 8), int(fields["pos"])


def kind_of(mode: int, path: str) -> str:
    """Returns what kind of thing a descriptor stands for."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return "file"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device" if path.startswith("/dev/") else "event"


def bounded(things: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the first of the names, each cut to a bound."""
    return [(kind, name[:NAME_CHARS_MAX]) for kind, name in things[:NAMES_MAX]]


def write(kernel, head: dict) -> None:
    """Answers the frame `write`: surveys this process and forks one that writes its image.

    Returns twice: in this process, and in the one that has become the image, in another sandbox.
    """
    survey = Survey(head)
    survey.take(kernel)
    if survey.refused:
        kernel.send({"type": "unwritable", "reasons": bounded(survey.refused)})
        return
    kernel.send({"type": "writing", "left_behind": bounded(survey.left)})
    image, report = receive_descriptors(kernel.channel.fd)
    try:
        writer = os.fork()
    except OSError as error:
        os.close(image)
        os.close(report)
        kernel.send({"type": "unwritable", "reasons": [("process", error.strerror)]})
        return
    if writer == 0:
        write_or_exit(image, report, bool(head.get("any_zygote")))
        wake(kernel, survey, bool(head.get("same_random")))
        return
    os.close(image)
    os.close(report)
    kernel.writers.append(writer)
    kernel.send({"type": "forked"})


def receive_descriptors(control: int) -> list[int]:
    """Receives the file of the image and the pipe for the report; the host sends them after `writing`."""
    import array
    import socket

    with socket.socket(fileno=os.dup(control)) as end:
        _, ancillary, _, _ = end.recvmsg(1, socket.CMSG_SPACE(2 * 4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    image, report = descriptors
    return [image, report]


def write_or_exit(image: int, report: int, any_zygote: bool) -> None:
    """Writes the image, reports and ends this process; returns in the process that has become the image."""
    told = f"error {EXIT_NOT_WRITTEN}"
    try:
        from silica_guest.gateway import write_image

        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
            score.write("1000")  # If memory runs out, the copy dies and not the original.
        result = write_image(image, any_zygote)
        if result > 0:
            return
        told = f"error {-result}" if result else "written"
    except BaseException:  # noqa: BLE001 - This process must not go on as a second kernel.
        pass
    os.write(report, told.encode("ascii"))
    os._exit(0)


def wake(kernel, survey: Survey, same_random: bool) -> None:
    """Takes up work in the new sandbox: identity, randomness, descriptors, and the greeting."""
    from silica_guest import reseed

    kernel.writers.clear()
    kernel.pid = os.getpid()
    os.set_inheritable(kernel.channel.fd, False)
    os.set_blocking(kernel.channel.fd, True)
    if "threading" in sys.modules:
        sys.modules["threading"].main_thread()._native_id = sys.modules["_thread"].get_native_id()
    if not same_random:
        reseed.renew()
    left = restore_descriptors(survey, own_descriptors(kernel.shell))
    forget_event_loop(kernel.shell)
    kernel.interrupts.restore()
    kernel.greet(bounded(left))


def restore_descriptors(survey: Survey, own: set[int]) -> list[tuple[str, str]]:
    """Opens files again under their old numbers; returns those that are not there.

    The numbers of what was lost get a socket without a peer, so that using them is an error and
    does not reach a file that is opened later.
    """
    import socket

    left = []
    numbers = [fd for fd, _, _, _ in survey.files] + survey.lost + sorted(own)
    placeholder = socket.socket(socket.AF_UNIX).detach()
    for number in numbers:
        if number != placeholder:
            os.dup2(placeholder, number, inheritable=False)
    if placeholder not in numbers:
        os.close(placeholder)
    for number, path, flags, offset in survey.files:
        try:
            reopen(number, path, flags, offset)
        except OSError as error:
            left.append(("file", f"{path} (descriptor {number}): {error.strerror}"))
    return left


def reopen(number: int, path: str, flags: int, offset: int) -> None:
    """Opens a file as it was open before, under the same number."""
    fd = os.open(path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC) | os.O_NOFOLLOW)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.lseek(fd, offset, os.SEEK_SET)
        os.dup2(fd, number, inheritable=not flags & os.O_CLOEXEC)
    finally:
        if fd != number:
            os.close(fd)


def forget_event_loop(shell) -> None:
    """Closes the event loop, whose descriptors did not come along; the next cell that awaits makes one."""
    loop, shell.event_loop = shell.event_loop, None
    if loop is None or loop.is_closed():
        return
    for task in sys.modules["asyncio"].all_tasks(loop):
        task._log_destroy_pending = False  # The host lists them as left behind.
    try:
        loop.close()
    except (OSError, RuntimeError, KeyError, ValueError):
        pass  # Its descriptors are placeholders.
    sys.modules["asyncio"].set_event_loop(None)
