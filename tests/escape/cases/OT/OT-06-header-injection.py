"""OT-06: Inject headers by a file's name.

Claim: No name of a file breaks out of a header.
Technique: Files with line ends, quotes and controls in their names, downloaded.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    names = ["a\r\nX-Evil: 1.txt", "b\nSet-Cookie: x", 'c";filename="d.html', "e\x00f"[:1], "g\x7f\x1b", "h\u2028i", "j; x=y", "k%0d%0aX-Evil: 1"]
    for name in names:
        open(name, "w").write("x")
    attack.say("names", sorted(os.listdir(".")))


def outside(trial):
    for name in trial.found.get("names", []):
        answer = trial.api.get(trial.id, "/workspace/" + name)
        trial.check(answer.status in (200, 400), f"{name!r}: {answer.status}")
        bad = {"x-evil", "set-cookie"} & set(answer.headers)
        trial.check(not bad, f"{name!r} made headers {bad}")
        disposition = answer.headers.get("content-disposition", "")
        trial.check(disposition.count("filename=") <= 1 and disposition.isascii(), f"{name!r}: {disposition!r}")
