"""Writes the configuration with which crun runs the image: what docs/guides/running-without-root.md asks of a container."""

import json
import os
import sys

directory, program = sys.argv[1:]
CAPABILITIES = [
    f"CAP_{name}"
    for name in "SYS_ADMIN SETUID SETGID SETFCAP SETPCAP CHOWN FOWNER DAC_OVERRIDE KILL NET_ADMIN".split()
]
environment = [f"{name}={value}" for name, value in os.environ.items() if name.startswith("PIP_")]


def bind(path: str, *options: str) -> dict:
    return {"destination": path, "source": path, "type": "bind", "options": ["rbind", *options]}


mounts = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "mode=1777"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    bind("/sys", "ro"),
    *(bind(path, "ro") for path in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt")),
]
links = os.environ.get("PIP_FIND_LINKS", "")
if os.path.isdir(links):
    mounts.append(bind(links, "ro"))
json.dump(
    {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": False},
        "process": {
            "args": ["/usr/bin/silica", "run", "-c", program],
            "cwd": "/",
            "env": ["PATH=/usr/bin:/bin", "SILICA_HOME=/var/lib/silica", "HOME=/root", *environment],
            "user": {"uid": 0, "gid": 0},
            "noNewPrivileges": True,
            "capabilities": {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")},
        },
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    },
    open(os.path.join(directory, "config.json"), "w"),
)
