"""A server in a sandbox that echoes what it is asked, streams, and speaks WebSocket."""

import base64
import hashlib
import http.server
import json
import os
import threading
import time

connections = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            whole = b""
            while size := int(self.rfile.readline(), 16):
                whole += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return whole
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self):
        connections.add(self.client_address)
        # As it came: the library removes slashes at the beginning.
        self.path = self.requestline.split(" ")[1]
        path = self.path.split("?")[0]
        body = self.body()
        if path == "/events":
            return self.events()
        if path == "/socket":
            return self.socket()
        if path == "/large":
            content = b"x" * (8 << 20)
            return self.send(200, content, [("Content-Type", "application/octet-stream")])
        if path == "/missing":
            return self.send(404, b"not here", [("Content-Type", "text/plain")])
        if path == "/login":
            return self.send(302, b"", [("Location", "/welcome"), ("Set-Cookie", "a=1; Domain=test; Path=/")])
        if path == "/connections":
            return self.send(200, str(len(connections)).encode(), [])
        asked = {"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode("latin-1"), "size": len(body)}
        self.send(200, json.dumps(asked).encode(), [("Content-Type", "application/json"), ("X-Own", "yes")])

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = answer

    def send(self, status, content, headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = 0
        while True:
            text = f"event: tick\ndata: {number}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            self.wfile.flush()
            number += 1
            # The next event comes when the test has asked for it.
            while not os.path.exists(f"/tmp/event-{number}"):
                time.sleep(0.005)

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        head = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        self.wfile.write(head.encode())
        self.close_connection = True
        # Frames of a client are masked; those of a server are not.
        while len(start := self.rfile.read(2)) == 2:
            length = start[1] & 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            if start[0] & 15 == 8:
                return
            size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
            self.wfile.write(start[:1] + size + data)
            self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server(("127.0.0.1", 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("up")
