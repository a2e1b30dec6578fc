"""The two sides: a sandbox of a real server, and an ordinary user without a network, with the same interpreter."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from foreign.results import Results
from foreign.suites import CPYTHON, DOORS, MARKS, TEST_SECONDS_MAX, WITH_TESTS, Part, stdlib
from harness.server import Ground, Server, as_user, ordinary_user
from harness.tokens import Tokens

PART_SECONDS_MAX = 1800
SAID_CHARACTERS_MAX = 3000
"""How much of what a run said is shown if it left no results."""

PYTEST = ("pytest", "hypothesis", "pytest-timeout")

LIMITS = {
    "memory_bytes": 6 << 30,
    "disk_bytes": 2 << 30,
    "file_bytes": 8 << 30,
    "processes": 1024,
    "open_files": 4096,
    "cpus": 2,
    "cpu_seconds": PART_SECONDS_MAX,
    "wall_seconds": PART_SECONDS_MAX,
}


@dataclass(frozen=True)
class Place:
    """Where things lie on one side."""

    root: Path
    libraries: Path
    home: Path
    scratch: Path
    manifest: dict

    @property
    def out(self) -> Path:
        return self.scratch / "results.xml"

    def find(self, path: str) -> str:
        """A path of the template; what it does not hold is the host's, which both sides see."""
        here = self.root / path.lstrip("/")
        return str(here if here.exists() or self.root == Path("/") else path)

    def command(self, part: Part) -> list[str]:
        """What is run, with the same few variables on both sides."""
        sites = [self.find(site) for site in self.manifest["site"]]
        variables = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.home,
            "TMPDIR": self.scratch,
            "LANG": "C.UTF-8",
            "PYTHONPATH": ":".join([str(self.libraries), *(sites if part.suite != CPYTHON else [])]),
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        # A shell that runs this in the background ignores SIGINT, and child processes inherit that.
        return ["env", "-i", "--default-signal", *words, self.find(self.manifest["base_interpreter"]), *self.arguments(part, sites)]

    def arguments(self, part: Part, sites: list[str]) -> list[str]:
        if part.suite == CPYTHON:
            seconds = str(TEST_SECONDS_MAX)
            return ["-m", "test", "-j2", "--timeout", seconds, "--junit-xml", str(self.out), *part.tests]
        site = next(Path(site) for site in sites)
        options = ["-q", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS_MAX), "-m", MARKS]
        files = [str(site / part.suite / name) for name in part.tests]
        return ["-m", "pytest", *options, "--rootdir", str(site), "--junitxml", str(self.out), *files]


class Inside:
    """A server, and for each part a new sandbox."""

    def __init__(self, ground: Ground, libraries: Path) -> None:
        self.ground = ground
        settings = {
            "inputs": f"lib={libraries}",
            "cells.timeout_seconds_max": PART_SECONDS_MAX,
            "limits.max.wall_seconds": PART_SECONDS_MAX,
        }
        self.server = Server(ground, None, Tokens(), settings=settings, pool="python=0,code-interpreter=0")
        self.api = self.server.holder("regrtest")

    def run(self, part: Part) -> Results:
        shared = [{"name": "lib", "shared": "lib"}]
        life = {"ttl_seconds": 2 * PART_SECONDS_MAX, "idle_seconds": 2 * PART_SECONDS_MAX}
        box = self.api.create(template=part.template, limits=LIMITS, inputs=shared, **life)["id"]
        try:
            # Nothing can be executed or mapped from an input, and some of the tests bring native code.
            copied = self.api.command(box, "cp -r /data/input/lib /workspace/lib", timeout_seconds=PART_SECONDS_MAX)
            if copied["exit_code"] != 0:
                raise SystemExit(f"the libraries were not copied: {copied['stderr'][-SAID_CHARACTERS_MAX:]}")
            manifest = read_manifest(self.ground, part)[1]
            place = Place(Path("/"), Path("/workspace/lib"), Path("/home/user"), Path("/tmp"), manifest)
            body = {"arguments": place.command(part), "timeout_seconds": PART_SECONDS_MAX}
            ran = self.api.want(200, "POST", f"/v1/sandboxes/{box}/commands", body, patience=2 * PART_SECONDS_MAX)
            answer = self.api.get(box, str(place.out))
            if answer.status != 200:
                raise SystemExit(nothing_left("inside", part, ran["outcome"], ran["stdout"], ran["stderr"]))
            return Results.read(answer.body)
        finally:
            self.api.delete(box)

    def close(self) -> None:
        self.server.close()


class Outside:
    """A process with an unused user id, in a network namespace of its own."""

    def __init__(self, ground: Ground, libraries: Path) -> None:
        self.ground, self.libraries, self.uid = ground, libraries, ordinary_user()

    def run(self, part: Part) -> Results:
        folder = Path(tempfile.mkdtemp(prefix="regrtest-"))
        try:
            root, manifest = read_manifest(self.ground, part)
            place = Place(root, folder / "lib", folder / "home", folder / "tmp", manifest)
            shutil.copytree(self.libraries, place.libraries)
            for path in (place.home, place.scratch):
                path.mkdir()
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", str(folder)], check=True)
            command = [*self.as_known_user(place.home), *place.command(part)]
            ran = subprocess.run(
                command, cwd=place.home, capture_output=True, text=True, errors="replace", timeout=PART_SECONDS_MAX,
                stdin=subprocess.DEVNULL
            )  # fmt: skip
            if not place.out.exists():
                raise SystemExit(nothing_left("outside", part, str(ran.returncode), ran.stdout, ran.stderr))
            return Results.read(place.out.read_bytes())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def as_known_user(self, home: Path) -> list[str]:
        """A loopback, and a name for the user, as there is one inside: many tests ask for it."""
        lines = {"passwd": f"user:x:{self.uid}:{self.uid}::{home}:/bin/bash", "group": f"user:x:{self.uid}:"}
        for name, line in lines.items():
            (home.parent / name).write_text(f"{Path('/etc', name).read_text().rstrip()}\n{line}\n")
        binds = " && ".join(f'mount --bind "{home.parent / name}" /etc/{name}' for name in lines)
        script = f'ip link set lo up && {binds} && exec "$@"'
        # Some tests leave processes behind; these end with the namespace.
        apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return [*apart, "sh", "-c", script, "sh", *as_user(self.uid)]

    def close(self) -> None:
        pass


def nothing_left(side: str, part: Part, end: str, stdout: str, stderr: str) -> str:
    said = f"{stdout[-SAID_CHARACTERS_MAX:]}\n{stderr[-SAID_CHARACTERS_MAX:]}"
    return f"{part.name} left no results {side}, and ended in {end}:\n{said}"


def read_manifest(ground: Ground, part: Part) -> tuple[Path, dict]:
    """The root of the part's template on this host, and what the template says of itself."""
    current = [home / "templates" / part.template / "current" for home in ground.homes]
    built = next((path.resolve() for path in current if path.exists()), None)
    if not built:
        sys.exit(f"the template {part.template} is in none of {', '.join(map(str, ground.homes))}")
    return built / "root", json.loads((built / "manifest.json").read_text())


def version(ground: Ground, part: Part) -> str:
    """Whose tests these are, and of which version."""
    manifest = read_manifest(ground, part)[1]
    if part.suite == CPYTHON:
        return f"CPython {manifest['python_version']}"
    return next(one.replace("==", " ") for one in manifest["packages"] if one.startswith(f"{part.suite}=="))


def libraries(suites: set[str]) -> Path:
    """A folder with everything that the tests need and templates do not have."""
    folder = Path(tempfile.mkdtemp(prefix="regrtest-lib-"))
    if CPYTHON in suites:
        bytecode = shutil.ignore_patterns("__pycache__")
        for name in ("test", *WITH_TESTS):
            shutil.copytree(stdlib() / name, folder / name, ignore=bytecode)
        tell_tests_apart(folder / "test" / "libregrtest")
        for name, text in DOORS.items():
            if not (folder / "test" / name).exists():
                (folder / "test" / name).mkdir()
                (folder / "test" / name / "__init__.py").touch()
                (folder / "test" / name / "test_processes.py").write_text(text)
    if suites - {CPYTHON}:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(folder)]
        subprocess.run([*pip, *PYTEST], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    return folder


def tell_tests_apart(libregrtest: Path) -> None:
    """Has regrtest leave alone what tests print: with --junit-xml it captures that, and a test that fails while it has
    streams of its own in place then takes the results of its whole module with it."""
    path = libregrtest / "single.py"
    if path.exists():
        captured = "capture_output=(support.junit_xml_list is not None)"
        path.write_text(path.read_text().replace(captured, "capture_output=False"))
