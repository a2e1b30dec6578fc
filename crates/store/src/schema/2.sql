-- Whether a key may decide about executions that wait for a person.
ALTER TABLE key ADD COLUMN approve INTEGER NOT NULL DEFAULT 0;

-- Executions that wait for a person, and what became of them. The code is kept while it waits.
CREATE TABLE approval (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    cell TEXT NOT NULL,
    policy TEXT NOT NULL,
    findings TEXT NOT NULL,
    code TEXT,
    sha256 BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired')),
    decided_at INTEGER,
    decided_by TEXT,
    reason TEXT
) STRICT;
CREATE INDEX approval_by_age ON approval (created_at, id);
CREATE INDEX approval_pending ON approval (expires_at) WHERE state = 'pending';
