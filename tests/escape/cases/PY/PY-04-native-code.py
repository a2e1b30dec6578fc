"""PY-04: Run native code.

Claim: Native code of every kind runs, and gains nothing.
Technique: gcc where the host has it, a shared library by ctypes, memory that can be written and run; each tries to leave.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60
LIMITS = {"memory_bytes": 512 << 20}


def inside():
    import shutil
    import subprocess

    seven = attack.machine_code(bytes.fromhex("b807000000c3"))()
    attack.say("machine code", seven)
    if shutil.which("gcc"):
        open("evil.c", "w").write("""
#include <unistd.h>
#include <errno.h>
#include <sys/syscall.h>
#include <sys/mount.h>
int evil(void) { int bad = 0;
  if (syscall(SYS_unshare, 0x10000000) == 0) bad |= 1;
  if (mount("none", "/tmp", "tmpfs", 0, 0) == 0) bad |= 2;
  if (setuid(0) == 0) bad |= 4;
  if (syscall(SYS_ptrace, 16, 1, 0, 0) == 0) bad |= 8;
  if (syscall(SYS_bpf, 0, 0, 0) >= 0) bad |= 16;
  return 100 + bad; }
""")
        made = subprocess.run(["gcc", "-shared", "-fPIC", "-o", "evil.so", "evil.c"], capture_output=True, text=True)
        attack.say("gcc", made.returncode)
        if made.returncode == 0:
            attack.say("library", attack.ctypes.CDLL("/workspace/evil.so").evil())


def outside(trial):
    trial.equal(trial.found.get("machine code"), 7, "machine code runs")
    trial.check(trial.found.get("gcc", 0) == 0, "gcc is there and does not work")
    trial.check(trial.found.get("library", 100) == 100, f"a library gained {trial.found.get('library', 100) - 100:#x}")
