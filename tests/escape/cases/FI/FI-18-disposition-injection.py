"""FI-18: Break out of a download's name.

Claim: The name in a download's header is quoted and encoded.
Technique: Quotes, semicolons, backslashes, percent signs, non-ASCII and very long names.
Source: -
Tiers: jail contained
"""


def outside(trial):
    for name in ('a";filename="b.html', "a\\", "é\u202e.txt", "a;b=c", "a%22", "'", "n" * 200, "a\tb", '"', "a, b"):
        answer = trial.api.put(trial.id, name, b"x")
        trial.tried()
        if answer.status >= 400:
            continue
        got = trial.api.get(trial.id, name)
        value = got.headers.get("content-disposition", "")
        inside_quotes = value.split('filename="')[1].split('";')[0] if 'filename="' in value else ""
        trial.check(value.isascii() and "\n" not in value, f"{name!r}: {value!r}")
        trial.check('"' not in inside_quotes.rstrip('"').replace('\\"', ""), f"{name!r}: {value!r}")
        trial.check(".html" not in value.split(";")[-1] or "%22" in value or name in value, f"{name!r}: {value!r}")
