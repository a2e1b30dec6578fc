"""FS-08: Overwrite the program that started one.

Claim: Neither the interpreter nor any program of the host can be opened for writing through /proc.
Technique: Opens /proc/self/exe and /proc/1/exe as a path, then for writing through /proc/self/fd, many times, also after exec.
Source: CVE-2019-5736 (runc)
Tiers: jail contained
"""


def inside():
    import os
    import subprocess
    import sys

    results = {}
    for name in ("/proc/self/exe", "/proc/1/exe", sys.executable, os.path.realpath(sys.executable), "/bin/sh"):
        try:
            descriptor = os.open(name, os.O_PATH)
        except OSError as error:
            results[name] = attack.errno.errorcode[error.errno]
            continue
        for _ in range(50):
            results[name] = attack.result_of(lambda d=descriptor: os.open(f"/proc/self/fd/{d}", os.O_WRONLY))
            if results[name] == "ok":
                break
    script = "while ! true 2>/dev/null >> /proc/$PPID/exe; do i=$((i+1)); [ $i -gt 20 ] && exit 7; done"
    results["from a child"] = {7: "EACCES"}.get(subprocess.run(["/bin/sh", "-c", script]).returncode, "ok")
    attack.say("opens", results)


def outside(trial):
    trial.all_refused("opens", errors=("EACCES", "EROFS", "ETXTBSY", "EPERM", "ENOENT"))
