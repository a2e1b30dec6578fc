"""NT-04: Resolve names past the sandbox's resolver, or confuse it.

Claim: Only the sandbox's resolver answers; it has IPv4 addresses of allowed names and no other record, and malformed questions are errors.
Technique: DNS over UDP, TCP, TLS and HTTPS to public resolvers, mDNS and LLMNR; records of other types; labels with NUL and of wrong length, pointer loops, two questions, answers as questions, cut packets.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls"]}}
TIMEOUT = 60


def inside():
    import socket

    results = {}
    packet = attack.question("evil.far.test")
    for address, port in (("8.8.8.8", 53), ("1.1.1.1", 53), ("224.0.0.251", 5353), ("224.0.0.252", 5355), ("9.9.9.9", 443)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
            results[f"udp {address} {port}"] = attack.result_of(lambda: datagram.sendto(packet, (address, port)))
    for address, port in (("8.8.8.8", 53), ("1.1.1.1", 853), ("8.8.8.8", 443), ("9.9.9.9", 853)):
        results[f"tcp {address} {port}"] = attack.reach(address, port, packet)
    attack.say("resolvers", results)
    attack.say("over https", [attack.tunnel(b"dns.google:443"), attack.tunnel(b"1.1.1.1:443"), attack.reach("cloudflare-dns.com", 443)])
    attack.say("types", {kind: attack.ask_dns(attack.question("api.far.test", kind)) for kind in (28, 65, 64, 255, 16, 15, 5, 2, 252)})
    good = attack.question("api.far.test")
    malformed = {
        "nul": attack.question(b"\5a\0b.c\3far\4test\0"),
        "dot in a label": attack.question(b"\14api.far.test\0"),
        "long label": attack.question(b"\x50" + b"a" * 80 + b"\0"),
        "pointer to itself": good[:12] + b"\xc0\x0c\0\1\0\1",
        "pointer beyond": good[:12] + b"\xc3\xff\0\1\0\1",
        "two questions": attack.question("api.far.test", count=2),
        "no question": attack.question("api.far.test", count=0),
        "cut": good[:16],
        "long name": attack.question(b"\1a" * 200 + b"\0"),
    }
    attack.say("malformed", {name: attack.ask_dns(packet, 1) for name, packet in malformed.items()})
    attack.say("an answer", attack.ask_dns(good[:2] + b"\x81\x80" + good[4:], 1))
    attack.say("afterwards", attack.ask_dns(good))


def outside(trial):
    found = trial.found
    trial.all_refused("resolvers", ("ENETUNREACH", "ECONNREFUSED"))
    trial.equal(found["over https"], ["403", "403", "no such name"], "resolvers over https")
    trial.equal(set(map(tuple, found["types"].values())), {(0, 0)}, "records of other types")
    answers = {name: answer for name, answer in found["malformed"].items() if answer is not None and (answer[0] == 0 or answer[1])}
    trial.equal(answers, {}, "malformed questions that were answered")
    trial.equal(found["an answer"], None, "an answer as a question")
    trial.equal(found["afterwards"], [0, 1], "a good question afterwards")
