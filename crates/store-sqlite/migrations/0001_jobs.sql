-- Jobs and everything about them.
--
-- Units: *_at are milliseconds since 1970 by the wall clock; *_us are microseconds; fence, reported_fence, lease_until
-- and the lease clock are points on the store's lease clock, in microseconds.
-- States: 0 scheduled, 1 available, 2 running, 3 completed, 4 cancelled, 5 dead.

CREATE TABLE queues (
    no              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    paused          INTEGER NOT NULL DEFAULT 0,
    lease_us        INTEGER,
    max_attempts    INTEGER,
    retry           TEXT,
    -- How many jobs are in each state. Kept in step by the transaction that moves the jobs, because counting millions
    -- of rows takes seconds.
    scheduled       INTEGER NOT NULL DEFAULT 0,
    available       INTEGER NOT NULL DEFAULT 0,
    running         INTEGER NOT NULL DEFAULT 0,
    completed       INTEGER NOT NULL DEFAULT 0,
    cancelled       INTEGER NOT NULL DEFAULT 0,
    dead            INTEGER NOT NULL DEFAULT 0,
    CHECK (min(scheduled, available, running, completed, cancelled, dead) >= 0)
);

-- Everyone who ever claimed or was retired. A retired holder can never claim again, so its row stays.
CREATE TABLE holders (
    no              INTEGER PRIMARY KEY,
    key             TEXT NOT NULL UNIQUE,
    retired_at      INTEGER
);

CREATE TABLE jobs (
    no               INTEGER PRIMARY KEY,
    id               BLOB NOT NULL UNIQUE,
    state            INTEGER NOT NULL,
    queue            INTEGER NOT NULL,             -- queues.no
    priority         INTEGER NOT NULL,
    run_at           INTEGER NOT NULL,
    attempt          INTEGER NOT NULL DEFAULT 0,
    max_attempts     INTEGER NOT NULL,
    lost             INTEGER NOT NULL DEFAULT 0,
    max_lost         INTEGER NOT NULL,
    fence            INTEGER NOT NULL DEFAULT 0,
    reported_fence   INTEGER NOT NULL DEFAULT 0,
    holder           INTEGER,                      -- holders.no
    lease_until      INTEGER,
    granted_us       INTEGER,                      -- the lease granted last, while running
    adopted          INTEGER NOT NULL DEFAULT 0,   -- 1: ran when the store was opened, not renewed since
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    enqueued_at      INTEGER NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER,
    lease_us         INTEGER,
    timeout_us       INTEGER,
    retry            TEXT,
    unique_key       TEXT,
    unique_retained  INTEGER NOT NULL DEFAULT 0,
    kind             TEXT NOT NULL,
    content_type     TEXT,                         -- NULL is application/json
    traceparent      TEXT,
    last_error       TEXT,
    progress         BLOB,
    checkpoint       BLOB,                         -- the bytes, or a number: blobs.no
    result           BLOB,
    payload          BLOB NOT NULL,                -- the bytes, or a number: blobs.no
    CHECK (length(id) = 16),
    CHECK (state BETWEEN 0 AND 5),
    CHECK ((state = 2) = (holder IS NOT NULL)),
    CHECK ((state = 2) = (lease_until IS NOT NULL)),
    CHECK ((state = 2) = (granted_us IS NOT NULL)),
    CHECK ((state >= 3) = (finished_at IS NOT NULL)),
    CHECK (state <> 2 OR started_at IS NOT NULL),
    CHECK (reported_fence BETWEEN 0 AND fence),
    CHECK (attempt >= 0 AND lost >= 0)
);

-- Payloads and checkpoints too large to be rewritten with their job at every change of state.
CREATE TABLE blobs (
    no              INTEGER PRIMARY KEY,
    bytes           BLOB NOT NULL
);

CREATE INDEX jobs_available ON jobs (queue, priority DESC, run_at, id) WHERE state = 1;
CREATE INDEX jobs_scheduled ON jobs (run_at, id) WHERE state = 0;
CREATE INDEX jobs_running ON jobs (holder, lease_until, granted_us) WHERE state = 2;
CREATE INDEX jobs_ended ON jobs (state, finished_at) WHERE state >= 3;
CREATE UNIQUE INDEX jobs_unique ON jobs (queue, unique_key)
    WHERE unique_key IS NOT NULL AND (state < 3 OR unique_retained = 1);

-- Answers to requests, so that a repeat is answered as the first time.
CREATE TABLE requests (
    no              INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    answered_at     INTEGER NOT NULL,
    answer          BLOB NOT NULL                  -- 17 bytes for each job: its id, and 1 if it was there before
);
CREATE INDEX requests_by_age ON requests (answered_at);

-- lease_clock: the highest time the lease clock ever used, so that it never runs backwards over a restart.
CREATE TABLE meta (
    name            TEXT PRIMARY KEY,
    value           INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('lease_clock', 0);
