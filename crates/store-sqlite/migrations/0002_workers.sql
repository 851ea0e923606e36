-- Workers are known before they are answered; what was called a lease of jobs and queues is their heartbeat timeout.
--
-- Ends: 0 expired, 1 left, 2 kicked, 3 succeeded, 4 silent.

ALTER TABLE queues RENAME COLUMN lease_us TO heartbeat_us;
ALTER TABLE jobs RENAME COLUMN lease_us TO heartbeat_us;

-- Everyone who claimed, was enlisted, or was retired. Rows go when they hold nothing: retired ones after a day, those that
-- were never enlisted at any time.
CREATE TABLE holders_with_workers (
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
    CHECK (ended BETWEEN 0 AND 4)
);
-- Until now holders were retired when they left, and only then.
INSERT INTO holders_with_workers (no, key, retired_at, ended)
SELECT no, key, retired_at, CASE WHEN retired_at IS NOT NULL THEN 1 END FROM holders;
DROP TABLE holders;
ALTER TABLE holders_with_workers RENAME TO holders;

CREATE INDEX holders_active ON holders (registry, key) WHERE nonce IS NOT NULL AND retired_at IS NULL;
CREATE INDEX holders_ended ON holders (retired_at, key) WHERE retired_at IS NOT NULL;
CREATE INDEX holders_plain ON holders (no) WHERE nonce IS NULL AND retired_at IS NULL;
