-- Exclusive queues, and workers that crash under a guardian.
--
-- Ends: 0 expired, 1 left, 2 kicked, 3 succeeded, 4 silent, 5 crashed.

ALTER TABLE queues ADD COLUMN exclusive INTEGER NOT NULL DEFAULT 0 CHECK (exclusive IN (0, 1));

-- 1: running, by a claim that was made while its queue was exclusive.
ALTER TABLE jobs ADD COLUMN exclusive INTEGER NOT NULL DEFAULT 0 CHECK (exclusive IN (0, state = 2));

-- As before, with one end more.
CREATE TABLE holders_with_crashes (
    no              INTEGER PRIMARY KEY,
    key             TEXT NOT NULL UNIQUE,
    nonce           INTEGER,                       -- which process uses the key; NULL: it was never enlisted
    registry        INTEGER,                       -- who judges it; NULL: it only pings, or not even that
    grant_us        INTEGER,                       -- the largest lease it was granted
    name            TEXT,
    retired_at      INTEGER,
    ended           INTEGER,                       -- how
    CHECK ((nonce IS NULL) = (grant_us IS NULL)),
    CHECK ((nonce IS NULL) = (name IS NULL)),
    CHECK (nonce IS NOT NULL OR registry IS NULL),
    CHECK ((retired_at IS NULL) = (ended IS NULL)),
    CHECK (ended BETWEEN 0 AND 5)
);
INSERT INTO holders_with_crashes (no, key, nonce, registry, grant_us, name, retired_at, ended)
SELECT no, key, nonce, registry, grant_us, name, retired_at, ended FROM holders;
DROP TABLE holders;
ALTER TABLE holders_with_crashes RENAME TO holders;

CREATE INDEX holders_active ON holders (registry, key) WHERE nonce IS NOT NULL AND retired_at IS NULL;
CREATE INDEX holders_ended ON holders (retired_at, key) WHERE retired_at IS NOT NULL;
CREATE INDEX holders_plain ON holders (no) WHERE nonce IS NULL AND retired_at IS NULL;
