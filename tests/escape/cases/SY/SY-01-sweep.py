"""SY-01: Make every system call there is.

Claim: The calls that reach the kernel are exactly those of the table the filter was made from.
Technique: A child for each number from 0 to 600 makes the call with six arguments of -1; the answer is compared with `silica doctor --calls`.
Source: Firecracker's exhaustive check of its filters
Tiers: jail contained
"""

LIMITS = {"cpu_seconds": 120, "wall_seconds": 120}
TIMEOUT = 120


def inside():
    import os
    import signal

    # Calls that end, stop or replace the child when they succeed: that they do is the answer.
    results = {}
    for number in range(601):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(1)
            attack.ctypes.set_errno(0)
            returned = attack.libc.syscall(attack.ctypes.c_long(number), *[attack.ctypes.c_long(-1)] * 6)
            error = attack.ctypes.get_errno() if returned == -1 else 0
            os.write(writer, b"%d" % error)
            os._exit(0)
        os.close(writer)
        said = os.read(reader, 10)
        os.close(reader)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        results[number] = int(said) if said else 1000 - ended
    # The numbers in a row, 0 and 1000 and above for what took effect.
    attack.say("answers", [results[number] for number in range(601)])


def outside(trial):
    import json
    import subprocess

    table = json.loads(subprocess.run([trial.server.ground.binary, "doctor", "--calls"], capture_output=True, check=True).stdout)
    answers = trial.found.get("answers", [])
    trial.equal(len(answers), 601, "numbers tried")
    # The kernel never shows these two to a filter (Linux 6.11 and 6.14); outside a probe they only harm their caller.
    unfiltered = {335, 336}
    named = {row["number"]: row["answer"] for row in table["calls"]}
    others = table["others"]
    numbers = {"EPERM": 1, "ENOSYS": 38}
    wrong = {}
    for number, answer in enumerate(answers):
        expected = named.get(number, others["known"] if number <= others["known_max"] else others["unknown"])
        refused = numbers.get(expected)
        # The kernel itself answers ENOSYS to an operation of futex (202) that it does not know.
        if number in unfiltered or number == 202:
            continue
        # A call that is allowed may fail in any way but as if it did not exist; one with a check may be refused by it.
        if answer != refused if refused else answer == 38 and expected == "allowed":
            wrong[number] = (answer, expected)
    trial.equal(wrong, {}, "answers that are not the table's")
    reached = sum(1 for number, answer in enumerate(answers) if answer not in (1, 38))
    trial.check(reached > 100, f"only {reached} calls reached the kernel")
