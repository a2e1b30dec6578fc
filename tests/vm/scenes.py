"""What happens inside the machine: one scene for each way in which a host with cgroup v2 may be set up.

Each scene makes the groups that systemd would have made, starts Silica in one of them, looks at what it
says it enforces and at what it does enforce, and then runs the tests of the binary there.
"""

import concurrent.futures
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
VM = json.loads(Path("/vm.json").read_text())

# The ordinary user of the tests in `tests/it/jail/ordinary_user.rs`.
USER = 12345

# By a group, in the words of the report.
BY_GROUP = {"memory": "cgroup v2", "processes": "cgroup v2", "cpu_share": "cgroup v2", "cpu_time": "cgroup v2"}
# What stands in for groups.
BY_PROCESS = {
    "memory": "per process, by RLIMIT_DATA: no cgroup to use",
    "processes": "RLIMIT_NPROC in its own user namespace",
    "cpu_share": "no cgroup to use",
    "cpu_time": "per process, by RLIMIT_CPU: no cgroup to use",
}

# Tests that want a second template, with libraries: the disk has one without.
NEED_LIBRARIES = {"jail::init_pool::pool_follows_requests_from_template_to_template"}

# Modules of `tests/it` that run in more than one scene.
LIMITS_AND_ENDS = ["engine::limits", "jail::failing", "jail::leftovers", "jail::init_pool"]
ORDINARY_USER = "jail::ordinary_user"

# How many times more patience the tests have in a machine that is emulated.
SLOWNESS = "6"

passed, failures = [], []


def check(what, found, expected):
    good = found == expected
    print(f"{'ok' if good else 'FAILED'}: {what}" + ("" if good else f": {found!r}, expected {expected!r}"), flush=True)
    (passed if good else failures).append(what)


def group(path, controllers=""):
    """Makes a group; `controllers` are those its children have."""
    directory = CGROUPS / path
    directory.mkdir(exist_ok=True)
    if controllers:
        (directory / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers.split()))
    return directory


def delegate(directory):
    """Gives a group to the ordinary user as systemd does for `Delegate=yes`."""
    for name in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"]:
        os.chown(directory / name, USER, USER)


def within(directory, command, user=0, **options):
    """Runs a program that is alone in a group from its first moment."""

    def enter():
        (directory / "cgroup.procs").write_text("0")
        if user:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)

    home = "/tmp/user" if user else "/tmp/root"
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": home, "SILICA_HOME": home}
    environment |= {"SILICA_TEST_SLOWNESS": SLOWNESS, "CARGO_MANIFEST_DIR": VM["package"]}
    return subprocess.run(command, preexec_fn=enter, env=environment, text=True, **options)


def data_directory(name, user):
    """A data directory over the template that the tests use."""
    home = Path(name)
    home.mkdir()
    (home / "templates").symlink_to(Path(VM["home"]) / "templates")
    shutil.chown(home, user, user)


def doctor(directory, user, enforced):
    """What `silica doctor` says must be what this scene can enforce."""
    shown = within(directory, [VM["silica"], "doctor"], user, stdout=subprocess.PIPE)
    print(shown.stdout, flush=True)
    told = within(directory, [VM["silica"], "doctor", "--json"], user, stdout=subprocess.PIPE)
    check("doctor can run a sandbox", told.returncode, 0)
    rows = {row["name"].removeprefix("enforced: "): row["detail"] for row in json.loads(told.stdout)["findings"]}
    for measure, detail in enforced.items():
        check(f"doctor says how {measure} is enforced", rows.get(measure), detail)


def run(directory, user, code, *arguments):
    command = [VM["silica"], "run", "--template", "python", "--json", "-c", code, *arguments]
    return json.loads(within(directory, command, user, stdout=subprocess.PIPE).stdout)


def limits(directory, user):
    """The limits by groups, each as a run of its own that is alone in its group."""
    small = ["--memory", "64M", "--disk", "16M"]
    ran = run(directory, user, "print(2 + 2)")
    check("code runs", (ran["outcome"], ran["stdout"]), ("ok", "4\n"))
    check("the peak of memory is told", ran["usage"]["memory_peak_bytes"] is not None, True)
    ran = run(directory, user, "x = b'x' * (300 << 20)", *small)
    check("memory", ran["outcome"], "out_of_memory")
    child = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'b\"x\" * (300 << 20)']).returncode)"
    check("memory of children", run(directory, user, child, *small)["stdout"], "-9\n")
    files = "open('/dev/shm/a', 'wb').write(b'x' * (10 << 20)); x = b'x' * (60 << 20)"
    check("memory of files", run(directory, user, files, *small)["outcome"], "out_of_memory")
    forks = "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(50)"
    check("processes", run(directory, user, forks, "--processes", "16")["error"]["name"], "BlockingIOError")
    spin = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    check("processor time of children", run(directory, user, spin, "--cpu-seconds", "2")["outcome"], "cpu_exceeded")
    ran = run(directory, user, "while True: pass", "--cpus", "0.2", "--timeout", "5")
    share = ran["usage"]["cpu_ms"] / ran["duration_ms"]
    check(f"share of a processor ({share:.2f})", share < 0.25, True)


def tests(directory, modules, user=0, asked=()):
    """Runs tests of the binary in a group, each in a process of its own, two at a time."""
    listed = subprocess.run([VM["tests"], "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
    names = [name for name in names if name.rpartition("::")[0] in modules and name not in NEED_LIBRARIES]
    names = [name for name in names if not asked or any(word in name for word in asked)]
    # Another process is in the group too, as a login shell would be.
    other = within(directory, ["bash", "-c", "sleep 10000 >/dev/null & echo $!"], user, stdout=subprocess.PIPE)

    def run_one(name):
        command = [VM["tests"], "--exact", name]
        return name, within(directory, command, user, cwd="/tmp", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, done in pool.map(run_one, names):
            check(name, done.returncode, 0)
            if done.returncode != 0:
                print(done.stdout, flush=True)
    os.kill(int(other.stdout), signal.SIGKILL)


def root(asked):
    """Root, logged in: systemd passes memory and pids to sessions, and keeps the processor to itself."""
    group("", "memory pids")
    group("user.slice", "memory pids")
    group("user.slice/user-0.slice", "memory pids")
    session = group("user.slice/user-0.slice/session-1.scope")
    doctor(session, 0, BY_GROUP)
    limits(session, 0)
    tests(session, [*LIMITS_AND_ENDS, "jail::containment", ORDINARY_USER], asked=asked)


def service(asked):
    """A service of root's with a group of its own."""
    group("", "cpu memory pids")
    group("system.slice", "cpu memory pids")
    own = group("system.slice/silica.service")
    doctor(own, 0, BY_GROUP)
    limits(own, 0)


def user_slice(controllers):
    group("", controllers)
    group("user.slice", controllers)
    return group(f"user.slice/user-{USER}.slice", controllers)


def delegated(asked):
    """An ordinary user with a user manager, to whom all controllers are passed on."""
    user_slice("cpu memory pids")
    top = f"user.slice/user-{USER}.slice/user@{USER}.service"
    delegate(group(top, "cpu memory pids"))
    delegate(group(f"{top}/app.slice", "cpu memory pids"))
    scope = group(f"{top}/app.slice/run-1.scope")
    delegate(scope)
    doctor(scope, USER, BY_GROUP)
    limits(scope, USER)
    # Beside other programs of the user in one group.
    shared = group(f"{top}/app.slice/terminal.scope")
    delegate(shared)
    tests(shared, LIMITS_AND_ENDS, USER, asked)
    tests(shared, [ORDINARY_USER], asked=asked)


def undelegated(asked):
    """An ordinary user in a session of the system's, as after ssh: nothing is delegated."""
    user_slice("memory pids")
    session = group(f"user.slice/user-{USER}.slice/session-2.scope")
    doctor(session, USER, BY_PROCESS)
    tests(session, [ORDINARY_USER], asked=asked)


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))


def left_over():
    """Groups of Silica's that are still there when nothing of it runs."""
    return sorted(str(path.relative_to(CGROUPS)) for path in CGROUPS.rglob("silica-*"))


def main():
    scene, asked = sys.argv[1], [word for word in sys.argv[2].split(",") if word]
    loopback_up()
    # Process 1 and this one stay at the top, as a system's own processes would not; they take no part.
    data_directory("/tmp/root", 0)
    data_directory("/tmp/user", USER)
    {"root": root, "service": service, "delegated": delegated, "undelegated": undelegated}[scene](asked)
    check("no group is left", left_over(), [])
    print(f"{len(passed)} passed, {len(failures)} failed {' '.join(failures)}", flush=True)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
