-- Keys that open the Jupyter facade and nothing else.
ALTER TABLE key ADD COLUMN jupyter INTEGER NOT NULL DEFAULT 0;
