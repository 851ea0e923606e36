-- Enqueuing by SQL, inside the caller's own transaction: the job exists exactly if what else the transaction writes does.
--
--   SELECT tenure.enqueue('mail', 'send.welcome', '{"user": 7}');
--   SELECT tenure.enqueue('mail', 'send.welcome', jsonb_build_object('user', 7), run_at => now() + interval '1 hour');
--
-- The checks, defaults and answers are those of the servers: a job whose id exists or whose unique key is taken is answered
-- with the one already there. Servers hear of the job when the transaction commits.
--
-- A role needs USAGE on the schema and EXECUTE on these functions, and nothing else. Whatever it sets for its session changes
-- nothing in them: names and texts mean what they mean here.
--
-- A job's own id works in READ COMMITTED only. A transaction that keeps one snapshot does not see that a job has ended since it
-- began, and would let the same id in again; it is refused. Unique keys and new queues work in every transaction: what such a
-- snapshot cannot see is a serialization failure, to be tried again as any other.
--
-- A queue exists from its first job. Until the transaction that creates one ends, others who want to create the very same
-- queue wait for it; afterwards nobody waits for anybody. Jobs with the same unique key wait for each other.

-- What a server would not read does not come in, whoever writes it.
ALTER TABLE tenure.queues ADD CONSTRAINT queues_name_check CHECK (name ~ '^[A-Za-z0-9._-]{1,128}$');

CREATE FUNCTION tenure.enqueue(
    queue            text,
    kind             text,
    payload          bytea,
    content_type     text,
    priority         integer DEFAULT 0,
    run_at           timestamptz DEFAULT NULL,         -- NULL: at once
    max_attempts     integer DEFAULT NULL,             -- NULL: as the queue says
    unique_key       text DEFAULT NULL,
    timeout          interval DEFAULT NULL,            -- of one attempt
    id               uuid DEFAULT NULL                 -- NULL: a new one
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
<<new>>
DECLARE
    now_ms           bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    run_at_ms        bigint;
    timeout_us       bigint;
    queue_no         integer;
    queue_attempts   integer;
    job              uuid := enqueue.id;
    owner            uuid;
    next_state       smallint;
BEGIN
    IF enqueue.queue IS NULL OR enqueue.queue COLLATE "C" !~ '^[A-Za-z0-9._-]{1,128}$' THEN
        RAISE EXCEPTION 'queue name must have 1 to 128 bytes of A-Z a-z 0-9 . _ -' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.kind IS NULL OR enqueue.kind COLLATE "C" !~ '^[A-Za-z0-9._-]{1,128}$' THEN
        RAISE EXCEPTION 'kind must have 1 to 128 bytes of A-Z a-z 0-9 . _ -' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.payload IS NULL OR octet_length(enqueue.payload) > 1048576 THEN
        RAISE EXCEPTION 'payload has % bytes; at most 1048576 are allowed (store large data elsewhere and enqueue a reference)',
            octet_length(enqueue.payload) USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.content_type IS NULL OR octet_length(enqueue.content_type) > 128 THEN
        RAISE EXCEPTION 'content type must have at most 128 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.priority IS NULL OR enqueue.priority NOT BETWEEN -32768 AND 32767 THEN
        RAISE EXCEPTION 'priority is out of range; choose between -32768 and 32767' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.run_at > timestamptz '9999-12-31 23:59:59.999+00' OR NOT isfinite(enqueue.run_at) THEN
        RAISE EXCEPTION 'run_at is beyond the year 9999' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'max attempts is out of range; choose between 1 and 1000' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.timeout <= interval '0' OR extract(epoch FROM enqueue.timeout) > 2592000 THEN
        RAISE EXCEPTION 'timeout is out of range; choose up to 30 days' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(enqueue.unique_key) NOT BETWEEN 1 AND 512
            OR enqueue.unique_key COLLATE "C" ~ format('[%s-%s%s-%s]', chr(1), chr(31), chr(127), chr(159)) THEN
        RAISE EXCEPTION 'unique key must have 1 to 512 bytes and no control characters' USING ERRCODE = 'invalid_parameter_value';
    ELSIF enqueue.id IS NOT NULL
            AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'a job with an id of its own cannot be enqueued in a % transaction',
                current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                HINT = 'Use READ COMMITTED, or leave the id out and give a unique_key.';
    END IF;
    run_at_ms := coalesce(floor(extract(epoch FROM enqueue.run_at) * 1000)::bigint, now_ms);
    timeout_us := (extract(epoch FROM enqueue.timeout) * 1000000)::bigint;
    next_state := CASE WHEN run_at_ms > now_ms THEN 0 ELSE 1 END;

    IF job IS NULL THEN
        -- Version 7: milliseconds first, so that ids sort by time; the rest is random.
        job := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(now_ms) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;
    ELSIF EXISTS (SELECT FROM tenure.jobs j WHERE j.id = job) OR EXISTS (SELECT FROM tenure.ended e WHERE e.id = job) THEN
        RETURN job;
    END IF;

    SELECT q.no, q.max_attempts INTO queue_no, queue_attempts FROM tenure.queues q WHERE q.name = enqueue.queue;
    IF queue_no IS NULL THEN
        INSERT INTO tenure.queues (name) VALUES (enqueue.queue) ON CONFLICT (name) DO NOTHING;
        SELECT q.no, q.max_attempts INTO STRICT queue_no, queue_attempts FROM tenure.queues q WHERE q.name = enqueue.queue;
    END IF;

    IF enqueue.unique_key IS NOT NULL THEN
        LOOP
            INSERT INTO tenure.unique_keys (queue, unique_key, job) VALUES (queue_no, enqueue.unique_key, new.job)
            ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            SELECT k.job INTO owner FROM tenure.unique_keys k
            WHERE k.queue = queue_no AND k.unique_key = enqueue.unique_key;
            IF FOUND THEN
                RETURN owner;
            END IF;
            -- It was freed between the two statements.
        END LOOP;
    END IF;

    INSERT INTO tenure.jobs (id, state, queue, priority, run_at, max_attempts, max_lost, enqueued_at, kind, payload,
                             content_type, timeout_us, unique_key)
    VALUES (job, next_state, queue_no, enqueue.priority, run_at_ms, coalesce(enqueue.max_attempts, queue_attempts, 5), 5,
            now_ms, enqueue.kind, enqueue.payload, nullif(enqueue.content_type, 'application/json'), timeout_us,
            enqueue.unique_key)
    ON CONFLICT DO NOTHING;
    -- Someone else enqueued this id meanwhile; or it has ended meanwhile, and the insert waited for that.
    IF NOT FOUND OR (enqueue.id IS NOT NULL AND EXISTS (SELECT FROM tenure.ended e WHERE e.id = job)) THEN
        IF FOUND THEN
            DELETE FROM tenure.jobs j WHERE j.id = job;
        END IF;
        DELETE FROM tenure.unique_keys k
        WHERE k.queue = queue_no AND k.unique_key = enqueue.unique_key AND k.job = new.job;
        RETURN job;
    END IF;

    INSERT INTO tenure.counts (queue, scheduled, available)
    VALUES (queue_no, CASE next_state WHEN 0 THEN 1 ELSE 0 END, CASE next_state WHEN 1 THEN 1 ELSE 0 END);
    PERFORM pg_notify('tenure', CASE next_state WHEN 0 THEN E'0\nS' ELSE E'0\nR ' || enqueue.queue END);
    RETURN job;
END
$$;

CREATE FUNCTION tenure.enqueue(
    queue            text,
    kind             text,
    payload          jsonb DEFAULT '{}',
    priority         integer DEFAULT 0,
    run_at           timestamptz DEFAULT NULL,
    max_attempts     integer DEFAULT NULL,
    unique_key       text DEFAULT NULL,
    timeout          interval DEFAULT NULL,
    id               uuid DEFAULT NULL
) RETURNS uuid LANGUAGE sql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT tenure.enqueue(queue, kind, convert_to(payload::text, 'UTF8'), 'application/json'::text, priority, run_at,
                          max_attempts, unique_key, timeout, id)
$$;

REVOKE ALL ON FUNCTION
    tenure.enqueue(text, text, bytea, text, integer, timestamptz, integer, text, interval, uuid),
    tenure.enqueue(text, text, jsonb, integer, timestamptz, integer, text, interval, uuid)
FROM PUBLIC;
