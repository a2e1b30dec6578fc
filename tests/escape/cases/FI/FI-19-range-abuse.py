"""FI-19: Abuse ranges.

Claim: A range is one part of a file or refused; no request makes the server send a file many times.
Technique: A thousand ranges, overlapping ones, negative, beyond the end, beyond numbers, and words that are none.
Source: CVE-2011-3192
Tiers: jail bounded
"""


def outside(trial):
    trial.api.put(trial.id, "f", b"0123456789" * 1000)
    for text in ("bytes=" + ",".join(f"{n}-" for n in range(1000)), "bytes=0-,0-,0-", "bytes=-1", "bytes=99999-", "bytes=5-2", "bytes=18446744073709551616-", "bytes=-0",
                 "bytes=0-18446744073709551615", "bytes=a-b", "lines=0-1", "bytes", "bytes=--1", "bytes=0x0-0x5", "bytes= 0-1"):  # fmt: skip
        answer = trial.api.get(trial.id, "f", headers={"Range": text})
        trial.tried()
        trial.check(answer.status in (200, 206, 400, 416), f"{text[:40]}: {answer.status}")
        trial.check(len(answer.body) <= 10_000, f"{text[:40]}: {len(answer.body)} bytes")
