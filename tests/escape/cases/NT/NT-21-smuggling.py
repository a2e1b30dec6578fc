"""NT-21: Smuggle a request behind another.

Claim: Each request is read once, judged and written anew; bytes behind it are a request of their own or an error, never both.
Technique: Both lengths, two lengths, odd transfer codings, folded fields, bare line feeds, NUL, spaces before the colon, chunk extensions and short chunks, a body on GET; over plain HTTP, by the proxy and intercepted.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": [{"host": "api.far.test", "ports": [28443], "protocol": "tls", "paths": ["/ok*"]}, {"host": "api.far.test", "ports": [28080], "protocol": "http", "paths": ["/ok*"]}]}}
TIMEOUT = 100


def inside():
    # A refusal comes at once; what waits for more has nothing to say.
    attack.NETWORK_PATIENCE = 1
    for name, port, ask in (("tls", 28443, attack.ask_tls), ("plain", 28080, attack.reach)):
        own = f"api.far.test:{port}"
        hidden = f"GET /smuggled HTTP/1.1\r\nHost: {own}\r\n\r\n"
        head = f"POST /ok HTTP/1.1\r\nHost: {own}\r\n"
        chunked = f"0\r\n\r\n{hidden}"
        requests = {
            "both": f"{head}Content-Length: {len(chunked)}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
            "both, other order": f"{head}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{len(hidden):x}\r\n{hidden}\r\n0\r\n\r\n",
            "two lengths": f"{head}Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
            "list of lengths": f"{head}Content-Length: 0, {len(hidden)}\r\n\r\n{hidden}",
            "signed length": f"{head}Content-Length: +{len(hidden)}\r\n\r\n{hidden}",
            "hexadecimal length": f"{head}Content-Length: 0x10\r\n\r\n{hidden}",
            "space before colon": f"{head}Transfer-Encoding : chunked\r\n\r\n{chunked}",
            "other coding": f"{head}Transfer-Encoding: xchunked\r\n\r\n{chunked}",
            "coding list": f"{head}Transfer-Encoding: chunked, identity\r\n\r\n{chunked}",
            "two codings": f"{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{chunked}",
            "folded": f"{head}X: a\r\n Transfer-Encoding: chunked\r\n\r\n{chunked}",
            "folded coding": f"{head}Transfer-Encoding:\r\n chunked\r\n\r\n{chunked}",
            "nul": f"{head}X: a\0b\r\n\r\n{hidden}",
            "line in a field": f"{head}X: a\rTransfer-Encoding: chunked\r\n\r\n{chunked}",
            "negative chunk": f"{head}Transfer-Encoding: chunked\r\n\r\n-1\r\n{hidden}",
            "huge chunk": f"{head}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{hidden}",
            "chunk line": f"{head}Transfer-Encoding: chunked\r\n\r\n0;x\n\r\n\r\n{hidden}",
            "target": f"GET /ok HTTP/1.1\r\nX: y HTTP/1.1\r\nHost: {own}\r\n\r\n{hidden}",
            "space in target": f"GET /ok /smuggled HTTP/1.1\r\nHost: {own}\r\n\r\n",
            "bare feeds": f"POST /ok HTTP/1.1\nHost: {own}\nContent-Length: 0\n\n{hidden}",
        }
        answers = {}
        for label, text in requests.items():
            answers[label] = [ask("api.far.test", port, text.encode("latin-1"))[9:12]]
            if name == "plain":
                answers[label].append(attack.ask_proxy(text.replace(" /", f" http://{own}/").encode("latin-1"))[9:12])
        attack.say(name, answers)
        attack.say(f"{name} fields", [ask("api.far.test", port, attack.request("GET", "/ok", own, *["X: y"] * 120))[9:12], ask("api.far.test", port, attack.request("GET", "/ok", own, "X: " + "y" * 200_000))[9:12]])


def outside(trial):
    for name in ("tls", "plain"):
        trial.check(len(trial.found[name]) == 20, f"{name}: {len(trial.found[name])} were tried")
        # An answer may be lost when the connection ends before all of the head was sent.
        trial.check("200" not in trial.found[f"{name} fields"], f"{name}: long heads: {trial.found[f'{name} fields']}")
    trial.check(not [path for path in trial.far.paths() if "smuggled" in path], f"what arrived: {trial.far.paths()}")
    for one in trial.far.seen:
        names = [name for name, _ in one["headers"]]
        trial.check(not ("content-length" in names and "transfer-encoding" in names), f"both lengths arrived: {names}")
        trial.check(len(names) == len(set(names)), f"fields arrived twice: {names}")
