-- Secrets that sandboxes of a key may use and never see. The value is sealed with the key in
-- secrets.key; `terms` says where the value may go, as JSON.
CREATE TABLE secret (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,
    terms TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- What waits for a person: code, or a connection to a host.
ALTER TABLE approval ADD COLUMN kind TEXT NOT NULL DEFAULT 'code'
    CHECK (kind IN ('code', 'network'));
ALTER TABLE approval ADD COLUMN host TEXT;
ALTER TABLE approval ADD COLUMN port INTEGER;
ALTER TABLE approval ADD COLUMN scope TEXT CHECK (scope IN ('once', 'sandbox', 'key'));

-- Hosts that a person has allowed for all sandboxes of a key.
CREATE TABLE network_grant (
    tenant TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    approval TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, host, port)
) STRICT, WITHOUT ROWID;
