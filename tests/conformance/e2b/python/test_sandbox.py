"""Sandboxes: made, found, listed, kept, ended; and what is refused."""

from __future__ import annotations

import datetime
import uuid

import pytest
from conftest import IS_OLD
from e2b import SandboxQuery, SandboxState
from e2b.exceptions import AuthenticationException, NotFoundException, SandboxException

DAY = datetime.timedelta(days=1)


def test_info_says_what_was_asked_for_and_what_is_true(api):
    with api.create(timeout=120, metadata={"a b": "c&d"}, envs={"K": "V"}) as one:
        info = one.get_info()
        assert info.sandbox_id == one.sandbox_id
        assert one.sandbox_id.isalnum() and one.sandbox_id.islower() and len(one.sandbox_id) >= 20
        assert info.metadata == {"a b": "c&d"}
        assert info.name == "code-interpreter-v1"
        assert info.state == SandboxState.RUNNING
        assert abs((info.end_at - info.started_at).total_seconds() - 120) < 5
        assert info.cpu_count >= 1 and info.memory_mb >= 64
        if not IS_OLD:
            assert info.allow_internet_access is False
        assert one.is_running()
        assert one.run_code("import os; os.environ['K'], os.getcwd()").text == "('V', '/home/user')"
    assert not one.is_running()


def test_default_life_is_five_minutes(api):
    with api.create() as one:
        info = one.get_info()
        assert abs((info.end_at - info.started_at).total_seconds() - 300) < 5


def test_timeouts_are_set_longer_and_shorter(sandbox):
    before = sandbox.get_info()
    for seconds in (600, 60):
        sandbox.set_timeout(seconds)
        end = sandbox.get_info().end_at
        left = (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        assert seconds - 30 < left <= seconds
    assert before.started_at == sandbox.get_info().started_at


def test_connecting_extends_and_finds_the_same(api, sandbox):
    sandbox.run_code("x = 41")
    end = sandbox.get_info().end_at
    same = api.connect(sandbox.sandbox_id, timeout=30)
    assert same.run_code("x + 1").text == "42"
    assert same.commands.run("echo inside").stdout == "inside\n"
    assert sandbox.get_info().end_at == end
    api.connect(sandbox.sandbox_id, timeout=900)
    assert sandbox.get_info().end_at > end


def test_a_sandbox_ends_with_its_time(api, eventually):
    one = api.create(timeout=2)
    assert eventually(lambda: not one.is_running())
    assert one.kill() is False


def test_killing_twice(api, sandbox):
    assert sandbox.kill() is True
    assert sandbox.kill() is False
    assert api.kill(sandbox.sandbox_id) is False
    with pytest.raises(NotFoundException):
        sandbox.get_info()
    with pytest.raises(NotFoundException):
        sandbox.set_timeout(60)
    with pytest.raises(NotFoundException):
        api.connect(sandbox.sandbox_id)


def test_others_sandboxes_do_not_exist(api):
    for unknown in ("i" + "0" * 20, "sbx" + "0" * 20, "nonsense"):
        with pytest.raises(NotFoundException):
            api.connect(unknown)


def test_list_goes_page_by_page(api):
    mark = uuid.uuid4().hex
    made = [api.create(timeout=120, metadata={"mark": mark, "n": f"{n} ä&=+"}) for n in range(3)]
    try:
        pages = api.list(query=SandboxQuery(metadata={"mark": mark}), limit=2)
        first = pages.next_items()
        assert pages.has_next and len(first) == 2
        second = pages.next_items()
        assert not pages.has_next and len(second) == 1
        assert {one.sandbox_id for one in first + second} == {one.sandbox_id for one in made}
        one = api.list(query=SandboxQuery(metadata={"mark": mark, "n": "1 ä&=+"})).next_items()
        assert [found.sandbox_id for found in one] == [made[1].sandbox_id]
        assert api.list(query=SandboxQuery(metadata={"mark": "nobody's"})).next_items() == []
        paused = SandboxQuery(metadata={"mark": mark}, state=[SandboxState.PAUSED])
        assert api.list(query=paused).next_items() == []
    finally:
        for one in made:
            one.kill()
    assert api.list(query=SandboxQuery(metadata={"mark": mark})).next_items() == []


def test_metrics_are_measured(sandbox):
    sandbox.run_code("kept = bytearray(20_000_000)")
    sandbox.files.write("big", "x" * 100_000)
    last = sandbox.get_metrics()[-1]
    assert last.cpu_count >= 1 and last.cpu_used_pct >= 0
    assert 0 < last.mem_used <= last.mem_total
    assert 100_000 <= last.disk_used <= last.disk_total
    now = datetime.datetime.now(datetime.timezone.utc)
    assert sandbox.get_metrics(start=now + DAY, end=now + 2 * DAY) == []
    assert sandbox.get_metrics(start=now - DAY, end=now + DAY)


@pytest.mark.newest
def test_what_cannot_be_done_yet_says_so(api, sandbox):
    for act in (sandbox.pause, sandbox.create_snapshot, sandbox.fork):
        with pytest.raises(SandboxException, match="not supported"):
            act()
    assert sandbox.is_running()
    assert sandbox.list_snapshots().next_items() == []
    assert api.delete_snapshot("me/none:default") is False


def test_no_network_and_no_pretending(api, sandbox):
    code = "import socket; s = socket.socket(); s.settimeout(2); s.connect(('192.0.2.1', 80))"
    assert sandbox.run_code(code).error.name == "OSError"
    with api.create(timeout=60, allow_internet_access=True) as one:
        assert one.run_code(code).error.name == "OSError"
    with api.create(timeout=60, allow_internet_access=False) as one:
        assert one.is_running()


@pytest.mark.newest
def test_network_rules_are_kept_or_refused(api, sandbox):
    with api.create(timeout=60, network={"deny_out": ["0.0.0.0/0"]}) as one:
        assert one.is_running()
    with pytest.raises(SandboxException, match="network"):
        api.create(timeout=60, network={"allow_out": ["1.1.1.1"]})
    sandbox.update_network({"deny_out": ["10.0.0.0/8"]})
    with pytest.raises(SandboxException, match="network"):
        sandbox.update_network({"allow_out": ["1.1.1.1"]})


@pytest.mark.newest
def test_a_sandbox_that_would_pause_is_refused(api):
    with pytest.raises(SandboxException, match="not supported"):
        api.create(timeout=60, lifecycle={"on_timeout": "pause"})


def test_templates_and_keys(api):
    for name in ("base", "code-interpreter-v1", "code-interpreter"):
        with api.create(template=name, timeout=60) as one:
            assert one.run_code("1 + 1").text == "2"
    with pytest.raises(SandboxException, match="nowhere"):
        api.create(template="nowhere", timeout=60)
    with pytest.raises(AuthenticationException):
        api.create(api_key="e2b_" + "0" * 40)
    with pytest.raises(SandboxException, match="400"):
        api.create(timeout=10**9)
