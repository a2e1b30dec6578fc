"""CT-05: Keep data in SQLite.

Claim: Databases work, with locks, write-ahead logs and two connections.
Technique: A file database with a write-ahead log, transactions from two connections, a rollback.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""


def inside():
    import sqlite3

    one, other = sqlite3.connect("x.db"), sqlite3.connect("x.db")
    attack.say("mode", one.execute("pragma journal_mode = wal").fetchone()[0])
    one.execute("create table t (a integer primary key, b text)")
    one.executemany("insert into t (b) values (?)", [("x",)] * 1000)
    one.commit()
    other.execute("delete from t where a > 500")
    attack.say("locked", attack.result_of(lambda: one.execute("pragma busy_timeout = 0") and one.execute("insert into t (b) values ('y')")))
    other.rollback()
    attack.say("count", one.execute("select count(*) from t").fetchone()[0])


def outside(trial):
    trial.equal(trial.found, {"mode": "wal", "locked": "OperationalError", "count": 1000}, "what SQLite says")
