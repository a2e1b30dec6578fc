"""AP-07: Send JSON at the edges.

Claim: A body that is not one JSON object of the right shape is refused, and nothing panics.
Technique: Doubled keys, a byte order mark, broken UTF-8, lone surrogates, trailing words, deep nesting, other types.
Source: -
Tiers: jail contained
"""


def outside(trial):
    bodies = [b'{"code": "1", "code": "2"}', b'\xef\xbb\xbf{"code": "1"}', b'{"code": "\xff"}', b'{"code": "1"} x', b"{'code': '1'}", b'{"code": "1",}', b"[]", b"null", b'"x"', b"1", b"", b"{", b'{"code": 1}', b'{"code": null}', b'{"code": "\\ud800"}', b'{"code": "1", "limits": ' + b"[" * 200 + b"]" * 200 + b"}", b'{"\\u0000": 1}', b"\x00" * 100, b'{"code": "' + b"\\u0041" * 100_000 + b'", "x": 1}']
    for body in bodies:
        answer = trial.api.call("POST", "/v1/run", body)
        trial.tried()
        trial.check(answer.status == 400, f"{body[:40]!r}: {answer.status} {answer.text[:80]}")
        trial.equal(answer.headers.get("content-type", "").split(";")[0], "application/problem+json", f"{body[:20]!r}")
