-- Long code, compressed, once for each digest. A record that uses it has the digest in `code`, and
-- in `code_at` the place in its body, in bytes, at which the code belongs.
CREATE TABLE audit_code (
    digest BLOB PRIMARY KEY,
    packed BLOB NOT NULL,
    uses INTEGER NOT NULL
) STRICT;
ALTER TABLE audit ADD COLUMN code BLOB;
ALTER TABLE audit ADD COLUMN code_at INTEGER;

-- How many bytes the records take, about: by this the log is kept below its largest size.
ALTER TABLE audit_head ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE audit_head SET bytes =
    (SELECT coalesce(sum(length(CAST(body AS BLOB)) + 256), 0) FROM audit);
