"""SE-14: Use a secret in frames.

Claim: HTTP/2 is judged as HTTP/1.1 is, and what goes through a WebSocket is not touched: no value is put into frames.
Technique: The placeholder in header frames, divided over continuations, in the path and in data frames; in the head and the frames of a WebSocket that a rule allows.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os
    import socket

    key = os.environ["API_KEY"]
    own = "api.far.test:28443"
    connect = lambda protocol: attack.secure(socket.create_connection(("api.far.test", 28443), 10), "api.far.test", (protocol,))
    stream = connect("h2")
    stream.settimeout(3)
    whole = attack.h2_field(":path", "/divided") + attack.h2_field(":authority", own) + attack.h2_field("x-key", key)
    middle = len(whole) - 20
    frames = attack.h2_request(1, own, "/head", ("x-key", key)) + attack.h2_request(3, own, f"/bad{key}") + attack.h2_frame(1, 1, 5, b"\x82\x87" + whole[:middle]) + attack.h2_frame(9, 4, 5, whole[middle:])
    post = b"\x83\x87" + attack.h2_field(":path", "/bad") + attack.h2_field(":authority", own) + attack.h2_field("content-type", "text/plain")
    frames += attack.h2_frame(1, 4, 7, post) + attack.h2_frame(0, 0, 7, key[:9].encode()) + attack.h2_frame(0, 1, 7, key[9:].encode())
    attack.say("h2", len(attack.exchange(stream, attack.H2_START + frames)))
    stream = connect("http/1.1")
    stream.sendall(attack.request("GET", "/websocket", own, f"Authorization: Bearer {key}", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13").replace(b"close", b"Upgrade"))
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := stream.recv(1)):
        head += byte
    frame = b"\x81" + bytes([len(key)]) + key.encode()
    stream.sendall(frame)
    attack.say("websocket", [attack.status_of(head.decode()), stream.recv(len(frame)) == frame])


def outside(trial):
    value = trial.secret("frames", env="API_KEY")
    rule = {"host": "api.far.test", "ports": [28443], "protocol": "tls", "websocket": True, "secrets": ["frames"]}
    trial.sandbox(network={"allow": [rule]})
    trial.run()
    trial.equal(trial.found["websocket"], ["101", True], "the WebSocket")
    paths = trial.far.paths()
    trial.check(not [path for path in paths if path.startswith("/bad")], f"what arrived: {paths}")
    with_value = {one["path"]: [name for name, field in one["headers"] if value in field] for one in trial.far.seen}
    trial.equal(with_value, {"/head": ["x-key"], "/divided": ["x-key"], "/websocket": ["authorization"]}, "headers with the value")
    trial.check(not [one for one in trial.far.seen if value in one["body"]], "the value is in a frame")
