-- Jobs and everything about them, in a schema of their own.
--
-- Units: *_at are milliseconds since 1970; *_us are microseconds; fence, reported_fence and lease_until are points on the
-- lease clock, which is this database's clock, in microseconds since 1970.
-- States: 0 scheduled, 1 available, 2 running, 3 completed, 4 cancelled, 5 dead.
-- Texts in indexes are compared byte by byte, which is quick, and the same on every system.
-- Ends of holders: 0 expired, 1 left, 2 kicked, 3 succeeded, 4 silent, 5 crashed.

CREATE SCHEMA IF NOT EXISTS tenure;

-- Which of these files were run.
CREATE TABLE tenure.migrations (
    number           integer PRIMARY KEY,
    name             text NOT NULL,
    applied_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenure.queues (
    no               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text COLLATE "C" NOT NULL UNIQUE,
    paused           boolean NOT NULL DEFAULT false,
    exclusive        boolean NOT NULL DEFAULT false,
    heartbeat_us     bigint,
    max_attempts     integer,
    retry            text
);

-- How many jobs are in each state, as changes to be added up: nobody waits for anybody to write one, and they are folded into
-- one row per queue from time to time.
CREATE TABLE tenure.counts (
    queue            integer NOT NULL,                 -- queues.no
    scheduled        bigint NOT NULL DEFAULT 0,
    available        bigint NOT NULL DEFAULT 0,
    running          bigint NOT NULL DEFAULT 0,
    completed        bigint NOT NULL DEFAULT 0,
    cancelled        bigint NOT NULL DEFAULT 0,
    dead             bigint NOT NULL DEFAULT 0
);

-- Jobs that wait or run. Those that have ended move to their own table, so that this one stays as small as the work at hand.
CREATE TABLE tenure.jobs (
    id               uuid PRIMARY KEY,
    lease_until      bigint,
    granted_us       bigint,                           -- the lease granted last, while running
    fence            bigint NOT NULL DEFAULT 0,
    reported_fence   bigint NOT NULL DEFAULT 0,
    run_at           bigint NOT NULL,
    enqueued_at      bigint NOT NULL,
    started_at       bigint,
    heartbeat_us     bigint,
    timeout_us       bigint,
    queue            integer NOT NULL,                 -- queues.no
    attempt          integer NOT NULL DEFAULT 0,
    max_attempts     integer NOT NULL,
    lost             integer NOT NULL DEFAULT 0,
    max_lost         integer NOT NULL,
    state            smallint NOT NULL,
    priority         smallint NOT NULL,
    adopted          boolean NOT NULL DEFAULT false,   -- its server went while it ran, and it was not renewed since
    exclusive        boolean NOT NULL DEFAULT false,   -- running, by a claim made while its queue was exclusive
    cancel_requested boolean NOT NULL DEFAULT false,
    unique_retained  boolean NOT NULL DEFAULT false,
    holder           text COLLATE "C",                 -- a worker's key
    unique_key       text,
    retry            text,
    kind             text NOT NULL,
    content_type     text,                             -- NULL is application/json
    traceparent      text,
    last_error       text,
    progress         bytea,
    checkpoint       bytea,
    payload          bytea NOT NULL,
    -- Few and long: each is a cost of its own, at each write.
    CHECK (CASE WHEN state = 2
           THEN holder IS NOT NULL AND lease_until IS NOT NULL AND granted_us IS NOT NULL AND started_at IS NOT NULL
           ELSE state BETWEEN 0 AND 1 AND holder IS NULL AND lease_until IS NULL AND granted_us IS NULL AND NOT exclusive
           END),
    CHECK (reported_fence BETWEEN 0 AND fence AND attempt >= 0 AND lost >= 0)
) WITH (
    -- A claim writes each row anew: in the same page it costs less, and the rows of a page are mostly claimed together.
    fillfactor = 45,
    -- Two dead rows for each job that runs: cleaned up early and without pauses, or claims would wade through them.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 50000
);

CREATE INDEX jobs_available ON tenure.jobs (queue, priority DESC, run_at, id) WHERE state = 1;
CREATE INDEX jobs_scheduled ON tenure.jobs (run_at, id) WHERE state = 0;
-- Leases are in no index, so that a renewal touches none.
CREATE INDEX jobs_running ON tenure.jobs (holder) WHERE state = 2;

-- Jobs that have ended, until retention. Written once, in the order of time.
CREATE TABLE tenure.ended (
    id               uuid PRIMARY KEY,
    fence            bigint NOT NULL,
    reported_fence   bigint NOT NULL,
    run_at           bigint NOT NULL,
    enqueued_at      bigint NOT NULL,
    started_at       bigint,
    finished_at      bigint NOT NULL,
    heartbeat_us     bigint,
    timeout_us       bigint,
    queue            integer NOT NULL,
    attempt          integer NOT NULL,
    max_attempts     integer NOT NULL,
    lost             integer NOT NULL,
    max_lost         integer NOT NULL,
    state            smallint NOT NULL,
    priority         smallint NOT NULL,
    cancel_requested boolean NOT NULL,
    unique_retained  boolean NOT NULL,
    unique_key       text,
    retry            text,
    kind             text NOT NULL,
    content_type     text,
    traceparent      text,
    last_error       text,
    progress         bytea,
    checkpoint       bytea,
    payload          bytea NOT NULL,
    result           bytea,
    CHECK (state BETWEEN 3 AND 5 AND reported_fence BETWEEN 0 AND fence)
);
CREATE INDEX ended_by_age ON tenure.ended (state, finished_at);
CREATE INDEX ended_badly ON tenure.ended (state, id) WHERE state > 3;

-- Unique keys that are taken: while their job waits or runs, or until its retention is over.
CREATE TABLE tenure.unique_keys (
    queue            integer NOT NULL,
    unique_key       text COLLATE "C" NOT NULL,
    job              uuid NOT NULL,
    PRIMARY KEY (queue, unique_key)
);

-- Answers to requests, so that a repeat is answered as the first time.
CREATE TABLE tenure.requests (
    id               text COLLATE "C" PRIMARY KEY,
    answered_at      bigint NOT NULL,
    answer           bytea NOT NULL                    -- 17 bytes for each job: its id, and 1 if it was there before
);
-- Ids hardly get smaller, and trying costs.
ALTER TABLE tenure.requests ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE INDEX requests_by_age ON tenure.requests (answered_at);

-- Servers: each has a registry of workers, which others take over when it stops beating.
CREATE TABLE tenure.registries (
    id               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text NOT NULL,
    address          text NOT NULL,
    beats            bigint NOT NULL DEFAULT 0,
    resigned         boolean NOT NULL DEFAULT false
) WITH (fillfactor = 30, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Workers that were enlisted, and everyone who was retired. Rows go a day after the end, when they hold nothing.
CREATE TABLE tenure.holders (
    key              text COLLATE "C" PRIMARY KEY,
    nonce            bigint,                           -- which process uses the key; NULL: it was never enlisted
    registry         integer,                          -- who judges it
    grant_us         bigint,                           -- the largest lease it was granted
    retired_at       bigint,
    ended            smallint,                         -- how
    pings            boolean NOT NULL DEFAULT false,   -- it has no lease
    name             bytea,                            -- in UTF-8; a text cannot hold all that a name may
    CHECK ((nonce IS NULL) = (grant_us IS NULL)),
    CHECK ((nonce IS NULL) = (name IS NULL)),
    CHECK ((retired_at IS NULL) = (ended IS NULL)),
    CHECK (nonce IS NOT NULL OR retired_at IS NOT NULL),
    CHECK (registry IS NOT NULL),
    CHECK (ended BETWEEN 0 AND 5)
) WITH (fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX holders_by_registry ON tenure.holders (registry, retired_at);
CREATE INDEX holders_by_age ON tenure.holders (retired_at) WHERE retired_at IS NOT NULL;
