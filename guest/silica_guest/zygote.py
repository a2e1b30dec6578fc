"""Entry of a warm process that forks once per kernel: `python -I -S -B .../zygote.py`.

Owns preloading, warming and the fork loop. It never sees user code or data:
the gate forks, and returns here in a child that is in its jail already.
"""

from __future__ import annotations

import _locale
import _signal
import collections
import gc
import itertools
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from silica_guest import bundles, immortal, interpreter, kernel, reseed, wire  # noqa: E402
from silica_guest.shell import Shell  # noqa: E402

MASTER_FD = 3
ERROR_CHARS_MAX = 4000
# CPython rewrites bytecode that has run eight times for the types it saw; done here, children
# need not, and copy fewer pages.
WARM_ROUNDS = 20
DEAR = {"matplotlib.pyplot"}
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1; not in the mmap module.
# How CPython keeps small objects, since 3.10. With other numbers the filling is cut short or goes to its bound.
POOL_BYTES = 16 << 10
POOL_HEAD_BYTES = 48
SMALL_BYTES_MAX = 512
GAPS_BYTES_MAX = 1 << 20  # Of each size.
# A thread pool started by an import would not survive the fork.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS",
)  # fmt: skip
# What first cells commonly pull in; a child that imports it itself pays for it every time.
STANDARD_MODULES = "asyncio json linecache re subprocess traceback"
# The last ones leave CPython's cache of methods as children find it, so the commonest come last.
CELLS = {
    "matplotlib.pyplot": ("import matplotlib.pyplot as plt\nplt.plot([1, 2], label='w')\nplt.legend()\nplt.show()",),
    "": ("print('warm', 1.5)", "x = [1, 'a', {2: None}]\nx", "%pwd", "def f(n):\n    return n / 0\nf(1)", "1 +"),
    "numpy": ("import numpy as np\nnp.random  # loaded on first use\nnp.arange(3) / 2",),
    "pandas": (
        "import io, pandas as pd\nd = pd.read_csv(io.StringIO('a,b\\n1,x\\n2,y'))\nd",
        "print(d.describe(), d.groupby('b').a.sum(), d.dtypes, d.sort_values('a'))",
        "d = pd.DataFrame({'x': range(9), 'y': [0.5] * 9})\nprint(d, d.describe(), d.x.mean())",
    ),
}

filling: list[object] = []  # What `fill_gaps` has made.


def preload(modules: list[str]) -> Shell:
    """Returns a shell in the IPython gear with `modules` imported on one thread."""
    locale = _locale.setlocale(_locale.LC_ALL)
    saved = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        shell = Shell()
        if not shell.load_notebook():
            raise ImportError("IPython cannot be loaded")
        for name in (*STANDARD_MODULES.split(), *modules):
            __import__(name)
    finally:
        _locale.setlocale(_locale.LC_ALL, locale)
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return shell


def warm(shell: Shell) -> None:
    """Runs cells of every common kind, then removes all traces that a user could see."""
    from silica_guest import errors

    before = dict(shell.namespace)
    streams = sys.stdout, sys.stderr
    shell.emit = rehearse
    with open(os.devnull, "w", encoding="utf-8") as sink:
        sys.stdout = sys.stderr = sink
        for module, cells in CELLS.items():
            if module and module not in sys.modules:
                continue
            for code in cells * (1 if module in DEAR else WARM_ROUNDS):
                try:
                    shell.run(code)
                except Exception as error:  # Some of the cells are there to fail.
                    wire.encode_json(errors.describe(error))
                shell.finish()
        for _ in range(WARM_ROUNDS):
            rehearse_kernel(shell)
        sys.stdout, sys.stderr = streams
    if "matplotlib.pyplot" in sys.modules:
        # After every cell pyplot would look for figures to draw again. `plt.ion()`, for which it is meant, puts it back.
        sys.modules["matplotlib.pyplot"].uninstall_repl_displayhook()
    reset(shell, before)


def rehearse_kernel(shell: Shell) -> None:
    """Runs the kernel's own loop for a host that has said everything ahead, and listens to nobody."""
    import socket

    handler = _signal.getsignal(_signal.SIGINT)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        rehearsing = kernel.Kernel(wire.Channel(theirs.fileno()), shell)
        rehearsing.greet()
        rehearsing.rehearse()
        host = wire.Channel(ours.fileno())
        host.send({"type": "setup", "env": {"SILICA_REHEARSAL": "1"}, "argv": [""], "cwd": "/"})
        host.send({"type": "run", "cell": 1, "env": {}}, b"print('warm')")
        host.send({"type": "run", "cell": 2}, b"x = 1\nx")
        host.send({"type": "ack", "seq": 1})
        host.send({"type": "shutdown"})
        rehearsing.loop()
    _signal.signal(_signal.SIGINT, handler)
    del os.environ["SILICA_REHEARSAL"]


def rehearse(data: dict, metadata: object, main: bool) -> None:
    """Prepares a result as a kernel would, and sends it nowhere."""
    found, _ = bundles.payloads(data, kernel.RESULT_BYTES_MAX)
    wire.encode_json([[mime for mime, _ in found], bundles.safe_metadata(metadata)])


def reset(shell: Shell, namespace: dict) -> None:
    """Puts the shell and process-wide registries back to where a new kernel starts."""
    shell.namespace.clear()
    shell.namespace.update(namespace)
    shell.start_over()
    sys.modules["linecache"].cache.clear()
    for module in list(sys.modules.values()):
        # Some entries of sys.modules are not modules and have a dict of another kind.
        if isinstance(module, type(sys)):
            module.__dict__.pop("__warningregistry__", None)
    if "logging" in sys.modules:
        sys.modules["logging"].root.handlers.clear()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        decimal.setcontext(decimal.DefaultContext.copy())


def assert_one_thread() -> None:
    """Fails when an import started a thread: its locks would be left held in every child."""
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return  # No /proc in here; the master checks from outside.
    if len(threads) != 1:
        raise RuntimeError(f"preloading left {len(threads)} threads")


def use_huge_pages() -> None:
    """Asks the kernel to move the heap onto huge pages, which a fork copies by the entry, not by the page.

    A quarter off the time from fork to first output with pandas loaded. Where the kernel
    cannot (before Linux 6.1, or huge pages off) nothing changes.
    """
    import ctypes

    madvise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        span, mode, _, _, _, *name = line.split()
        if mode != "rw-p" or name not in ([], ["[heap]"]):
            continue
        start, end = (int(text, 16) for text in span.split("-"))
        start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if start < end:
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_COLLAPSE)


def fill_gaps() -> None:
    """Fills the room that is left between objects, so that children put theirs on pages of their own.

    Freed objects leave gaps all over the heap, and a child that puts its first objects there copies
    a page for every few of them. CPython keeps objects of one size in pools, and begins a new pool only
    when no other has room.
    """
    for size in range(16, SMALL_BYTES_MAX + 1, 16):
        # Objects of this size in memory; bytes bring 33 of their own.
        make = object if size == 16 else complex if size == 32 else lambda size=size: bytes(size - 33)
        blocks = (POOL_BYTES - POOL_HEAD_BYTES) // size
        for _ in range(GAPS_BYTES_MAX // (2 * POOL_BYTES)):
            # Nothing else is made meanwhile, not even a number, but the list itself.
            batch = [make() for _ in itertools.repeat(None, 2 * blocks)]
            filling.extend(batch)
            pools = collections.Counter(id(thing) // POOL_BYTES for thing in batch)
            if max(pools.values()) >= blocks - 1:
                break  # One that was empty, so all others are full.


def settle() -> None:
    """Arranges memory so that children copy little of it."""
    for _ in range(WARM_ROUNDS):
        reseed.reseed()
    if "matplotlib.font_manager" in sys.modules:
        # matplotlib empties this cache in every child, and freeing the fonts dirties 150 pages.
        sys.modules["matplotlib.font_manager"]._get_font.cache_clear()
    gc.collect()
    immortal.make_immortal()
    fill_gaps()
    # Out of the collector's reach, so that it does not write to their headers.
    gc.freeze()
    use_huge_pages()
    assert_one_thread()


def serve_forks(gate, prepared: kernel.Kernel) -> int:
    """Lets the gate fork a kernel for every request; returns the zygote's exit code."""
    ended = gate.serve()
    if ended <= 0:
        return 0 if ended == 0 else 1
    gc.enable()
    reseed.reseed()
    return kernel.serve(prepared)  # That never returns.


def tell(packet: dict) -> None:
    """Sends one packet to the zone master."""
    os.write(MASTER_FD, wire.encode_json(packet))


def main() -> int:
    """Becomes a zygote; returns the exit code."""
    # Collections during start would only scatter garbage over pages to be shared.
    gc.disable()
    interpreter.prepare()
    os.environ.pop("LD_BIND_NOW", None)  # For this process; the user's own need not wait.
    modules = [name for name in os.environ.pop("SILICA_PRELOAD", "").split(",") if name]
    try:
        from silica_guest.gateway import Gate, keep_objects_together

        keep_objects_together()
        interpreter.configure_streams()
        shell = preload(modules)
        warm(shell)
        prepared = kernel.prepare(shell)
        gate = Gate(MASTER_FD)
        gate.reseed(reseed.prepare())
        settle()
        if gate.lock() < 0:
            raise OSError("the zygote could not be locked")
        gate.gather_libraries()
    except Exception as error:
        tell({"type": "failed", "error": f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]})
        return 1
    tell({"type": "ready", "python": sys.version.split()[0], "modules": len(sys.modules)})
    interpreter.flush_streams()
    return serve_forks(gate, prepared)


if __name__ == "__main__":
    os._exit(main())
