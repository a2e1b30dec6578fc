"""SY-08: Make sockets of odd protocols.

Claim: Only TCP and UDP can be spoken; the rest of the network stack is not reached.
Technique: ICMP, SCTP, MPTCP, UDP-Lite, DCCP, SMC and raw sockets; netlink for xfrm, netfilter, sock_diag and audit.
Source: CVE-2026-43284 (xfrm), CVE-2024-1086 (nf_tables)
Tiers: jail contained
"""


def inside():
    table = {}
    for family in (2, 10):
        for name, kind, protocol in (("icmp", 2, 1), ("icmp6", 2, 58), ("sctp", 1, 132), ("sctp packets", 5, 132), ("mptcp", 1, 262), ("udplite", 2, 136), ("dccp", 6, 33), ("smc", 1, 256), ("raw", 3, 255), ("l2tp", 2, 115)):
            table[f"{name} {family}"] = ("socket", family, kind, protocol)
    for name, protocol in (("route", 0), ("sock_diag", 4), ("xfrm", 6), ("audit", 9), ("netfilter", 12), ("uevent", 15), ("generic", 16), ("crypto", 21)):
        table[f"netlink {name}"] = ("socket", 16, 3, protocol)
    attack.calls(table)


def outside(trial):
    trial.all_refused(errors=("EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENOSYS"))
