# Imports the modules named after argv[1], which is a site-packages folder, and prints a JSON line
# for each: how long it took, how much the process has grown by then, and how many threads it has.
import importlib
import json
import sys
import time

site, *modules = sys.argv[1:]
sys.path.append(site)


def status(field):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


for module in modules:
    print(json.dumps({"module": module}), flush=True)
    begin = time.perf_counter()
    importlib.import_module(module)
    took = time.perf_counter() - begin
    facts = {"seconds": took, "resident_kib": status("VmRSS"), "threads": status("Threads")}
    print(json.dumps(facts), flush=True)
