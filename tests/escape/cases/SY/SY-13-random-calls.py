"""SY-13: Make random system calls.

Claim: Whatever is asked of the kernel through the filter, the host stays healthy.
Technique: Children make thousands of allowed calls with random numbers, pointers and descriptors as arguments, for two seconds and until a thousand were made, or for sixty seconds in the long version.
Source: -
Tiers: jail contained
"""

LIMITS = {"cpu_seconds": 120, "wall_seconds": 120, "processes": 32, "memory_bytes": 256 << 20}
ENDS = ("ok", "crashed", "out_of_memory", "vanished", "exited", "disconnected", "sandbox_died")
TIMEOUT = 90
DRIVEN = True


def inside(seconds=2, seed=0):
    import os
    import random
    import resource
    import select
    import signal
    import time

    random.seed(seed)
    # Not those that only stop, end or double the caller, take its alarm away, or kill: those are tried elsewhere.
    dull = {13, 14, 15, 34, 37, 38, 56, 57, 58, 60, 61, 62, 127, 130, 200, 222, 223, 226, 231, 234, 247, 424, 435}
    numbers = [number for number in range(0, 470) if number not in dull]
    buffer = attack.ctypes.create_string_buffer(os.urandom(1 << 16))
    base = attack.ctypes.addressof(buffer)

    def argument():
        kind = random.randrange(8)
        if kind < 2:
            return random.randrange(0, 12)
        if kind < 5:
            return base + random.randrange(0, 1 << 16)
        if kind == 5:
            return random.choice((-1, 0, 1 << 31, 1 << 63, 0xFFFFFFFF, 4096, 1 << 20))
        return random.getrandbits(random.choice((3, 8, 16, 32, 63)))

    attack.say("numbers", len(numbers))
    made, ends = 0, {}
    started = time.monotonic()
    # Any child may meet a call that ends it or waits for ever, so the count decides, and time only bounds it.
    while (spent := time.monotonic() - started) < seconds or (made < 1000 and spent < 30):
        reader, writer = os.pipe()
        try:
            child = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            time.sleep(0.01)
            continue
        if child == 0:
            os.dup2(writer, 200)
            try:
                os.closerange(0, 200)
                random.seed(int.from_bytes(os.urandom(8), "little"))
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
                for count in range(3000):
                    attack.raw(random.choice(numbers), *[argument() for _ in range(6)])
                    if count % 50 == 0:
                        os.write(200, b"x")
            finally:
                os._exit(0)
        os.close(writer)
        patience = time.monotonic() + 1
        while select.select([reader], [], [], max(0, patience - time.monotonic()))[0]:
            part = os.read(reader, 4096)
            if not part:
                break
            made += 50 * len(part)
        os.close(reader)
        os.kill(child, 9)
        _, status = os.waitpid(child, 0)
        end = os.waitstatus_to_exitcode(status)
        ends[end] = ends.get(end, 0) + 1
    attack.say("made", made)
    attack.say("ends", ends)


def outside(trial):
    before = kernel_alarms()
    cell = trial.run(f"inside({60 if trial.long else 2})")
    trial.check(cell["outcome"] in ENDS, f"the attack ended in {cell['outcome']}: {cell['error']}")
    trial.check(trial.found.get("made", 1000) > 500, f"too few calls were made: {trial.found}")
    trial.equal(kernel_alarms() - before, set(), "what the kernel complained of")


def kernel_alarms():
    import subprocess

    ran = subprocess.run(["dmesg"], capture_output=True, text=True)
    # What a program did to itself is logged too, and is no complaint of the kernel's about the kernel.
    words = ("Oops", "BUG:", "WARNING:", "general protection fault, probably", "KASAN", "Kernel panic")
    lines = [line for line in ran.stdout.splitlines() if " traps: " not in line]
    return {line for line in lines if any(word in line for word in words)}
