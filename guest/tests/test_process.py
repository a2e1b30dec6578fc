"""The kernel as a process: signals, streams, descriptors, forks, bad frames."""

import os
import struct
import time

import pytest
from host import Gone, Host, texts


def run_until_output(host: Host, code: str) -> list:
    host.start(code)
    events: list = []
    while not events:
        assert host.step(events) is None
    return events


def finish(host: Host, events: list) -> dict:
    while (done := host.step(events)) is None:
        pass
    return done


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio\nawait asyncio.sleep(60)",
        "while True: display(1)",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import threading; threading.Event().wait(60)",
    ],
)
def test_interrupt(host, body):
    events = run_until_output(host, "print('go')\n" + body)
    host.interrupt()
    done = finish(host, events)
    assert done["status"] == "interrupted" and events[-1][1]["name"] == "KeyboardInterrupt"
    assert texts(host.run("1")[0]) == [("main", "1")]


def test_many_interrupts_keep_the_stream_whole(host):
    for _ in range(30):
        events = run_until_output(host, "print('go')\nwhile True: display('x' * 1000)")
        for _ in range(3):
            host.interrupt()
        assert finish(host, events)["status"] == "interrupted"


def test_interrupt_before_the_first_line_is_not_lost(host):
    host.run("import time; get_ipython()")
    for tenths in range(60):
        host.start("time.sleep(5)")
        host.send({"type": "interrupt", "cell": host.cell})
        time.sleep(tenths / 100_000)
        host.interrupt()
        assert finish(host, [])["status"] == "interrupted"


def test_interrupt_of_a_listener_ends_the_cell(host):
    host.run("import time\ndef wait():\n    print('go'); time.sleep(60)")
    host.run("get_ipython().events.register('pre_execute', wait)")
    events = run_until_output(host, "reached = 1")
    host.interrupt()
    assert finish(host, events)["status"] == "interrupted"


def test_listener_that_fails_is_reported_and_the_cell_goes_on(host):
    host.run("seen = []\ndef fail(info):\n    seen.append(info.raw_cell)\n    1 / 0")
    host.run("get_ipython().events.register('pre_run_cell', fail)")
    host.run("get_ipython().events.register('post_run_cell', lambda result: seen.append(result.info.raw_cell))")
    events, done = host.run("seen")
    assert done["status"] == "ok" and b"Error in callback" in events[0][1]
    assert b"ZeroDivisionError" in events[1][1]
    assert texts(host.run("seen[-3:]")[0])[-1][1].count("seen") == 3


def test_interrupt_between_cells_is_ignored(host):
    host.run("import signal; signal.signal(signal.SIGINT, signal.SIG_DFL);")
    host.interrupt()
    time.sleep(0.05)
    host.interrupt()
    assert texts(host.run("1")[0]) == [("main", "1")]


def test_interrupt_in_native_loop(host):
    events = run_until_output(host, "print('go')\nx = sum(range(300_000_000))")
    host.interrupt()
    assert finish(host, events)["status"] == "interrupted"


def test_line_is_live(host):
    start = time.monotonic()
    events = run_until_output(host, "import time\nprint('a'); print('b'); print('\\r50%', end='')\ntime.sleep(3)")
    while b"50%" not in b"".join(data for _, data in events):
        host.step(events)
    assert time.monotonic() - start < 2.5
    host.interrupt()
    finish(host, events)


def test_much_output(host):
    events, done = host.run("for i in range(100): print('x' * 100_000)")
    assert sum(len(data) for _, data in events) == 100 * 100_001 and done["status"] == "ok"


def test_replaced_streams(host):
    host.run("import sys, io\nsys.stdout = io.StringIO(); sys.stdout.close()")
    assert texts(host.run("print(1)")[0]) == [("out", "1\n")]
    host.run("sys.stdout.close(); sys.stderr = None")
    assert texts(host.run("print(2); print(3, file=sys.stderr)")[0]) == [("out", "2\n"), ("err", "3\n")]
    host.run("class Bad:\n    closed = False\n    def flush(self): 1/0\n    def write(self, s): 1/0\nsys.stdout = Bad()")
    assert texts(host.run("1")[0]) == [("main", "1")]


def test_closed_descriptors(host):
    host.run("import os\nos.close(1); os.close(2); os.close(0)")
    host.run("print(1)")
    assert texts(host.run("1 + 1")[0]) == [("main", "2")]
    host.run("import sys; sys.stdout.close(); sys.stderr.close()")
    assert texts(host.run("print(1); 3")[0])[-1] == ("main", "3")


def test_nonblocking_pipe_is_repaired(host):
    host.run("import os; os.set_blocking(1, False)")
    events, done = host.run("for i in range(100): print('x' * 10_000)")
    assert done["status"] == "ok"


@pytest.mark.parametrize("code", ["import os; os.close(3)", "import os; os.close(3); display(1)", "import os; os._exit(9)"])
def test_cell_that_ends_the_kernel(host, code):
    host.start(code)
    with pytest.raises((Gone, ConnectionError)):
        finish(host, [])
    host.process.wait(10)


def test_forked_child_does_not_speak(host):
    code = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: print('child'); display(1)\npid > 0"
    events, done = host.run(code)
    assert [event for event in texts(events) if event[0] == "main"] == [("main", "True")] and done["status"] == "ok"
    assert ("out", "child\n") in texts(events)
    assert texts(host.run("1/0")[0]) == [("error", "ZeroDivisionError")]


def test_end_is_seen_although_a_child_lives_on(host):
    host.start("import os, time\nif os.fork() == 0:\n    time.sleep(5); os._exit(0)\nos._exit(0)")
    start = time.monotonic()
    with pytest.raises(Gone):
        finish(host, [])
    assert time.monotonic() - start < 4


def test_multiprocessing(host):
    code = "import multiprocessing as mp\ndef sq(x): return x * x\nwith mp.get_context('fork').Pool(2) as p:\n    r = p.map(sq, range(4))\nr"
    assert texts(host.run(code)[0]) == [("main", "[0, 1, 4, 9]")]
    code = "import math\nwith mp.get_context('{}').Pool(1) as p:\n    r = p.map(math.sqrt, [4, 9])\nr"
    for method in ("spawn", "forkserver"):
        assert texts(host.run(code.format(method))[0]) == [("main", "[2.0, 3.0]")]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        struct.pack("<II", 4, 0) + b"nope",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 2, 0) + b"{}",
        struct.pack("<II", 90000, 0) + b"[" * 90000,
        struct.pack("<II", 3, 0) + b"\xff{}",
        struct.pack("<II", 14, 0) + b'{"type":"run"}',
        struct.pack("<II", 14, 0) + b'{"type":"ack"}',
    ],
)
def test_garbage_from_the_host(data):
    with Host() as host:
        host.socket.sendall(data)
        with pytest.raises(Gone):
            host.frame()
        assert host.process.wait(10) == 120
        events: list = []
        host.drain(events)
        assert not events or b"Traceback" not in events[0][1]


def test_end_of_the_stream():
    with Host() as host:
        host.socket.shutdown(1)
        assert host.process.wait(10) == 0


def test_control_socket_is_not_inherited(host):
    events, _ = host.run("import os; x = os.system('test -S /proc/self/fd/3')\nx != 0")
    assert texts(events) == [("main", "True")]


def test_user_site(tmp_path):
    with Host(HOME=str(tmp_path)) as host:
        code = "import os, sys\nd = os.path.expanduser('~/.local/lib/python%d.%d/site-packages' % sys.version_info[:2])\nos.makedirs(d)\nopen(d + '/late_module.py', 'w').write('v = 4');"
        host.run(code)
        assert texts(host.run("import late_module; late_module.v")[0]) == [("main", "4")]
        host.run("%time 1")
        assert sorted(os.listdir(tmp_path)) == [".local"]


def test_fresh_start_is_lean():
    code = "import sys\n[m for m in ('IPython', 'asyncio', 'traceback', 'inspect', 're', 'json', 'signal', 'site', 'typing', 'collections') if m in sys.modules]"
    with Host() as host:
        assert texts(host.run(code)[0]) == [("main", "[]")]


def test_children_start_from_the_kernel(host):
    events, _ = host.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import numpy; print(2)']);")
    assert texts(events) == [("out", "2\n")]
