//! The guards of what is done to jobs.

use super::{Mutation, mutation};

// A parameter that is not compared any more still has to occur, or SQLite would refuse the statement for that alone.
pub(super) const MUTATIONS: &[Mutation] = &[
    // finish
    mutation(
        "finish does not compare the fence",
        "fence = ?3 AND cancel_requested = ?5",
        "?3 = ?3 AND cancel_requested = ?5",
        "stale_fence_cannot_complete",
    ),
    mutation(
        "finish does not compare the holder",
        "holder = ?2 AND fence = ?3 AND cancel_requested = ?5",
        "?2 = ?2 AND fence = ?3 AND cancel_requested = ?5",
        "another_holder_cannot_complete",
    ),
    mutation(
        "finish compares the attempt instead of the fence",
        "fence = ?3 AND cancel_requested = ?5",
        "?3 > 0 AND attempt = 1 AND cancel_requested = ?5",
        "same_worker_reclaim_fences_its_own_zombie",
    ),
    mutation(
        "finish does not remember the report",
        "result = ?6,\n        reported_fence = fence,",
        "result = ?6,",
        "repeated_report_is_already_done",
    ),
    mutation(
        "a cancelled job completes",
        "SET state = CASE WHEN cancel_requested THEN 4 ELSE 3 END",
        "SET state = 3",
        "cancelled_attempt_ends_in_cancelled_whatever_its_outcome",
    ),
    mutation(
        "a failure forgets its error",
        "last_error = ?6, lost = 0",
        "last_error = nullif(?6, ?6), lost = 0",
        "failed_job_comes_back_with_backoff",
    ),
    mutation(
        "a failure keeps the losses",
        "last_error = ?6, lost = 0",
        "last_error = ?6",
        "failure_ends_a_row_of_losses",
    ),
    mutation(
        "a hand-back counts as an attempt",
        "attempt = max(attempt - 1, 0),\n",
        "\n",
        "handed_back_job_is_offered_at_once",
    ),
    // renew
    mutation(
        "renew does not compare the fence",
        "adopted = 0\n    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3",
        "adopted = 0\n    WHERE no = ?1 AND state = 2 AND holder = ?2 AND ?3 = ?3",
        "renewal_with_a_stale_fence_is_lost",
    ),
    mutation(
        "renew does not compare the holder",
        "adopted = 0\n    WHERE no = ?1 AND state = 2 AND holder = ?2 AND fence = ?3",
        "adopted = 0\n    WHERE no = ?1 AND state = 2 AND ?2 = ?2 AND fence = ?3",
        "renewal_by_another_holder_is_lost",
    ),
    mutation(
        "renew leaves the mark of our restart",
        "granted_us = ?5, adopted = 0",
        "granted_us = ?5, adopted = adopted",
        "loss_after_a_renewal_counts_again",
    ),
    // progress
    mutation(
        "progress does not compare the fence",
        "WHERE id = ?1 AND state = 2 AND holder = ?2 AND fence = ?3",
        "WHERE id = ?1 AND state = 2 AND holder = ?2 AND ?3 = ?3",
        "progress_needs_the_fence",
    ),
    mutation(
        "progress does not compare the holder",
        "WHERE id = ?1 AND state = 2 AND holder = ?2 AND fence = ?3",
        "WHERE id = ?1 AND state = 2 AND ?2 = ?2 AND fence = ?3",
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
        "j.lease_until <= ?3",
        "?3 = ?3",
        "reap_needs_an_expired_lease",
    ),
    mutation(
        "reap does not compare the lease that was seen",
        "AND j.lease_until = seen.value ->> 2",
        "",
        "renewed_lease_is_not_reaped_by_a_late_reaper",
    ),
    mutation(
        "reap does not compare the fence that was seen",
        "AND j.fence = seen.value ->> 1",
        "",
        "reap_needs_the_fence_that_was_seen",
    ),
    mutation(
        "a loss counts as an attempt",
        "attempt = max(attempt - 1, 0), lost",
        "lost",
        "loss_does_not_count_as_an_attempt",
    ),
    mutation(
        "a loss by our own restart counts",
        "NOT j.adopted AS counted",
        "1 AS counted",
        "loss_caused_by_our_own_restart_does_not_count",
    ),
    mutation(
        "a cancelled job that is lost comes back",
        "CASE WHEN cancel_requested THEN 4 WHEN taken.delay IS NULL",
        "CASE WHEN taken.delay IS NULL",
        "cancelled_job_ends_when_it_is_lost",
    ),
    mutation(
        "a holder that is not retired is reaped",
        "EXISTS (SELECT 1 FROM holders h WHERE h.no = ?2 AND h.retired_at IS NOT NULL)",
        "1",
        "holder_that_is_not_retired_loses_nothing",
    ),
    mutation(
        "an uncounted loss backs off",
        "CASE WHEN ?3 THEN loss_delay",
        "CASE WHEN 1 THEN loss_delay",
        "uncounted_loss_is_offered_at_once",
    ),
    mutation(
        "an extension moves nothing",
        "lease_until = lease_until + ?1",
        "lease_until = lease_until + ?1 * 0",
        "extension_moves_every_lease",
    ),
    // claim
    mutation(
        "a retired holder claims",
        "WHERE h.no = ?1 AND h.retired_at IS NOT NULL",
        "WHERE h.no = ?1 AND 0",
        "retired_holder_claims_nothing",
    ),
    mutation("a paused queue is claimed from", "(q.paused OR", "(0 OR", "paused_queue_offers_nothing"),
    mutation(
        "an exclusive queue gives to anybody",
        "q.exclusive AND NOT ?4",
        "0 AND NOT ?4",
        "exclusive_queue_gives_only_to_claims_that_say_so",
    ),
    mutation(
        "an exclusive queue gives to nobody",
        "q.exclusive AND NOT ?4",
        "q.exclusive AND ?4 = ?4",
        "exclusive_queue_gives_only_to_claims_that_say_so",
    ),
    mutation(
        "who may hold exclusive jobs gets no others",
        "q.exclusive AND NOT ?4",
        "q.exclusive <> ?4",
        "claim_over_several_queues_gets_from_the_ordinary_ones",
    ),
    mutation(
        "what a claim is is not noted",
        "exclusive = ?7",
        "exclusive = ?7 * 0",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "a renewal tells what the queue is now",
        "SELECT no, queue, heartbeat_us, cancel_requested, exclusive",
        "SELECT no, queue, heartbeat_us, cancel_requested, (SELECT q.exclusive FROM queues q WHERE q.no = queue)",
        "exclusive_claim_stays_so_when_its_queue_changes",
    ),
    mutation(
        "an expired lease tells what the queue is now",
        "over.exclusive, over.lease_until",
        "q.exclusive, over.lease_until",
        "ordinary_claim_stays_so_when_its_queue_changes",
    ),
    mutation(
        "a job that was taken back tells nothing",
        "SELECT j.id, j.lease_until, j.holder, j.exclusive",
        "SELECT j.id, j.lease_until, j.holder, 0",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "a job of a holder that is gone tells nothing",
        "SELECT id, lease_until, holder, exclusive",
        "SELECT id, lease_until, holder, 0",
        "renewal_and_rescue_tell_which_claims_are_exclusive",
    ),
    mutation(
        "what a claim was outlives it",
        "granted_us = NULL, exclusive = 0",
        "granted_us = NULL",
        "next_claim_follows_the_queue",
    ),
    mutation(
        "a queue cannot be made exclusive",
        "exclusive = ?3, heartbeat_us",
        "exclusive = ?3 * 0, heartbeat_us",
        "exclusive_queue_survives_a_reopening",
    ),
    mutation(
        "the fence does not follow the clock",
        "max(fence + 1, ?2)",
        "max(fence + 1, ?2 * 0)",
        "fence_grows_when_an_id_is_reused_after_purge",
    ),
    mutation(
        "the fence only follows the clock",
        "max(fence + 1, ?2)",
        "max(fence, ?2)",
        "fence_grows_while_the_clock_stands",
    ),
    mutation(
        "priority is ignored",
        "ORDER BY priority DESC, jobs.run_at, jobs.id LIMIT ?3",
        "ORDER BY jobs.run_at, jobs.id LIMIT ?3",
        "claims_go_by_priority_then_time_then_id",
    ),
    mutation(
        "queues are emptied one after the other",
        "ORDER BY priority DESC, run_at, id LIMIT ?3",
        "LIMIT ?3",
        "claims_are_ordered_across_queues",
    ),
    // enqueue and promote
    mutation(
        "scheduled jobs are promoted early",
        "WHERE state = 0 AND run_at <= ?1",
        "WHERE state = 0 AND ?1 = ?1",
        "jobs_are_not_promoted_early",
    ),
    mutation(
        "promoted jobs are answered without regard to their time",
        "RETURNING id, run_at, queue",
        "RETURNING id, 0, queue",
        "promotion_takes_at_most_its_limit_in_order_of_time",
    ),
    mutation(
        "request ids are forgotten",
        "SELECT answer FROM requests WHERE id = ?1",
        "SELECT answer FROM requests WHERE id = ?1 AND 0",
        "repeated_request_answers_as_the_first_time",
    ),
    // cancel, redrive, purge
    mutation(
        "a running job is not marked as cancelled",
        "SET cancel_requested = 1",
        "SET cancel_requested = 0",
        "running_job_is_cancelled_by_asking_its_holder",
    ),
    mutation(
        "an ended job is cancelled",
        "state IN (0, 1)",
        "state IN (0, 1, 3, 5)",
        "ended_job_cannot_be_cancelled",
    ),
    mutation(
        "redrive starts the fence over",
        "SET state = 1, run_at = ?2",
        "SET fence = 0, reported_fence = 0, state = 1, run_at = ?2",
        "redrive_keeps_the_fence_growing",
    ),
    mutation("redrive keeps the attempts", "attempt = 0, lost = 0", "lost = 0", "dead_job_is_offered_again"),
    mutation(
        "redrive keeps the losses",
        "attempt = 0, lost = 0",
        "attempt = 0",
        "poison_pill_has_all_its_losses_again",
    ),
    mutation(
        "redrive keeps the cancel",
        "lost = 0, cancel_requested = 0",
        "lost = 0",
        "cancelled_job_is_offered_again",
    ),
    mutation(
        "completed jobs are redriven",
        "WHERE id = ?1 AND state IN (4, 5)",
        "WHERE id = ?1 AND state IN (3, 4, 5)",
        "live_and_completed_jobs_are_not_redriven",
    ),
    mutation(
        "redrive by filter starts from the oldest again",
        "WHERE ?6 IS NULL OR id > ?6",
        "WHERE ?6 IS ?6",
        "redrive_by_filter_pages_past_taken_keys",
    ),
    mutation(
        "redrive by filter takes the jobs as they ended",
        "ORDER BY id LIMIT ?5",
        "LIMIT ?5",
        "filter_redrives_the_oldest_first_up_to_the_limit",
    ),
    mutation(
        "dead jobs go as early as completed ones",
        "state = 5 AND state >= 3 AND finished_at <= ?2",
        "state = 5 AND state >= 3 AND ?2 = ?2 AND finished_at <= ?1",
        "finished_jobs_go_after_their_retention",
    ),
    // time and counts
    mutation(
        "the lease clock is not kept",
        "SET value = ?1 WHERE name = 'lease_clock'",
        "SET value = value WHERE ?1 = ?1 AND name = 'lease_clock'",
        "fence_of_a_reused_id_grows_over_a_reopening",
    ),
    mutation(
        "leases are not prolonged on opening",
        "max(lease_until, ?1 + max(granted_us, ?2))",
        "max(lease_until, ?1 * 0, ?2 * 0)",
        "nothing_is_reaped_until_workers_had_time_to_come_back",
    ),
    mutation(
        "on opening a short lease stays short",
        "?1 + max(granted_us, ?2)",
        "?1 + max(granted_us, ?2 * 0)",
        "nothing_is_reaped_until_workers_had_time_to_come_back",
    ),
    mutation(
        "on opening one long lease prolongs all the others",
        "?1 + max(granted_us, ?2)",
        "?1 + max((SELECT max(granted_us) FROM jobs WHERE state = 2), ?2)",
        "long_lease_does_not_keep_others_from_rescue_after_reopening",
    ),
    mutation(
        "on opening a long lease is cut",
        "?1 + max(granted_us, ?2)",
        "?1 + ?2",
        "long_lease_is_granted_in_full_after_reopening",
    ),
    mutation(
        "on opening an extended lease is cut",
        "max(lease_until, ?1 + max(granted_us, ?2))",
        "?1 + max(granted_us, ?2)",
        "reopening_shortens_no_lease",
    ),
    mutation(
        "running jobs are not counted",
        "running = running + ?4",
        "running = running + ?4 * 0",
        "stats_count_every_state",
    ),
];
