"""Entry of a warm process that forks once per kernel: `python -I -S -B .../zygote.py`.

Owns preloading, warming and the fork loop. The zygote never handles user code
or data: the gate forks it, and returns here in a child that is in its jail.
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
# CPython specialises bytecode after a few executions, which writes to its page. Done in the zygote,
# children need not do it, and copy fewer pages.
WARM_ROUNDS = 20
SLOW = {"matplotlib.pyplot"}
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25  # Linux 6.1; not in the mmap module.
# The layout of CPython's small-object allocator since 3.10. If it differs, `fill_gaps` stops early or at its bound.
POOL_BYTES = 16 << 10
POOL_HEAD_BYTES = 48
SMALL_BYTES_MAX = 512
GAPS_BYTES_MAX = 1 << 20  # For each object size.
# Threads of a pool that an import starts would not exist after the fork.
THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS",
)  # fmt: skip
# Modules that first cells commonly import; preloaded, no child has to import them itself.
STANDARD_MODULES = "asyncio json linecache re subprocess traceback"
# The last cells determine the state of CPython's method cache in children, so the most common ones come last.
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

filling: list[object] = []  # The objects that `fill_gaps` made.


def preload(modules: list[str]) -> Shell:
    """Returns a shell in the IPython gear with `modules` imported, without starting threads."""
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
    """Runs cells of every common kind, then removes all traces that user code could see."""
    from silica_guest import errors

    before = dict(shell.namespace)
    streams = sys.stdout, sys.stderr
    shell.emit = rehearse
    with open(os.devnull, "w", encoding="utf-8") as sink:
        sys.stdout = sys.stderr = sink
        for module, cells in CELLS.items():
            if module and module not in sys.modules:
                continue
            for code in cells * (1 if module in SLOW else WARM_ROUNDS):
                try:
                    shell.run(code)
                except Exception as error:  # Some of the cells fail on purpose.
                    wire.encode_json(errors.describe(error))
                shell.finish()
        for _ in range(WARM_ROUNDS):
            rehearse_kernel(shell)
        sys.stdout, sys.stderr = streams
    if "matplotlib.pyplot" in sys.modules:
        # Otherwise pyplot would look for figures to redraw after every cell. `plt.ion()` installs the hook again.
        sys.modules["matplotlib.pyplot"].uninstall_repl_displayhook()
    reset(shell, before)


def rehearse_kernel(shell: Shell) -> None:
    """Runs the kernel's loop over a socket pair on which every frame of the host is sent in advance."""
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
        ours.shutdown(socket.SHUT_WR)
        rehearsing.loop()
    _signal.signal(_signal.SIGINT, handler)
    del os.environ["SILICA_REHEARSAL"]


def rehearse(data: dict, metadata: object, main: bool) -> None:
    """Encodes a result as a kernel would, and discards it."""
    found, _ = bundles.payloads(data, kernel.RESULT_BYTES_MAX)
    wire.encode_json([[mime for mime, _ in found], bundles.safe_metadata(metadata)])


def reset(shell: Shell, namespace: dict) -> None:
    """Resets the shell and the process-wide registries to the state of a new kernel."""
    shell.namespace.clear()
    shell.namespace.update(namespace)
    shell.start_over()
    sys.modules["linecache"].cache.clear()
    for module in list(sys.modules.values()):
        # Some entries of sys.modules are not modules.
        if isinstance(module, type(sys)):
            module.__dict__.pop("__warningregistry__", None)
    if "logging" in sys.modules:
        sys.modules["logging"].root.handlers.clear()
    if "decimal" in sys.modules:
        decimal = sys.modules["decimal"]
        decimal.setcontext(decimal.DefaultContext.copy())


def assert_one_thread() -> None:
    """Raises RuntimeError if an import started a thread: locks that it holds would stay held in every child."""
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return  # There is no /proc here; the zone master checks from outside.
    if len(threads) != 1:
        raise RuntimeError(f"preloading left {len(threads)} threads")


def use_huge_pages() -> None:
    """Asks the kernel to move the heap to huge pages, of which a fork copies fewer page table entries.

    With pandas loaded it saves a quarter of the time from fork to first output. If the kernel
    cannot do it (before Linux 6.1, or with huge pages off) nothing changes.
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
    """Fills the gaps between objects, so that children allocate theirs on pages of their own.

    Freed objects leave gaps all over the heap, and a child that allocates its first objects there
    copies a page for every few of them. CPython allocates objects of one size from pools, and starts
    a new pool only if no other has room.
    """
    for size in range(16, SMALL_BYTES_MAX + 1, 16):
        # Makes objects that take `size` bytes; a bytes object has 33 bytes besides its content.
        make = object if size == 16 else complex if size == 32 else lambda size=size: bytes(size - 33)
        blocks = (POOL_BYTES - POOL_HEAD_BYTES) // size
        for _ in range(GAPS_BYTES_MAX // (2 * POOL_BYTES)):
            # The loop allocates nothing else, not even an integer, except the list.
            batch = [make() for _ in itertools.repeat(None, 2 * blocks)]
            filling.extend(batch)
            pools = collections.Counter(id(thing) // POOL_BYTES for thing in batch)
            if max(pools.values()) >= blocks - 1:
                break  # A pool that was empty has been filled, so all others are full.


def settle() -> None:
    """Arranges memory so that children copy few pages of it."""
    for _ in range(WARM_ROUNDS):
        reseed.reseed()
    if "matplotlib.font_manager" in sys.modules:
        # matplotlib clears this cache in every child, and freeing the fonts writes to 150 pages.
        sys.modules["matplotlib.font_manager"]._get_font.cache_clear()
    gc.collect()
    immortal.make_immortal()
    fill_gaps()
    # The collector ignores frozen objects, so it does not write to their headers.
    gc.freeze()
    use_huge_pages()
    assert_one_thread()


def serve_forks(gate, prepared: kernel.Kernel) -> int:
    """Lets the gate fork a kernel for every request; returns the exit code of the zygote."""
    ended = gate.serve()
    if ended <= 0:
        return 0 if ended == 0 else 1
    gc.enable()
    reseed.reseed()
    return kernel.serve(prepared)  # This never returns.


def send_packet(packet: dict) -> None:
    """Sends one packet to the zone master."""
    os.write(MASTER_FD, wire.encode_json(packet))


def main() -> int:
    """Becomes a zygote; returns the exit code."""
    # Collections during startup would only leave gaps on pages that children share.
    gc.disable()
    interpreter.prepare()
    os.environ.pop("LD_BIND_NOW", None)  # Meant for this process only; user processes bind lazily.
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
            raise OSError("the zygote could not restrict itself (silica_zygote_lock failed)")
        gate.gather_libraries()
    except Exception as error:
        send_packet({"type": "failed", "error": f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]})
        return 1
    send_packet({"type": "ready", "python": sys.version.split()[0], "modules": len(sys.modules)})
    interpreter.flush_streams()
    return serve_forks(gate, prepared)


if __name__ == "__main__":
    os._exit(main())
