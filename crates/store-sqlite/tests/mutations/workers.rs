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
    mutation(
        "reap does not compare the registry that was seen",
        "AND h.registry IS seen.value ->> 4",
        "",
        "reap_needs_the_registry_that_was_seen",
    ),
    // expired, deadlines and extend_leases
    mutation(
        "expired leases of all registries are seen",
        "AND r.registry <> ?3",
        "AND r.registry <> ?3 AND 0",
        "expired_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "expired leases of plain holders are not seen",
        "AND r.registry <> ?3",
        "AND r.registry IS NOT ?3",
        "expired_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "the first registry sees expired leases of all",
        "WHERE ?3 = 1 AND NOT EXISTS (SELECT 1 FROM holders INDEXED BY holders_elsewhere WHERE registry <> 1)",
        "WHERE ?3 = 1",
        "expired_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "an empty registry sees expired leases of the first",
        "WHERE ?3 = 1 AND NOT EXISTS",
        "WHERE NOT EXISTS",
        "registry_without_workers_sees_nobody",
    ),
    mutation(
        "the deadlines of all registries are told",
        "AND h.registry <> ?1",
        "AND h.registry <> ?1 AND 0",
        "deadlines_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "the deadlines of plain holders are not told",
        "AND h.registry <> ?1",
        "AND h.registry IS NOT ?1",
        "deadlines_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "the first registry is told the deadlines of all",
        "?1 = 1 AND NOT EXISTS (SELECT 1 FROM holders INDEXED BY holders_elsewhere WHERE registry <> 1)",
        "?1 = 1",
        "deadlines_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "an empty registry is told the deadlines of the first",
        "?1 = 1 AND NOT EXISTS",
        "NOT EXISTS",
        "registry_without_workers_sees_nobody",
    ),
    mutation(
        "the leases of all registries are extended",
        "AND h.registry <> ?2",
        "AND h.registry <> ?2 AND 0",
        "extension_moves_the_leases_of_the_registry_and_of_none",
    ),
    mutation(
        "the leases of plain holders are not extended",
        "AND h.registry <> ?2",
        "AND h.registry IS NOT ?2",
        "extension_moves_the_leases_of_the_registry_and_of_none",
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
        "OR nonce = excluded.nonce AND pings",
        "OR pings",
        "key_of_another_process_is_taken",
    ),
    mutation(
        "another registry enlists",
        "AND registry = excluded.registry)",
        ")",
        "owner_of_another_registry_is_named",
    ),
    mutation(
        "who pings is enlisted with a lease",
        "AND pings = excluded.pings AND registry",
        "AND registry",
        "who_pings_and_who_has_a_lease_do_not_share_a_key",
    ),
    mutation(
        "the process does not come before the registry",
        "SELECT ended, nonce = ?2 AND pings = ?3, registry",
        "SELECT ended, ?2 = ?2 AND ?3 = ?3, registry",
        "owner_of_another_registry_is_named",
    ),
    mutation(
        "a terminal worker is enlisted",
        "WHERE retired_at IS NULL\n      AND (nonce IS NULL",
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
        "WHERE registry = ?1 AND",
        "WHERE ?1 = ?1 AND",
        "roster_is_of_one_registry_by_key",
    ),
    mutation(
        "the roster shows terminal workers",
        "holders INDEXED BY holders_active\n    WHERE registry = ?1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "holders\n    WHERE registry = ?1 AND nonce IS NOT NULL",
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
        "WHERE retired_at IS NULL AND (registry IS NULL",
        "WHERE (registry IS NULL",
        "first_end_stays",
    ),
    mutation(
        "the worker of another registry is retired",
        "AND (registry IS NULL OR registry = excluded.registry)",
        "",
        "holder_is_retired_by_its_registry_alone",
    ),
    mutation(
        "the end of another's worker is confirmed",
        "SELECT registry = ?2 FROM holders",
        "SELECT ?2 = ?2 FROM holders",
        "holder_is_retired_by_its_registry_alone",
    ),
    mutation(
        "every end is forgiven",
        "AND registry = ?3 AND ended = ?2",
        "AND registry = ?3 AND ?2 = ?2",
        "only_silence_is_forgiven",
    ),
    mutation(
        "a worker with a lease is readmitted",
        "AND pings AND registry = ?3",
        "AND registry = ?3",
        "worker_with_a_lease_is_not_readmitted",
    ),
    mutation(
        "another's holder is readmitted",
        "AND pings AND registry = ?3",
        "AND pings AND ?3 = ?3",
        "holder_is_readmitted_by_its_registry_alone",
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
        "WHERE no = ?1 AND retired_at IS NULL",
        "WHERE no = ?1",
        "terminal_worker_has_no_successor",
    ),
    mutation(
        "a terminal worker succeeds",
        " AND s.retired_at IS NULL",
        "",
        "terminal_worker_succeeds_nobody",
    ),
    mutation(
        "holders that were never enlisted succeed each other",
        "AND s.registry = holders.registry",
        "AND s.registry IS holders.registry",
        "succession_needs_both_enlisted",
    ),
    mutation(
        "a worker of another registry succeeds",
        "AND s.registry = holders.registry",
        "",
        "succession_stays_in_one_registry",
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
