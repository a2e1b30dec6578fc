"""CT-06: Divide work among processes.

Claim: Pools, queues, shared memory and managers work, by fork and by spawn.
Technique: A pool that squares, a queue, shared memory, a manager's dictionary, and a spawned child.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TIMEOUT = 60


def inside():
    import subprocess
    import sys

    open("work.py", "w").write("""
import multiprocessing as mp
from multiprocessing import shared_memory
def square(n): return n * n
def fill(name): m = shared_memory.SharedMemory(name); m.buf[0] = 7; m.close()
if __name__ == '__main__':
    for way in ('fork', 'spawn', 'forkserver'):
        c = mp.get_context(way)
        with c.Pool(3) as pool: print(way, sum(pool.map(square, range(20))))
    m = shared_memory.SharedMemory(create=True, size=10)
    p = mp.Process(target=fill, args=(m.name,)); p.start(); p.join(); print('shared', m.buf[0]); m.close(); m.unlink()
    with mp.Manager() as manager:
        d = manager.dict(); d['a'] = 1; print('manager', dict(d))
""")
    ran = subprocess.run([sys.executable, "work.py"], capture_output=True, text=True)
    attack.say("said", ran.stdout.splitlines())
    attack.say("complained", ran.stderr[-300:])


def outside(trial):
    expected = ["fork 2470", "spawn 2470", "forkserver 2470", "shared 7", "manager {'a': 1}"]
    trial.equal(trial.found.get("said"), expected, f"what it says ({trial.found.get('complained')})")
