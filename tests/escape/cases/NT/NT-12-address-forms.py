"""NT-12: Write an address in other forms.

Claim: No form of a loopback, private or metadata address is connected to, by tunnel, by URL or by look-up.
Technique: Short, decimal, octal and hexadecimal IPv4, IPv6, mapped, compatible, with a zone, bracketed, and names that clouds give their metadata.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls", "api.far.test:28080/http"]}}
TIMEOUT = 60


def inside():
    port = attack.HOST["tcp"]
    hosts = ("127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "0.0.0.0", "127.0.0.1", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1%25lo]", "[fe80::1%lo]", "[64:ff9b::7f00:1]", "169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192", "metadata.google.internal", "metadata", "localhost", "localhost.localdomain", "host.docker.internal", "gateway", "[127.0.0.1]", "::1", "[::1", "::1]", "1.1.1.1")
    attack.say("connect", {host: attack.tunnel(f"{host}:{port}".encode()) for host in hosts})
    attack.say("get", {host: attack.status_of(attack.ask_proxy(attack.request("GET", f"http://{host}:{port}/", f"{host}:{port}"))) for host in hosts})


def outside(trial):
    trial.all_refused("connect", ("403", "400"))
    trial.all_refused("get", ("403", "400", "421"))
    trial.equal((trial.far.connections, trial.far.seen), ([], []), "what arrived")
