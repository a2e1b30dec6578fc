-- A counter for each thing that is cached in memory, so that other processes notice a change.
CREATE TABLE change (
    name TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO change (name, count) VALUES ('keys', 0);

CREATE TABLE key (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    admin INTEGER NOT NULL,
    limits TEXT,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE sandbox (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    template TEXT NOT NULL,
    metadata TEXT NOT NULL,
    limits TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    state TEXT NOT NULL CHECK (state IN ('running', 'ended', 'lost')),
    end_reason TEXT,
    ended_at INTEGER,
    usage TEXT
) STRICT;
CREATE INDEX sandbox_by_age ON sandbox (created_at, id);
CREATE INDEX sandbox_by_tenant ON sandbox (tenant, created_at, id);
CREATE INDEX sandbox_running ON sandbox (created_at, id) WHERE state = 'running';
CREATE INDEX sandbox_ended ON sandbox (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    execution TEXT,
    tenant TEXT,
    sandbox TEXT,
    body TEXT NOT NULL,
    previous BLOB NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX audit_by_execution ON audit (execution, kind) WHERE execution IS NOT NULL;

-- The last record, known apart from the records, so that a cut tail is found.
CREATE TABLE audit_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    key_check BLOB NOT NULL,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    mac BLOB NOT NULL
) STRICT;

-- The last record that was pruned, from which the chain goes on.
CREATE TABLE audit_anchor (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    pruned_at INTEGER NOT NULL,
    pruned INTEGER NOT NULL,
    mac BLOB NOT NULL
) STRICT;
