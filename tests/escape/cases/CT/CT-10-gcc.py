"""CT-10: Compile and run C.

Claim: Where the host has a compiler, programs with threads are compiled and run.
Technique: gcc compiles a threaded program and a library for ctypes.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TIMEOUT = 60


def inside():
    import ctypes
    import shutil
    import subprocess

    if not shutil.which("gcc"):
        attack.say("gcc", "absent")
        return
    open("p.c", "w").write("""
#include <pthread.h>
#include <stdio.h>
static void *work(void *n) { *(int *)n *= 2; return 0; }
int twice(int n) { pthread_t t; pthread_create(&t, 0, work, &n); pthread_join(t, 0); return n; }
int main(void) { printf("%d\\n", twice(21)); return 0; }
""")
    made = subprocess.run("gcc -O1 -pthread p.c -o p && gcc -shared -fPIC -pthread p.c -o p.so && ./p", shell=True, capture_output=True, text=True)
    attack.say("gcc", made.stdout.strip())
    attack.say("library", ctypes.CDLL("./p.so").twice(4))
    attack.say("complained", made.stderr[-300:])


def outside(trial):
    trial.check(trial.found.get("gcc") in ("absent", "42") and trial.found.get("library", 8) == 8, f"gcc: {trial.found}")
