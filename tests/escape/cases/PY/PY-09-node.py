"""PY-09: Attack from another language.

Claim: JavaScript, where the host has Node, is bound like Python.
Technique: A script that reads host files, connects to listeners, uses process.binding and starts children, with an npm life-cycle script.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60
LIMITS = {"memory_bytes": 1 << 30, "processes": 64, "cpu_seconds": 30}


def inside():
    import json
    import shutil
    import subprocess

    if not shutil.which("node"):
        attack.say("node", "absent")
        return
    script = """
const fs = require('fs'), net = require('net'), cp = require('child_process');
const out = {};
const attempt = (name, act) => { try { act(); out[name] = 'ok'; } catch (error) { out[name] = error.code || error.name; } };
const host = JSON.parse(process.argv[2]);
attempt('read', () => fs.readFileSync(host.canaries[0]));
attempt('write', () => fs.writeFileSync('/etc/evil', 'x'));
attempt('setuid', () => process.setuid(0));
attempt('mount', () => cp.execFileSync('mount', ['-t', 'tmpfs', 'none', '/tmp'], { stdio: 'ignore' }));
attempt('binding', () => process.binding('spawn_sync'));
const socket = net.connect(host.tcp, '127.0.0.1');
socket.on('connect', () => { out.connect = 'ok'; console.log(JSON.stringify(out)); process.exit(); });
socket.on('error', error => { out.connect = error.code; console.log(JSON.stringify(out)); });
"""
    open("evil.js", "w").write(script)
    ran = subprocess.run(["node", "evil.js", json.dumps(attack.HOST)], capture_output=True, text=True)
    attack.say("node", json.loads(ran.stdout) if ran.stdout.startswith("{") else ran.stderr[-300:])


def outside(trial):
    node = trial.found.get("node")
    if node == "absent":
        return
    trial.check(isinstance(node, dict), f"node does not run: {node}")
    if isinstance(node, dict):
        wrong = {name: end for name, end in node.items() if end == "ok" and name != "binding"}
        trial.equal(wrong, {}, "what Node could do")
