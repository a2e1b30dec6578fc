"""Networks, secrets and ports against a real server and a far side on this machine."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from either import Either

import silica

pytestmark = pytest.mark.live

NAME = "api.far.example"
VALUE = "sk-live-7f3a9c51d2e84b60"


class _Far(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"far {self.path}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def far() -> Iterator[int]:
    """The port of a server that stands for the outside world."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Far)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


@pytest.fixture(scope="module")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server that offers networks: its `url` and an admin `key`."""
    binary = os.environ.get("SILICA_BINARY")
    if not binary:
        pytest.skip("SILICA_BINARY names no binary")
    file: Path = tmp_path_factory.mktemp("network") / "silica.toml"
    file.write_text(
        '[network]\nmode_max = "list"\nprivate_allowed = ["127.0.0.0/8"]\nask_seconds = 1\n'
        f'[network.hosts]\n"{NAME}" = "127.0.0.1"\n'
    )
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--print", "json", "--config", str(file)]
    home = dict(os.environ, SILICA_HOME=_home(tmp_path_factory))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=home) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait()


def _home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data directory of its own, with the templates of the usual one."""
    home = tmp_path_factory.mktemp("home")
    usual = Path(os.environ.get("SILICA_HOME", Path.home() / ".local/share/silica"))
    for name in ("templates", "guest"):
        if (usual / name).is_dir():
            (home / name).symlink_to(usual / name)
    return str(home)


@pytest.fixture
def online(networked: dict[str, str], either: Either, monkeypatch: pytest.MonkeyPatch) -> Either:
    """Each client, with the environment variables of the server with networks."""
    monkeypatch.setenv("SILICA_URL", networked["url"])
    monkeypatch.setenv("SILICA_KEY", networked["key"])
    return either


def _fetch(port: int, path: str = "/") -> str:
    return f"import urllib.request\nurllib.request.urlopen('http://{NAME}:{port}{path}').read()"


def test_a_sandbox_reaches_what_it_may(online: Either, far: int) -> None:
    rule = f"{NAME}:{far}/http"
    with online.Sandbox.create(template="python", network={"allow": [rule]}) as sandbox:
        cell = sandbox.run_code(_fetch(far, "/one"))
        assert cell.text == "b'far /one'"
        assert cell.network.connections == 1
        info = sandbox.network.get()
        assert (info.mode, info.usage.connections) == ("list", 1)
        assert [allowed["host"] for allowed in info.allow] == [NAME]
        connection = sandbox.network.connections()[0]
        assert (connection.host, connection.port, connection.kind) == (NAME, far, "http")
        assert sandbox.network.check(f"http://{NAME}:{far}/")
        refused = sandbox.network.check(host="evil.example", port=443)
        assert (bool(refused), refused.code) == (False, "host_not_allowed")
        cell = sandbox.run_code("import socket; socket.getaddrinfo('evil.example', 443)")
        assert [denied.host for denied in cell.network.denied] == ["evil.example"]
        assert "refused evil.example" in repr(cell)
        sandbox.network.set({"allow": []})
        assert not sandbox.network.check(f"http://{NAME}:{far}/")
        with pytest.raises(silica.Forbidden):
            sandbox.network.set({"mode": "open"})
        with pytest.raises(silica.BadRequest):
            sandbox.network.set({"allow": ["*"]})
    ran = online.run(_fetch(far, "/run"), template="python", network={"allow": [rule]})
    assert ran.text == "b'far /run'"


def test_secrets_are_stored_and_never_returned(online: Either) -> None:
    with online.Client() as client:
        made = client.secrets.put("far", VALUE, hosts=[NAME], env="API_KEY", prefix="sk-")
        assert (made.name, made.hosts, made.places, made.offered) == (
            "far",
            [NAME],
            ["header"],
            False,
        )
        assert [secret.name for secret in client.secrets.list()] == ["far"]
        assert client.secrets.get("far").env == "API_KEY"
        with online.Sandbox.create(template="python", network={"secrets": ["far"]}) as sandbox:
            shown = sandbox.run_code("import os; os.environ['API_KEY']").text
            assert shown.startswith("'sk-silica_secret_far_")
            assert VALUE not in shown
        client.secrets.delete("far")
        with pytest.raises(silica.NotFound):
            client.secrets.get("far")
        with pytest.raises(silica.BadRequest):
            client.secrets.put("far", "short", hosts=[NAME])


def test_a_person_allows_a_host(online: Either, far: int) -> None:
    with online.Client() as admin:
        approver = online.Client(key=admin.create_key("on duty", approve=True)["key"])
    network = {"allow": [f"*.unused.far.example:{far}/http"], "ask": True}
    with online.Sandbox.create(template="python", network=network) as sandbox, approver as person:
        sandbox.run_code(_fetch(far))
        approval = person.approvals()[0]
        assert approval.kind == "network"
        assert approval.connection == {"host": NAME, "port": far}
        assert person.approve(approval.id, scope="sandbox").scope == "sandbox"
        until = time.monotonic() + 30
        while not sandbox.network.check(host=NAME, port=far):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert sandbox.network.get().approved == [{"host": NAME, "port": far}]


def test_a_key_may_have_a_ceiling(online: Either) -> None:
    with online.Client() as admin:
        made = admin.create_key("no network", network={"mode": "none"})
    assert made["network"] == {"mode": "none", "allow": []}
    with online.Client(key=made["key"]) as client, pytest.raises(silica.Forbidden):
        online.create(template="python", network={"allow": [NAME]}, client=client)


def test_ports_have_urls_and_links(online: Either, networked: dict[str, str]) -> None:
    network: dict[str, Any] = {"mode": "none", "expose": [8000]}
    with online.Sandbox.create(template="python", network=network) as sandbox:
        sandbox.files.write("index.html", "served inside")
        sandbox.commands.start(["python3", "-m", "http.server", "8000"])
        url = sandbox.ports.url(8000)
        until = time.monotonic() + 30
        while not sandbox.ports.list().ports[0].open:
            assert time.monotonic() < until
        key = {"X-API-Key": networked["key"]}
        assert httpx.get(url, headers=key).text == "served inside"
        link = sandbox.ports.link(8000, expires_seconds=60)
        assert httpx.get(link.url, follow_redirects=True).text == "served inside"
        with pytest.raises(ValueError, match="not exposed"):
            sandbox.ports.url(9000)
