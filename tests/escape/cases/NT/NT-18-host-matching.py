"""NT-18: Write a host so that a rule matches it by mistake.

Claim: A rule matches one normal form of a name, label by label, and nothing that looks like it.
Technique: Prefixes, suffixes, dots, case, look-alikes in Unicode and punycode, user parts, fragments, backslashes and white space, against an exact rule and a pattern; in tunnels, URLs, look-ups and rules.
Source: Open WebUI CVE-2026-45400
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "*.wild.far.test:28443/tls", "api.far.test:28080/http"]}}


def inside():
    hosts = ("evil-api.far.test", "evilapi.far.test", "api.far.test.evil.test", "api.far.testevil", "far.test", "wild.far.test", ".wild.far.test", "evilwild.far.test", "api.far.test.", "a.wild.far.test.", "xn--pi-7lc.far.test", "api.far.test%2eevil.test", "api%2efar.test", "api_far_test", "api.far.test@evil.far.test", "evil.far.test@api.far.test", "evil.far.test#@api.far.test", "evil.far.test\\@api.far.test", "evil.far.test\\.api.far.test", "api.far.test\t", " api.far.test", "api.far.test ", "\u0430pi.far.test", "api\u3002far.test", "api..far.test", "*.wild.far.test", "api.far.test,evil.far.test", "api.far.test;evil.far.test", "-a.wild.far.test")
    attack.say("connect", {repr(host): attack.tunnel(f"{host}:28443".encode()) for host in hosts})
    attack.say("get", {repr(host): attack.status_of(attack.ask_proxy(f"GET http://{host}:28080/ HTTP/1.1\r\nHost: {host}:28080\r\nConnection: close\r\n\r\n".encode())) for host in hosts})
    names = ("evil-api.far.test", "far.test", "wild.far.test", "api.far.test.evil.test", "evilwild.far.test", "xn--pi-7lc.far.test")
    attack.say("look-up", {name: attack.ask_dns(attack.question(name)) for name in names})
    attack.say("control", {host: "200" if not isinstance(attack.tunnel(f"{host}:28443".encode()), str) else "refused" for host in ("api.far.test", "API.far.TEST", "a.wild.far.test")})


def outside(trial):
    trial.all_refused("connect", ("403", "400"))
    trial.all_refused("get", ("403", "400", "421"))
    trial.equal(set(map(tuple, trial.found["look-up"].values())), {(3, 0)}, "look-ups")
    trial.equal(set(trial.found["control"].values()), {"200"}, "honest names")
    trial.equal(trial.far.seen, [], "what arrived")
    for host in ("*", "*.", "*.test", "*.com", "*.co.uk", "**.far.test", "a.*.test", "api.far.test.", "api.far.test/x", "http://api.far.test", "api.far.test ", "", ".", "1.2.3.4.5", "\u0430pi.far.test", "a" * 64 + ".far.test"):
        answer = trial.api.call("POST", "/v1/sandboxes", {"network": {"allow": [{"host": host}]}})
        trial.tried()
        trial.equal((answer.status, answer.code), (400, "bad_network"), f"the rule {host!r}")
