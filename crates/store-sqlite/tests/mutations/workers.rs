//! The guards of who may hold jobs.

use super::{Mutation, mutation};

pub(super) const MUTATIONS: &[Mutation] = &[
    // reap
    mutation(
        "reap does not compare the holder that was seen",
        "AND j.holder = seen.value ->> 3",
        "",
        "reaper_that_saw_the_former_does_not_take_from_its_successor",
    ),
    // push
    mutation(
        "push does not compare the fence that was seen",
        "AND j.fence = seen.value ->> 1",
        "",
        "push_needs_the_fence_that_was_seen",
    ),
    mutation(
        "push does not compare the lease that was seen",
        "AND j.lease_until = seen.value ->> 2",
        "",
        "push_needs_the_lease_that_was_seen",
    ),
    mutation("push moves a lease back", " AND j.lease_until < ?2", "", "push_never_moves_a_lease_back"),
    mutation(
        "push takes the mark of our restart",
        "SET lease_until = ?2\n",
        "SET lease_until = ?2, adopted = 0\n",
        "loss_by_restart_does_not_count_after_a_push",
    ),
    // enlist
    mutation(
        "another process is enlisted",
        "nonce = excluded.nonce AND registry IS",
        "1 AND registry IS",
        "key_of_another_process_is_taken",
    ),
    mutation(
        "another registry enlists",
        "AND registry IS excluded.registry",
        "",
        "key_of_another_registry_is_taken",
    ),
    mutation(
        "a terminal worker is enlisted",
        "WHERE retired_at IS NULL AND (nonce IS NULL",
        "WHERE (nonce IS NULL",
        "terminal_key_is_not_enlisted_again",
    ),
    mutation(
        "the grant is the last",
        "max(coalesce(grant_us, 0), excluded.grant_us)",
        "excluded.grant_us",
        "grant_never_gets_smaller",
    ),
    mutation(
        "the name is the last",
        "name = coalesce(name, excluded.name)",
        "name = excluded.name",
        "grant_never_gets_smaller",
    ),
    // roster and worker
    mutation(
        "the roster shows every registry",
        "WHERE registry IS ?1 AND",
        "WHERE ?1 IS ?1 AND",
        "roster_is_of_one_registry_by_key",
    ),
    mutation(
        "the roster shows terminal workers",
        "holders INDEXED BY holders_active\n    WHERE registry IS ?1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "holders\n    WHERE registry IS ?1 AND nonce IS NOT NULL",
        "roster_is_without_terminal_workers",
    ),
    mutation(
        "whoever claimed is a worker",
        "AND (nonce IS NOT NULL OR retired_at IS NOT NULL)",
        "",
        "key_that_only_claimed_is_no_worker",
    ),
    // retire and readmit
    mutation(
        "the last end stays",
        "ended = excluded.ended\n    WHERE retired_at IS NULL",
        "ended = excluded.ended",
        "first_end_stays",
    ),
    mutation(
        "every end is forgiven",
        "registry IS NULL AND ended = ?2",
        "registry IS NULL AND ?2 = ?2",
        "only_silence_is_forgiven",
    ),
    mutation(
        "the worker of a registry is readmitted",
        "AND registry IS NULL AND ended",
        "AND ended",
        "worker_of_a_registry_is_not_readmitted",
    ),
    mutation(
        "a holder that was never enlisted is readmitted",
        "AND nonce IS NOT NULL AND registry IS NULL",
        "AND registry IS NULL",
        "worker_of_a_registry_is_not_readmitted",
    ),
    mutation(
        "a holder is readmitted with what it held",
        "AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = holders.no)",
        "",
        "holder_is_not_readmitted_with_what_it_held",
    ),
    // succeed
    mutation(
        "a terminal worker is succeeded",
        "WHERE no = ?1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "WHERE no = ?1 AND nonce IS NOT NULL",
        "terminal_worker_has_no_successor",
    ),
    mutation(
        "a holder that was never enlisted is succeeded",
        "WHERE no = ?1 AND nonce IS NOT NULL",
        "WHERE no = ?1",
        "succession_needs_both_enlisted",
    ),
    mutation(
        "a terminal worker succeeds",
        " AND s.retired_at IS NULL",
        "",
        "terminal_worker_succeeds_nobody",
    ),
    mutation(
        "a holder that was never enlisted succeeds",
        "AND s.nonce IS NOT NULL",
        "",
        "succession_needs_both_enlisted",
    ),
    mutation("a worker succeeds itself", "AND ?1 <> ?2", "AND ?1 = ?1", "nobody_succeeds_itself"),
    mutation(
        "succeed does not end the former",
        "SET retired_at = ?3, ended = ?4",
        "SET retired_at = nullif(?3, ?3), ended = nullif(?4, ?4)",
        "succession_ends_the_former",
    ),
    mutation(
        "succeed does not compare the holder",
        "j.holder = ?2 AND j.fence = named.value ->> 1",
        "?2 = ?2 AND j.fence = named.value ->> 1",
        "succession_takes_only_from_the_former",
    ),
    mutation(
        "succeed does not compare the fence",
        "AND j.fence = named.value ->> 1",
        "AND named.value ->> 1",
        "succession_needs_the_fence",
    ),
    mutation(
        "succeed answers for whatever the successor holds",
        "AND EXISTS (SELECT 1 FROM holders h WHERE h.no = ?2 AND h.ended = ?4)",
        "AND ?2 = ?2 AND ?4 = ?4",
        "terminal_worker_has_no_successor",
    ),
    mutation(
        "the successor of an exclusive claim has an ordinary one",
        "SET holder = ?3, adopted = 0",
        "SET holder = ?3, adopted = 0, exclusive = 0",
        "exclusive_claim_stays_so_with_the_successor",
    ),
    mutation(
        "succeed leaves the mark of our restart",
        "SET holder = ?3, adopted = 0",
        "SET holder = ?3",
        "loss_after_a_succession_counts_again",
    ),
    // purge
    mutation(
        "terminal workers are forgotten at once",
        "h.retired_at <= ?1",
        "h.retired_at >= ?1 * 0",
        "terminal_worker_is_remembered_for_a_day",
    ),
    mutation(
        "terminal workers are forgotten with what they hold",
        "WHERE h.retired_at <= ?1\n          AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = h.no)",
        "WHERE h.retired_at <= ?1",
        "terminal_worker_is_remembered_while_it_holds",
    ),
    mutation(
        "the latest of the terminal workers are forgotten first",
        "ORDER BY h.retired_at, h.key",
        "ORDER BY h.retired_at DESC, h.key",
        "purge_forgets_workers_up_to_its_limit_oldest_first",
    ),
    mutation(
        "holders are forgotten with what they hold",
        "h.retired_at IS NULL\n          AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_running WHERE state = 2 AND holder = h.no)",
        "h.retired_at IS NULL",
        "purge_leaves_holders_of_running_jobs",
    ),
];
