-- Everyone who is known is in a registry: the one that judges it.
--
-- Ends: 0 expired, 1 left, 2 kicked, 3 succeeded, 4 silent, 5 crashed.

-- As before, but a holder that only pings is marked as such, and whoever was retired is in the registry that did it.
CREATE TABLE holders_in_registries (
    no              INTEGER PRIMARY KEY,
    key             TEXT NOT NULL UNIQUE,
    nonce           INTEGER,                       -- which process uses the key; NULL: it was never enlisted
    registry        INTEGER,                       -- who judges it; NULL: it only ever claimed
    pings           INTEGER NOT NULL DEFAULT 0,    -- 1: enlisted without a lease
    grant_us        INTEGER,                       -- the largest lease it was granted
    name            TEXT,
    retired_at      INTEGER,
    ended           INTEGER,                       -- how
    CHECK ((nonce IS NULL) = (grant_us IS NULL)),
    CHECK ((nonce IS NULL) = (name IS NULL)),
    CHECK ((registry IS NULL) = (nonce IS NULL AND retired_at IS NULL)),
    CHECK (pings IN (0, nonce IS NOT NULL)),
    CHECK ((retired_at IS NULL) = (ended IS NULL)),
    CHECK (ended BETWEEN 0 AND 5)
);
-- There was only one registry, and those who pinged were in none.
INSERT INTO holders_in_registries (no, key, nonce, registry, pings, grant_us, name, retired_at, ended)
SELECT no, key, nonce,
    CASE WHEN nonce IS NOT NULL OR retired_at IS NOT NULL THEN coalesce(registry, 1) END,
    nonce IS NOT NULL AND registry IS NULL, grant_us, name, retired_at, ended
FROM holders;
DROP TABLE holders;
ALTER TABLE holders_in_registries RENAME TO holders;

CREATE INDEX holders_active ON holders (registry, key) WHERE nonce IS NOT NULL AND retired_at IS NULL;
CREATE INDEX holders_ended ON holders (retired_at, key) WHERE retired_at IS NOT NULL;
CREATE INDEX holders_plain ON holders (no) WHERE nonce IS NULL AND retired_at IS NULL;
-- Always empty while one server has the file to itself, so that reads need not ask each holder where it is.
CREATE INDEX holders_elsewhere ON holders (no) WHERE registry <> 1;
