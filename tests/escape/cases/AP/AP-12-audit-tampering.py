"""AP-12: Change the audit log.

Claim: Changing, removing or truncating records without the key is detected.
Technique: Edits, deletes and swaps rows of the database of a stopped server, and lets `silica audit verify` look.
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    import sqlite3
    import subprocess

    with trial.own_server(pool="python=1") as server:
        api = server.holder("writer")
        box = api.create()["id"]
        for number in range(6):
            api.cell(box, f"print({number})")
        server.stop()

        def verify():
            environment = {"SILICA_HOME": str(server.home), "PATH": "/usr/bin:/bin"}
            return subprocess.run([server.ground.binary, "audit", "verify"], env=environment, capture_output=True, text=True).returncode

        trial.equal(verify(), 0, "the log as it was written")
        database = server.home / "silica.db"
        saved = database.read_bytes()
        connection = sqlite3.connect(database)
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        table = next(name for name in tables if "audit" in name or "record" in name)
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        order = columns[0]
        rows = connection.execute(f"select {order} from {table} order by {order}").fetchall()
        connection.close()
        middle, last = rows[len(rows) // 2][0], rows[-1][0]
        text = [name for name in columns if name not in (order,)]
        edits = [f"delete from {table} where {order} = {middle}", f"delete from {table} where {order} = {last}"]
        edits += [f"update {table} set {name} = {name} || 'x' where {order} = {middle}" for name in text[:3]]
        for edit in edits:
            connection = sqlite3.connect(database)
            try:
                connection.execute(edit)
                connection.commit()
            except sqlite3.Error:
                continue  # The schema itself refuses it.
            finally:
                connection.close()
            trial.tried()
            trial.check(verify() != 0, f"nobody noticed: {edit}")
            for path in server.home.glob("silica.db-*"):
                path.unlink()
            database.write_bytes(saved)
        trial.check(trial.attempts >= 2, "too little was tampered with")
