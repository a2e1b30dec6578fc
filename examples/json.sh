#!/bin/sh
# One JSON object for programs: how the code ended, what it printed, its results and what was enforced.
silica run --json -c '
print("to standard output")
{"answer": 6 * 7}' | python3 -c '
import json, sys
report = json.load(sys.stdin)
print("outcome:", report["outcome"])
print("printed:", report["stdout"].strip())
print("result: ", report["results"][0]["data"]["text/plain"])
print("network:", report["containment"]["measures"]["network"]["detail"])'
