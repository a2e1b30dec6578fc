"""Preloading, warming and reseeding, each in a process of its own; no native gate needed."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

GUEST = Path(__file__).resolve().parent.parent

START = """
import _signal, os, sys
sys.path.append({guest!r})
from silica_guest import interpreter, reseed, zygote
interpreter.prepare()
interpreter.configure_streams()
before, handler = dict(os.environ), _signal.getsignal(_signal.SIGINT)
shell = zygote.preload({modules!r})
zygote.warm(shell)
"""


def run(body: str, modules: list[str]) -> str:
    env = {"PATH": os.environ["PATH"], "SILICA_SITE": sysconfig.get_path("purelib"), "SILICA_PREFIX": sys.prefix}
    code = START.format(guest=str(GUEST), modules=modules) + body
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_warm_leaves_no_trace():
    body = """
assert shell.count == 0 and shell.inputs == [""] and shell.outputs == {} and shell.sources == {}
names = set(shell.namespace)
assert not names & {"x", "f", "pd", "plt", "np", "_i1", "_1"}, names
assert shell.namespace["_"] == "" and shell.event_loop is None
assert not [k for k in os.environ if k.endswith("NUM_THREADS")], os.environ
import linecache, matplotlib.pyplot as plt
assert not linecache.cache and not plt.get_fignums()
assert not hasattr(sys, "last_value")
assert _signal.getsignal(_signal.SIGINT) == handler and "SILICA_REHEARSAL" not in os.environ
zygote.settle()
got = []
shell.emit = lambda data, metadata, main: got.append(data["text/plain"])
shell.run("In[-1], len(Out), get_ipython().execution_count")
print(got)
"""
    modules = ["numpy", "pandas", "matplotlib.pyplot"]
    assert run(body, modules) == "[\"('In[-1], len(Out), get_ipython().execution_count', 0, 1)\"]\n"


def test_rich_results_are_warm():
    body = """
wanted = {f"silica_guest.{name}" for name in ("figures", "charts", "scales", "boxes", "tables", "jsonable")}
print(sorted(wanted - set(sys.modules)))
"""
    assert run(body, ["numpy", "pandas", "matplotlib.pyplot"]) == "[]\n"


def test_new_objects_lie_beside_no_old_ones():
    body = """
makers = {16: object, 32: complex, 48: lambda: bytes(15), 144: lambda: bytes(111), 512: lambda: bytes(479)}
old = {size: [make() for _ in range(1000)] for size, make in makers.items()}
for each in old.values():
    del each[::2]
pools = {id(thing) // zygote.POOL_BYTES for each in old.values() for thing in each}
def beside_old(makers):
    new = [make() for make in makers.values() for _ in range(20)]
    return sum(id(thing) // zygote.POOL_BYTES in pools for thing in new)
assert beside_old(makers) > 50
zygote.fill_gaps()
print(beside_old(makers))
"""
    # Of a hundred objects. The objects that `fill_gaps` itself freed leave a few gaps.
    assert int(run(body, [])) < 10


def test_no_generators_before_the_fork():
    modules = ["numpy", "pandas", "matplotlib.pyplot", "random", "uuid", "tempfile"]
    assert run("print(reseed.generators_before_fork())", modules) == "[]\n"
    body = "import random, numpy\na = random.Random(1); b = numpy.random.default_rng()\nprint(len(reseed.generators_before_fork()))"
    assert run(body, ["numpy"]) == "3\n"


SIBLINGS = """
import ctypes, threading
spans = reseed.prepare()
zygote.settle()
def child():
    read, write = os.pipe()
    pid = ctypes.PyDLL(None).fork()  # As the gate does it, without Python's own reseeding.
    if pid == 0:
        for address, size in spans:
            ctypes.memmove(address, os.urandom(size), size)
        reseed.reseed()
        import numpy, random, uuid, tempfile, multiprocessing as mp
        assert 0.4 < numpy.random.rand(10_000).mean() < 0.6 and 0.4 < sum(random.random() for _ in range(10_000)) / 10_000 < 0.6
        assert threading.main_thread().native_id == threading.get_native_id() != os.getppid()
        values = [numpy.random.rand(), random.random(), uuid.getnode(), uuid.uuid1().node, next(tempfile._get_candidate_names()),
                  bytes(mp.current_process().authkey).hex()]
        assert values[2] == values[3] and values[2] >> 40 & 1 and len(values[5]) == 64
        os.write(write, repr(values).encode()); os._exit(0)
    os.close(write); data = os.read(read, 9999); os.waitpid(pid, 0)
    return eval(data)
a, b = child(), child()
assert not set(map(str, a)) & set(map(str, b)), (a, b)
print([size for _, size in spans], len(reseed._by_hand))
"""


def test_siblings_differ():
    modules = ["numpy", "numpy.random", "uuid", "tempfile", "multiprocessing", "decimal"]
    # The state of `random`, that of numpy, the key of multiprocessing.
    assert run(SIBLINGS, modules) == "[2496, 2496, 32] 0\n"
    # Where the memory layout is not the expected one, each child reseeds all three itself.
    assert run("reseed._find = lambda *memory: None\n" + SIBLINGS, modules) == "[] 3\n"


def test_fork_loop_with_a_gate_of_ours():
    body = """
import ctypes, socket
from silica_guest import kernel, wire
host, guest = socket.socketpair()
class Gate:
    def serve(self):
        self.pid = ctypes.PyDLL(None).fork()  # Without Python's hooks, as the real one.
        if self.pid: return 0
        host.close(); os.dup2(guest.fileno(), 3); return 1
gate = Gate()
prepared = kernel.prepare(shell)
zygote.settle()
assert zygote.serve_forks(gate, prepared) == 0
guest.close()
channel = wire.Channel(host.fileno())
hello = channel.receive()[0]
assert hello["type"] == "hello"
code = b"import linecache, os; print('in the child', os.getppid() == %d, __name__, [_i, _ii, _iii], In[:-1], Out, list(linecache.cache))" % os.getpid()
channel.send({"type": "run", "cell": 1}, code)
done = channel.receive()[0]
host.shutdown(socket.SHUT_WR)
os.waitpid(gate.pid, 0)
print(done["status"])
"""
    # The cells that the zygote and the child rehearsed leave no trace: this is cell 1.
    assert run(body, []) == "in the child True __main__ ['', '', ''] [''] {} ['Cell In[1]']\nok\n"


def test_interrupt_during_the_rehearsal_is_for_the_cell():
    body = """
import socket
from silica_guest import kernel, wire
ours, theirs = socket.socketpair()
host, guest = wire.Channel(ours.fileno()), kernel.Kernel(wire.Channel(theirs.fileno()), shell)
guest.interrupts.restore()
plain = shell.run
def run(code, name):
    shell.run = plain
    host.send({"type": "run", "cell": 1}, b"while True: pass")
    host.send({"type": "interrupt", "cell": 1})
    os.kill(os.getpid(), _signal.SIGINT)
    plain(code, name)
shell.run = run
guest.rehearse()
_signal.alarm(20)
guest.run(*guest.receive())
host.send({"type": "run", "cell": 2}, b"1")
host.send({"type": "ack", "seq": 1})
ours.shutdown(socket.SHUT_WR)
guest.loop()
heads = [host.receive()[0] for _ in range(4)]
print([(head["type"], head["cell"], head.get("status")) for head in heads])
"""
    expected = [("error", 1, None), ("done", 1, "interrupted"), ("result", 2, None), ("done", 2, "ok")]
    assert run(body, []) == f"{expected}\n"


def test_pyplot_is_called_after_cells_only_if_interactive():
    body = """
import matplotlib.pyplot as plt
listeners = shell.notebook.events.callbacks["post_execute"]
assert not listeners, listeners
plt.ion()
print(len(listeners))
"""
    assert run(body, ["matplotlib.pyplot"]) == "1\n"


def test_failed_preload_is_reported(tmp_path):
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {"PATH": os.environ["PATH"], "SILICA_SITE": sysconfig.get_path("purelib"), "SILICA_PRELOAD": "no_such_module"}
    code = f"import os; os.dup2({theirs.fileno()}, 3); os.execv({sys.executable!r}, [{sys.executable!r}, '-I', '-S', '-B', {str(GUEST / 'silica_guest' / 'zygote.py')!r}])"
    process = subprocess.Popen([sys.executable, "-c", code], env=env, pass_fds=[theirs.fileno()])
    theirs.close()
    assert b'"type":"failed"' in (packet := ours.recv(65536)) and b"no_such_module" in packet
    assert process.wait(30) == 1


def test_native_library_shadows_no_module():
    assert not (GUEST / "silica_guest" / "gate.py").exists()
