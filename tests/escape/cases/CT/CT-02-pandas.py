"""CT-02: Work with pandas.

Claim: Tables are read, changed, grouped and written as anywhere.
Technique: CSV, pickle and JSON there and back, text columns, groups, joins, dates and a pivot.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TEMPLATE = "code-interpreter"
TIMEOUT = 60


def inside():
    import pandas as pd

    frame = pd.DataFrame({"k": ["a", "b"] * 500, "v": range(1000), "t": pd.date_range("2024-01-01", periods=1000, freq="h")})
    frame.to_csv("x.csv", index=False)
    frame.to_pickle("x.pkl")
    again = pd.read_csv("x.csv", parse_dates=["t"])
    attack.say("sums", {key: int(value) for key, value in again.groupby("k").v.sum().items()})
    attack.say("days", len(again.set_index("t").v.resample("D").mean()))
    attack.say("joined", len(again.merge(pd.read_pickle("x.pkl"), on=["k", "v"])))
    attack.say("upper", sorted(again.k.str.upper().unique()))


def outside(trial):
    trial.equal(trial.found, {"sums": {"a": 249500, "b": 250000}, "days": 42, "joined": 1000, "upper": ["A", "B"]}, "what pandas says")
