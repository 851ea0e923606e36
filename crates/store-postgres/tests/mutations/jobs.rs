//! The guards of what is done to jobs.

use super::{Mutation, SEEN, mutation};

// A parameter that is not compared any more still has to occur, or the database would refuse the statement for that alone.
pub(super) const MUTATIONS: &[Mutation] = &[
    // finish
    mutation(
        "finish does not compare the fence",
        "($2::bigint[])[width_bucket(j.id, $1)])",
        "CASE WHEN $2::bigint[] IS NULL THEN 0 ELSE j.fence END)",
        "stale_fence_cannot_complete",
    ),
    mutation(
        "finish does not compare the holder",
        "CASE WHEN cardinality($4::integer[]) = 0 THEN ($3::text[])[1]",
        "CASE WHEN cardinality($4::integer[]) = 0 THEN j.holder",
        "another_holder_cannot_complete",
    ),
    mutation(
        "finish compares the attempt instead of the fence",
        "($2::bigint[])[width_bucket(j.id, $1)])",
        "CASE WHEN $2::bigint[] IS NULL OR j.attempt <> 1 THEN 0 ELSE j.fence END)",
        "same_worker_reclaim_fences_its_own_zombie",
    ),
    mutation(
        "finish does not remember the report",
        "SELECT id, fence, fence, run_at, enqueued_at, started_at, (SELECT wall FROM clock)",
        "SELECT id, fence, 0, run_at, enqueued_at, started_at, (SELECT wall FROM clock)",
        "repeated_report_is_already_done",
    ),
    mutation(
        "a cancelled job completes",
        "CASE WHEN j.cancel_requested THEN 4 ELSE 3 END",
        "CASE WHEN j.cancel_requested THEN 3 ELSE 3 END",
        "cancelled_attempt_ends_in_cancelled_whatever_its_outcome",
    ),
    mutation(
        "a failure forgets its error",
        "last_error = coalesce(r.error, j.last_error)",
        "last_error = j.last_error",
        "failed_job_comes_back_with_backoff",
    ),
    mutation(
        "a failure keeps the losses",
        "lost = CASE WHEN r.error IS NULL THEN j.lost ELSE 0 END",
        "lost = j.lost",
        "failure_ends_a_row_of_losses",
    ),
    mutation(
        "a hand-back counts as an attempt",
        "attempt = CASE WHEN r.error IS NULL THEN greatest(j.attempt - 1, 0) ELSE j.attempt END",
        "attempt = j.attempt",
        "handed_back_job_is_offered_at_once",
    ),
    // renew
    mutation(
        "renew does not compare the fence",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, held.holder, held.fence)",
        "(j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, held.holder)",
        "renewal_with_a_stale_fence_is_lost",
    ),
    mutation(
        "renew does not compare the holder",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, held.holder, held.fence)",
        "(j.state, j.fence) IS NOT DISTINCT FROM (2::smallint, held.fence)",
        "renewal_by_another_holder_is_lost",
    ),
    mutation(
        "renew leaves the mark of a take-over",
        "held.lease_us), adopted = false",
        "held.lease_us)",
        "loss_after_a_renewal_counts_again_after_a_take_over",
    ),
    mutation(
        "renew grants what is asked for",
        "SET lease_until = clock.now + coalesce(j.heartbeat_us, q.heartbeat_us, held.lease_us)",
        "SET lease_until = clock.now + held.lease_us",
        "renewal_grants_the_jobs_own_lease_else_the_queues_else_the_given",
    ),
    mutation(
        "a renewal tells what the queue is now",
        "j.granted_us, j.cancel_requested, j.exclusive",
        "j.granted_us, j.cancel_requested, q.exclusive",
        "exclusive_claim_stays_so_when_its_queue_changes",
    ),
    // progress
    mutation(
        "progress does not compare the fence",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $5, kept.fence)",
        "(j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, $5)",
        "progress_needs_the_fence",
    ),
    mutation(
        "progress does not compare the holder",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $5, kept.fence)",
        "$5::text = $5 AND (j.state, j.fence) IS NOT DISTINCT FROM (2::smallint, kept.fence)",
        "progress_needs_the_holder",
    ),
    mutation(
        "progress keeps the losses",
        "SET lost = 0, progress",
        "SET progress",
        "progress_ends_a_row_of_losses",
    ),
    // reap
    mutation(
        "reap does not look whether the lease is over",
        "AND j.lease_until <= clock.lease",
        "",
        "reap_needs_an_expired_lease",
    ),
    mutation(
        "reap does not compare the lease that was seen",
        SEEN,
        "(j.state, j.fence, j.holder) IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.holder)",
        "renewed_lease_is_not_reaped_by_a_late_reaper",
    ),
    mutation(
        "reap does not compare the fence that was seen",
        SEEN,
        "(j.state, j.lease_until, j.holder) IS NOT DISTINCT FROM (2::smallint, seen.lease_until, seen.holder)",
        "reap_needs_the_fence_that_was_seen",
    ),
    mutation(
        "a loss counts as an attempt",
        "attempt = taken.attempt, lost = taken.lost",
        "lost = taken.lost",
        "loss_does_not_count_as_an_attempt",
    ),
    mutation(
        "a loss does not count",
        "lost = taken.lost, last_error",
        "lost = j.lost, last_error",
        "first_loss_is_offered_at_once_second_backs_off",
    ),
    mutation(
        "a loss by a take-over counts as any other",
        "j.lease_until, j.exclusive, j.adopted, j.cancel_requested",
        "j.lease_until, j.exclusive, false, j.cancel_requested",
        "loss_by_a_take_over_does_not_count",
    ),
    mutation(
        "a cancelled job that is lost comes back",
        "j.adopted, j.cancel_requested, j.attempt",
        "j.adopted, false, j.attempt",
        "cancelled_job_ends_when_it_is_lost",
    ),
    mutation(
        "a holder that is not retired is reaped",
        "WHERE key = $1 AND retired_at IS NOT NULL FOR SHARE",
        "WHERE key = $1 FOR SHARE",
        "holder_is_retired_by_its_registry_alone",
    ),
    mutation(
        "an uncounted loss counts",
        "j.exclusive, NOT $2::boolean,",
        "j.exclusive, $2::boolean AND false,",
        "uncounted_loss_is_offered_at_once",
    ),
    mutation(
        "a job that was taken back tells nothing",
        "j.lease_until, j.exclusive, j.adopted",
        "j.lease_until, false, j.adopted",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "a job of a holder that is gone tells nothing",
        "j.lease_until, j.exclusive, NOT $2::boolean",
        "j.lease_until, false, NOT $2::boolean",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "an extension moves nothing",
        "SET lease_until = j.lease_until + $2::bigint",
        "SET lease_until = j.lease_until + $2::bigint * 0",
        "extension_moves_every_lease",
    ),
    // claim
    mutation(
        "a retired holder claims",
        "FROM holder WHERE retired_at IS NOT NULL",
        "FROM holder WHERE false",
        "retired_holder_claims_nothing",
    ),
    mutation("a paused queue is claimed from", "AND NOT paused AND", "AND", "paused_queue_offers_nothing"),
    mutation(
        "an exclusive queue gives to anybody",
        "AND ($6 OR NOT exclusive)",
        "AND ($6 OR true)",
        "exclusive_queue_gives_only_to_claims_that_say_so",
    ),
    mutation(
        "an exclusive queue gives to nobody",
        "AND ($6 OR NOT exclusive)",
        "AND ($6::boolean IS NOT NULL AND NOT exclusive)",
        "exclusive_queue_gives_only_to_claims_that_say_so",
    ),
    mutation(
        "who may hold exclusive jobs gets no others",
        "AND ($6 OR NOT exclusive)",
        "AND $6 = exclusive",
        "claim_over_several_queues_gets_from_the_ordinary_ones",
    ),
    mutation(
        "what a claim is is not noted",
        "exclusive = CASE WHEN (SELECT count(*) FROM open) = 1",
        "exclusive = CASE WHEN (SELECT count(*) FROM open) = 1 THEN false WHEN true",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "an expired lease tells what the queue is now",
        "IS NOT NULL, j.exclusive,\n        j.lease_until",
        "IS NOT NULL, q.exclusive,\n        j.lease_until",
        "ordinary_claim_stays_so_when_its_queue_changes",
    ),
    mutation(
        "the fence does not follow the clock",
        "greatest(j.fence + 1, (SELECT lease FROM clock))",
        "greatest(j.fence + 1, 0)",
        "fence_grows_when_an_id_is_reused_after_purge",
    ),
    mutation(
        "the fence only follows the clock",
        "greatest(j.fence + 1, (SELECT lease FROM clock))",
        "greatest(j.fence, (SELECT lease FROM clock))",
        "fence_grows_while_the_clock_stands",
    ),
    mutation(
        "a claim takes more bytes than it asked for",
        "WHERE bytes_before < $4",
        "WHERE bytes_before < $4 OR bytes_before >= 0",
        "claim_stops_when_its_bytes_are_reached",
    ),
    // enqueue and promote
    mutation(
        "nobody looks whether anything ended in the range of the new ids",
        "WHERE e.id BETWEEN $2 AND $3",
        "WHERE e.id BETWEEN $2 AND $3 AND false",
        "existing_id_is_answered_as_duplicate",
    ),
    mutation(
        "nobody looks which ids of that range have ended",
        "THEN 1\n                    ELSE 0 END",
        "THEN 1\n                    ELSE 1 END",
        "existing_id_is_answered_as_duplicate",
    ),
    mutation(
        "scheduled jobs are promoted early",
        "WHERE state = 0 AND run_at <= WALL_NOW",
        "WHERE state = 0",
        "jobs_are_not_promoted_early",
    ),
    mutation(
        "request ids are forgotten",
        "SELECT id, WALL_NOW, answer FROM unnest($1::text[], $2::bytea[]) AS n (id, answer)",
        "SELECT id, WALL_NOW, answer FROM unnest($1::text[], $2::bytea[]) AS n (id, answer) WHERE false",
        "repeated_request_answers_as_the_first_time",
    ),
    // cancel, redrive, purge
    mutation(
        "a running job is not marked as cancelled",
        "SET cancel_requested = true",
        "SET cancel_requested = false",
        "running_job_is_cancelled_by_asking_its_holder",
    ),
    mutation(
        "a running job is cancelled at once",
        "WHERE id = ANY ($1) AND state IN (0, 1)",
        "WHERE id = ANY ($1)",
        "running_job_is_cancelled_by_asking_its_holder",
    ),
    mutation(
        "a cancelled job keeps its unique key",
        "AND NOT gone.unique_retained\n    )\n    INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,\n        timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,\n        unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload)\n    SELECT id, fence, reported_fence, run_at, enqueued_at, started_at, WALL_NOW",
        "AND false\n    )\n    INSERT INTO tenure.ended (id, fence, reported_fence, run_at, enqueued_at, started_at, finished_at, heartbeat_us,\n        timeout_us, queue, attempt, max_attempts, lost, max_lost, state, priority, cancel_requested, unique_retained,\n        unique_key, retry, kind, content_type, traceparent, last_error, progress, checkpoint, payload)\n    SELECT id, fence, reported_fence, run_at, enqueued_at, started_at, WALL_NOW",
        "unique_key_is_free_once_its_job_ended",
    ),
    mutation(
        "redrive starts the fence over",
        "SELECT id, fence, reported_fence, WALL_NOW",
        "SELECT id, 0, 0, WALL_NOW",
        "redrive_keeps_the_fence_growing",
    ),
    mutation(
        "redrive keeps the attempts",
        "0, max_attempts, 0, max_lost, 1,",
        "attempt, max_attempts, 0, max_lost, 1,",
        "dead_job_is_offered_again",
    ),
    mutation(
        "redrive keeps the losses",
        "0, max_attempts, 0, max_lost, 1,",
        "0, max_attempts, lost, max_lost, 1,",
        "poison_pill_has_all_its_losses_again",
    ),
    mutation(
        "redrive keeps the cancel",
        "max_lost, 1, priority, false,",
        "max_lost, 1, priority, cancel_requested,",
        "cancelled_job_is_offered_again",
    ),
    mutation(
        "completed jobs are redriven",
        "WHERE id = ANY ($1) AND state IS DISTINCT FROM 3",
        "WHERE id = ANY ($1)",
        "live_and_completed_jobs_are_not_redriven",
    ),
    mutation(
        "redrive by filter starts from the oldest again",
        "($1::uuid IS NULL OR j.id > $1)",
        "($1::uuid IS NULL OR $1 IS NOT NULL)",
        "redrive_by_filter_pages_past_taken_keys",
    ),
    mutation(
        "redrive by filter takes the newest",
        "ORDER BY j.id LIMIT $5",
        "ORDER BY j.id DESC LIMIT $5",
        "filter_redrives_the_oldest_first_up_to_the_limit",
    ),
    mutation(
        "finished jobs go at once",
        "finished_at <= WALL_NOW - $2::bigint",
        "finished_at <= WALL_NOW - $2::bigint * 0",
        "finished_jobs_go_after_their_retention",
    ),
    mutation(
        "a retained key outlives its job",
        "AND gone.unique_retained",
        "AND false",
        "retained_unique_key_stays_taken_until_purge",
    ),
    mutation(
        "request ids are forgotten at once",
        "answered_at <= WALL_NOW - $1::bigint",
        "answered_at <= WALL_NOW - $1::bigint * 0",
        "request_is_remembered_for_a_day",
    ),
    // reads
    mutation(
        "expired shows leases that are not over",
        "WHERE j.state = 2 AND j.lease_until <= LEASE_NOW AND",
        "WHERE j.state = 2 AND",
        "succession_stays_in_one_registry",
    ),
    mutation(
        "a list has no beginning",
        "($1::uuid IS NULL OR j.id < $1)",
        "($1::uuid IS NULL OR $1 IS NOT NULL)",
        "list_is_newest_id_first_in_pages",
    ),
];
