"""What an interpreter finds out about itself before it is copied, and how it takes up descriptors again."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading

import pytest
from silica_guest import carry

LENIENT = {"threads": "leave", "shared": "leave", "processes": "leave"}


class NoLoop:
    """A shell whose event loop was never used."""

    event_loop = None


def survey_of(look: str, head: dict | None = None, *arguments: object) -> carry.Survey:
    survey = carry.Survey(head or {})
    getattr(survey, look)(*arguments)
    return survey


def test_threads_are_refused_or_left() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="worker")
    thread.start()
    try:
        assert ("thread", "worker") in survey_of("_threads").refused
        lenient = survey_of("_threads", LENIENT)
        assert lenient.refused == [] and ("thread", "worker") in lenient.left
    finally:
        stop.set()
        thread.join()


def test_a_process_has_the_name_of_its_program_until_it_ends() -> None:
    process = subprocess.Popen(["sleep", "100"])
    try:
        assert carry.running(str(process.pid)) == "sleep"
    finally:
        process.kill()
        process.wait()
    assert carry.running(str(process.pid)) is None


def test_the_reader_of_the_host_is_no_obstacle(tmp_path) -> None:
    package = tmp_path / "silica_guest"
    package.mkdir()
    (package / "reader.py").write_text("import time; print('up', flush=True); time.sleep(100)")
    process = subprocess.Popen([sys.executable, str(package / "reader.py")], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        assert carry.running(str(process.pid)) is None
    finally:
        process.kill()
        process.communicate()


def test_descriptors_are_told_apart(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("abcdef")
    gone = tmp_path / "gone"
    with open(path) as kept, open(gone, "w") as deleted, socket.socket() as sock:
        kept.read(3)
        os.lseek(kept.fileno(), 3, os.SEEK_SET)
        gone.unlink()
        reading, writing = os.pipe()
        survey = survey_of("_descriptors", None, set())
        os.close(reading)
        os.close(writing)
        found = {fd: (name, offset) for fd, name, _, offset in survey.files}
        assert found[kept.fileno()] == (str(path), 3)
        assert {deleted.fileno(), sock.fileno(), reading, writing} <= set(survey.lost)
        kinds = {name.rpartition("descriptor ")[2].rstrip(")"): kind for kind, name in survey.left}
        assert kinds[str(deleted.fileno())] == "file"
        assert kinds[str(sock.fileno())] == "socket"
        assert kinds[str(reading)] == kinds[str(writing)] == "pipe"


def test_files_are_opened_again_and_lost_numbers_are_errors(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("abcdef")
    survey = carry.Survey({})
    survey.files = [(50, str(path), os.O_RDONLY | os.O_CLOEXEC, 4), (51, str(tmp_path / "none"), os.O_RDONLY, 0)]
    survey.lost = [52]
    try:
        left = carry.restore_descriptors(survey, {53})
        assert os.read(50, 10) == b"ef" and not os.get_inheritable(50)
        assert [kind for kind, _ in left] == ["file"] and "descriptor 51" in left[0][1]
        for number in (51, 52, 53):
            assert stat.S_ISSOCK(os.fstat(number).st_mode)
            with pytest.raises(OSError):
                os.read(number, 1)
    finally:
        os.closerange(50, 54)


@pytest.mark.parametrize(("length", "count"), [(10, 3), (10_000, 1000)])
def test_names_are_bounded(length: int, count: int) -> None:
    found = carry.bounded([("file", "x" * length)] * count)
    assert len(found) == min(count, carry.NAMES_MAX)
    assert all(len(name) == min(length, carry.NAME_CHARS_MAX) for _, name in found)


def test_a_loop_that_was_never_used_has_no_descriptors() -> None:
    assert carry.own_descriptors(NoLoop()) == set()
    carry.forget_event_loop(NoLoop())
