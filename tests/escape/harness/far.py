"""The far side of the network: servers on loopback that allowed names lead to, hostile ones, and hostile DNS.

It keeps every request that arrives, so that a case can show what did not. Certificates are made by openssl when it starts.
The ports are fixed and the address is of this run alone, so that rules are constants of the cases.
"""

import base64
import contextlib
import gzip
import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

TLS = 28443
PLAIN = 28080
RAW = 25432
SELF_SIGNED = 28444
WRONG_NAME = 28445
EXPIRED = 28446

API = "api.far.test"
"""The host that cases allow."""
OTHER = "other.far.test"
"""Another host that some cases allow."""
EVIL = "evil.far.test"
"""A host that no case allows. It leads to the same servers, so that a mistake shows."""

# Where names lead that a hostile owner has pointed at what he wants to reach.
HOSTILE_NAMES = {
    "ten.far.test": "10.1.2.3",
    "lan.far.test": "192.168.1.1",
    "docker.far.test": "172.17.0.1",
    "cgnat.far.test": "100.100.100.200",
    "meta.far.test": "169.254.169.254",
    "azure.far.test": "168.63.129.16",
    "oracle.far.test": "192.0.0.192",
    "range.far.test": "198.18.0.1",
    "zero.far.test": "0.0.0.0",
    "loop.far.test": "127.0.0.1",
    "six.far.test": "::1",
    "any.far.test": "::",
    "mapped.far.test": "::ffff:10.0.0.1",
    "mapped-loop.far.test": "::ffff:127.0.0.1",
    "nat64.far.test": "64:ff9b::a00:1",
    "six-to-four.far.test": "2002:7f00:1::1",
    "link.far.test": "fe80::1",
    "unique.far.test": "fd00:ec2::254",
    "multi.far.test": "224.0.0.251",
    "broad.far.test": "255.255.255.255",
}

ECHO_BYTES_MAX = 1 << 20
ENDLESS_SECONDS_MAX = 60


class Far:
    """All servers of the far side."""

    made = 0
    """How many this process has made."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="silica-far-"))
        os.chmod(self.directory, 0o755)
        Far.made += 1
        # Another one for each: sockets of an earlier far side may still be there.
        number = (os.getpid() * 7 + Far.made) % 60000 + 1
        self.address = f"127.77.{number >> 8}.{number & 255}"
        self.seen: list[dict] = []
        self.connections: list[int] = []
        """The port of every connection that was accepted, also of those without a request."""
        self._servers = []
        names = [API, OTHER, EVIL, f"sub.{API}", "wild.far.test", "*.wild.far.test"]
        make_authority(self.directory)
        make_leaf(self.directory, "leaf", names)
        make_leaf(self.directory, "wrong", ["wrong.far.test"])
        make_leaf(self.directory, "expired", names, days=-1)
        make_self_signed(self.directory, "self", API)
        self._serve(PLAIN, None)
        for port, leaf in ((TLS, "leaf"), (SELF_SIGNED, "self"), (WRONG_NAME, "wrong"), (EXPIRED, "expired")):
            self._serve(port, leaf)
        self._raw = RawServer(self, RAW)
        self.dns = HostileDns.start(self.address)
        self.config = self.directory / "silica.toml"
        self.config.write_text(self.settings(f"{self.address}/32"))

    def settings(self, private_allowed: str, mode: str = "list", hosts: bool = True, more: str = "") -> str:
        """The configuration of a server whose sandboxes may reach this far side."""
        own = {name: self.address for name in (API, OTHER, EVIL, f"sub.{API}", "wild.far.test", "a.wild.far.test")}
        table = {**own, **HOSTILE_NAMES} if hosts else {}
        lines = [f'"{name}" = "{address}"' for name, address in table.items()]
        return "\n".join(
            [
                "[network]",
                f'mode_max = "{mode}"',
                f'private_allowed = ["{private_allowed}"]',
                f'extra_roots = "{self.directory / "authority.pem"}"',
                more,
                "[network.hosts]",
                *lines,
                "",
            ]
        )

    def write_config(self, name: str, text: str) -> tuple[str, ...]:
        """Writes a configuration and returns the arguments that name it."""
        path = self.directory / name
        path.write_text(text)
        return ("--config", str(path))

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("--config", str(self.config))

    @property
    def told(self) -> dict:
        """What the attacker receives of it: names and ports."""
        return {"hostile": HOSTILE_NAMES}

    def paths(self) -> list[str]:
        """The paths of all requests that arrived."""
        return [one["path"] for one in list(self.seen)]

    def text(self) -> str:
        """Everything that arrived, to be searched."""
        return json.dumps(list(self.seen))

    def clear(self) -> None:
        self.seen.clear()
        self.connections.clear()
        if self.dns:
            self.dns.asked.clear()

    def _serve(self, port: int, leaf: str | None) -> None:
        far = self

        class Bound(Handler):
            pass

        Bound.far, Bound.port, Bound.is_tls = far, port, leaf is not None
        server = Listener((self.address, port), Bound)
        server.far, server.context = far, None
        if leaf:
            server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.context.load_cert_chain(self.directory / f"{leaf}.pem", self.directory / f"{leaf}.key")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self._servers.append(server)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._raw.close()
        if self.dns:
            self.dns.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class Listener(http.server.ThreadingHTTPServer):
    """Counts connections, and makes the handshake in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 512

    def finish_request(self, request, client_address) -> None:
        self.far.connections.append(self.server_address[1])
        if self.context:
            request.settimeout(10)
            try:
                request = self.context.wrap_socket(request, server_side=True)
            except OSError:
                return  # A peer that does not trust the certificate, or no TLS at all.
        request.settimeout(30)
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address) -> None:
        pass  # Peers leave in every possible way; what arrived was kept.


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what it was sent, or by its path in a hostile way."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words) -> None:
        pass

    def handle_any(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(min(length, ECHO_BYTES_MAX)) if length else b""
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            body = self._chunks()
        headers = [[name.lower(), value] for name, value in self.headers.items()]
        request = {"port": self.port, "tls": self.is_tls, "method": self.command, "path": self.path, "headers": headers}
        request["body"] = body.decode("latin-1")
        self.far.seen.append(request)
        name = urllib.parse.urlsplit(self.path).path.strip("/").replace("-", "_").split("/")[0]
        answer = getattr(self, f"answer_{name}", self.answer_echo)
        answer(request)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_TRACE = do_OPTIONS = do_CONNECT = handle_any

    def _chunks(self) -> bytes:
        body = b""
        while len(body) < ECHO_BYTES_MAX:
            size = int(self.rfile.readline().split(b";")[0] or b"0", 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                break
        return body

    def _send(self, body: bytes, status: int = 200, headers: tuple = ()) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _key(self) -> str:
        """The secret as it arrived, without the scheme before it."""
        return (self.headers.get("authorization") or self.headers.get("x-key") or "").removeprefix("Bearer ")

    def answer_echo(self, request: dict) -> None:
        self._send(json.dumps(request).encode())

    def answer_redirect(self, request: dict) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self._send(b"", int(query.get("status", ["302"])[0]), (("Location", query["to"][0]),))

    def answer_leak(self, request: dict) -> None:
        """The secret in every form in which a server may say it again."""
        key = self._key()
        forms = [key, urllib.parse.quote(key, safe=""), base64.b64encode(key.encode()).decode(), json.dumps(key)]
        forms += [base64.b64encode(f"{'u' * count}:{key}".encode()).decode() for count in range(1, 4)]
        self._send("\n".join(forms).encode(), 401, (("X-Echo", key), ("Set-Cookie", f"k={key}"), ("Location", f"/?k={key}")))

    def answer_gzip(self, request: dict) -> None:
        self._send(gzip.compress(self._key().encode()), 200, (("Content-Encoding", "gzip"),))

    def answer_range(self, request: dict) -> None:
        """A part of the secret, if a part was asked for."""
        first, _, last = (self.headers.get("range") or "bytes=0-999").removeprefix("bytes=").partition("-")
        self._send(self._key().encode()[int(first) : int(last) + 1])

    def answer_pieces(self, request: dict) -> None:
        """The secret divided at every place, each half in a chunk and a packet of its own, and in trailers."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Trailer")
        self.end_headers()
        key = self._key().encode()
        for at in range(1, len(key)):
            for part in (b"<" + key[:at], key[at:] + b">"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
        self.wfile.write(b"0\r\nX-Trailer: " + key + b"\r\n\r\n")

    def answer_endless(self, request: dict) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        deadline = time.monotonic() + ENDLESS_SECONDS_MAX
        while time.monotonic() < deadline:
            self.wfile.write(b"tick\n")
            self.wfile.flush()
            time.sleep(0.02)

    def answer_flood(self, request: dict) -> None:
        """A large body, for a client that does not read it."""
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(4096):
            self.wfile.write(b"x" * 65536)

    def answer_token(self, request: dict) -> None:
        """An OAuth endpoint: what it gives out is derived from the secret and is another one."""
        self._send(json.dumps({"access_token": f"derived-{self._key()[:0]}0123456789", "token_type": "bearer"}).encode())

    def answer_websocket(self, request: dict) -> None:
        """Changes the protocol whether or not it was asked to, and sends back what comes."""
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        while part := self.connection.recv(4096):
            self.far.seen[-1]["body"] += part.decode("latin-1")
            self.connection.sendall(part)

    def answer_head(self, request: dict) -> None:
        """A head that does not end."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            self.wfile.write(b"X-%d: %s\r\n" % (number, b"a" * 100))

    def answer_garbage(self, request: dict) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\nX : y\r\n\r\nab")


class RawServer:
    """Sends back what it gets, and keeps it."""

    def __init__(self, far: Far, port: int) -> None:
        self.far, self.port = far, port
        self.listener = socket.create_server((far.address, port), backlog=512)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            self.far.connections.append(self.port)
            threading.Thread(target=self._echo, args=(stream,), daemon=True).start()

    def _echo(self, stream: socket.socket) -> None:
        with stream:
            stream.settimeout(60)
            try:
                while part := stream.recv(65536):
                    stream.sendall(part)
            except OSError:
                pass  # The peer has closed the connection.

    def close(self) -> None:
        # Wakes the thread that accepts, which otherwise keeps the socket in the kernel.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class HostileDns:
    """A resolver of the host's that a hostile owner of names answers through: it keeps each question."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.asked: list[str] = []
        self.answers: dict[str, list[list[str]]] = {}
        """For each name the addresses of its answers, one after the other; the last one stays."""
        threading.Thread(target=self._serve, daemon=True).start()

    @classmethod
    def start(cls, address: str) -> "HostileDns | None":
        """None without the right to listen on port 53."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            listener.bind((address, 53))
        except PermissionError:
            listener.close()
            return None
        return cls(listener)

    def _serve(self) -> None:
        while True:
            try:
                packet, peer = self.listener.recvfrom(4096)
            except OSError:
                return
            if not packet:
                return
            self.listener.sendto(self._answer(packet), peer)

    def _answer(self, packet: bytes) -> bytes:
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1 : at + 1 + packet[at]].decode("latin-1"))
            at += packet[at] + 1
        name, kind = ".".join(labels).lower(), int.from_bytes(packet[at + 1 : at + 3], "big")
        self.asked.append(name)
        queue = self.answers.get(name)
        records = b""
        count = 0
        if queue:
            family = socket.AF_INET6 if kind == 28 else socket.AF_INET
            # Both types are asked at once: the answers move on after the question for IPv4.
            addresses = queue[0]
            if kind == 1 and len(queue) > 1:
                queue.pop(0)
            for one in addresses:
                if (":" in one) == (kind == 28) and kind in (1, 28):
                    raw = socket.inet_pton(family, one)
                    records += b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1\0\0\0\0" + len(raw).to_bytes(2, "big") + raw
                    count += 1
        code = 0 if queue else 3
        head = packet[:2] + bytes([0x81, 0x80 | code]) + b"\0\1" + count.to_bytes(2, "big") + b"\0\0\0\0"
        return head + packet[12 : at + 5] + records

    def close(self) -> None:
        self.listener.close()


def openssl(directory: Path, *words: str) -> None:
    done = subprocess.run(["openssl", *words], cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr[-500:]}")


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_authority(directory: Path) -> None:
    words = ("-keyout", "authority.key", "-out", "authority.pem", "-days", "2", "-subj", "/CN=Far Authority")
    openssl(directory, "req", "-x509", *KEY, *words, "-addext", "keyUsage=critical,keyCertSign")


def make_leaf(directory: Path, name: str, hosts: list[str], days: int = 2) -> None:
    openssl(directory, "req", "-new", *KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={hosts[0]}")
    names = ",".join(f"DNS:{host}" for host in hosts)
    (directory / "ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    signing = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", str(days))
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem", "-extfile", "ext")


def make_self_signed(directory: Path, name: str, host: str) -> None:
    words = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={host}")
    openssl(directory, "req", "-x509", *KEY, *words, "-addext", f"subjectAltName=DNS:{host}")
