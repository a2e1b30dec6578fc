"""NT-43: Take the ports of the sandbox's network.

Claim: The resolver, the proxy and the listeners of names cannot be replaced or joined by a program in the sandbox.
Technique: Binds to their addresses and ports with every option for sharing, over TCP and UDP, before and after a look-up; a server of its own beside them works.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:25432/tcp", "api.far.test:28443/tls"]}}


def inside():
    import socket

    known = socket.gethostbyname("api.far.test")
    results = {}
    for address, port in (("127.0.0.1", 53), ("127.0.0.1", 3128), (known, 25432), (known, 28443), ("127.0.0.1", 80), ("0.0.0.0", 443), ("0.0.0.0", 53)):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            if kind == socket.SOCK_DGRAM and port != 53:
                continue
            one = socket.socket(socket.AF_INET, kind)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

            def take():
                one.bind((address, port))
                if kind == socket.SOCK_STREAM:
                    one.listen()

            results[f"{address} {port} {kind}"] = attack.result_of(take)
            one.close()
    attack.say("binds", results)
    with socket.create_server(("127.0.0.1", 25432)) as own:
        attack.say("own server", attack.result_of(lambda: socket.create_connection(own.getsockname(), 5)))
    attack.say("control", attack.reach("api.far.test", 25432, b"x", 2)[:1])


def outside(trial):
    binds = {name.replace(name.split()[0], "name") if name.startswith("198.") else name: end for name, end in trial.found["binds"].items()}
    trial.check(len(binds) >= 8, f"{binds}")
    trial.equal({name for name, end in binds.items() if end not in ("EADDRINUSE", "EACCES")}, set(), "ports that were taken")
    trial.equal((trial.found["own server"], trial.found["control"]), ("ok", "x"), "honest use")
