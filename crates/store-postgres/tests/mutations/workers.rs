//! The guards of who may hold jobs, and of which server judges them.

use super::{Mutation, SEEN, mutation};

pub(super) const MUTATIONS: &[Mutation] = &[
    // expired, deadlines and extend_leases
    mutation(
        "expired shows the workers of every registry",
        "j.lease_until <= LEASE_NOW AND (h.registry IS NULL OR h.registry = $1)",
        "j.lease_until <= LEASE_NOW AND $1::integer = $1",
        "expired_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "expired hides those who are in no registry",
        "j.lease_until <= LEASE_NOW AND (h.registry IS NULL OR h.registry = $1)",
        "j.lease_until <= LEASE_NOW AND h.registry = $1",
        "expired_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "deadlines are those of every registry",
        "[held.holder])\n    WHERE h.registry IS NULL OR h.registry = $1",
        "[held.holder])\n    WHERE $1::integer = $1",
        "deadlines_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "deadlines leave out those who are in no registry",
        "[held.holder])\n    WHERE h.registry IS NULL OR h.registry = $1",
        "[held.holder])\n    WHERE h.registry = $1",
        "deadlines_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "called off are those of every registry",
        "AND j.cancel_requested AND (h.registry IS NULL OR h.registry = $1)",
        "AND j.cancel_requested AND $1::integer = $1",
        "called_off_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "called off hides those who are in no registry",
        "AND j.cancel_requested AND (h.registry IS NULL OR h.registry = $1)",
        "AND j.cancel_requested AND h.registry = $1",
        "called_off_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "all that runs is called off",
        "AND j.cancel_requested AND (h.registry",
        "AND (h.registry",
        "called_off_are_those_of_the_registry_and_of_none",
    ),
    mutation(
        "what ended holders of others have is shown",
        "WHERE h.registry = $1 AND h.retired_at IS NOT NULL ORDER BY",
        "WHERE $1::integer = $1 AND h.retired_at IS NOT NULL ORDER BY",
        "ended_holders_are_shown_until_all_is_taken_back",
    ),
    mutation(
        "an extension moves the leases of every registry",
        "WHERE j.state = 2 AND (h.registry IS NULL OR h.registry = $1)",
        "WHERE j.state = 2 AND $1::integer = $1",
        "extension_moves_the_leases_of_the_registry_and_of_none",
    ),
    mutation(
        "an extension leaves out those who are in no registry",
        "WHERE j.state = 2 AND (h.registry IS NULL OR h.registry = $1)",
        "WHERE j.state = 2 AND h.registry = $1",
        "extension_moves_the_leases_of_the_registry_and_of_none",
    ),
    // reap
    mutation(
        "reap does not compare the holder that was seen",
        SEEN,
        "(j.state, j.fence, j.lease_until) IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until)",
        "reaper_that_saw_the_former_does_not_take_from_its_successor",
    ),
    mutation(
        "reap does not compare the registry that was seen",
        "AND h.registry IS NOT DISTINCT FROM seen.registry AND",
        "AND",
        "reap_needs_the_registry_that_was_seen",
    ),
    mutation(
        "the former owner reaps",
        "AND h.registry IS NOT DISTINCT FROM seen.registry AND",
        "AND",
        "former_owner_reaps_nobody",
    ),
    mutation(
        "reap takes back what has no registry only",
        "AND h.registry IS NOT DISTINCT FROM seen.registry AND",
        "AND h.registry IS NULL AND",
        "reap_needs_the_registry_that_was_seen",
    ),
    // push
    mutation(
        "push does not compare the fence that was seen",
        "(j.state, j.fence, j.lease_until) IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until)",
        "(j.state, j.lease_until) IS NOT DISTINCT FROM (2::smallint, seen.lease_until)",
        "push_needs_the_fence_that_was_seen",
    ),
    mutation(
        "push does not compare the lease that was seen",
        "(j.state, j.fence, j.lease_until) IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until)",
        "(j.state, j.fence) IS NOT DISTINCT FROM (2::smallint, seen.fence)",
        "push_needs_the_lease_that_was_seen",
    ),
    mutation(
        "push moves a lease back",
        "AND j.lease_until < clock.until",
        "",
        "push_never_moves_a_lease_back",
    ),
    mutation(
        "push takes the mark of a take-over",
        "SET lease_until = clock.until\n",
        "SET lease_until = clock.until, adopted = false\n",
        "loss_by_a_take_over_does_not_count_after_a_push",
    ),
    // enlist
    mutation(
        "another process is enlisted",
        "AND h.nonce = excluded.nonce AND",
        "AND",
        "key_of_another_process_is_taken",
    ),
    mutation(
        "one that pings is enlisted with a lease",
        "AND h.pings = excluded.pings\n",
        "\n",
        "who_pings_and_who_has_a_lease_do_not_share_a_key",
    ),
    mutation(
        "another registry enlists",
        "AND h.pings = excluded.pings\n      AND h.registry = excluded.registry",
        "AND h.pings = excluded.pings",
        "owner_of_another_registry_is_named",
    ),
    mutation(
        "a terminal worker is enlisted",
        "WHERE h.retired_at IS NULL AND h.nonce = excluded.nonce",
        "WHERE h.nonce = excluded.nonce",
        "terminal_key_is_not_enlisted_again",
    ),
    mutation(
        "a registry that is gone enlists",
        "WHERE EXISTS (SELECT 1 FROM tenure.registries r WHERE r.id = new.registry)",
        "",
        "former_owner_enlists_nobody",
    ),
    mutation(
        "the grant is the last",
        "greatest(h.grant_us, excluded.grant_us)",
        "excluded.grant_us",
        "grant_never_gets_smaller",
    ),
    // roster and worker
    mutation(
        "the roster shows every registry",
        "WHERE registry = $1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "WHERE $1::integer = $1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "roster_is_of_one_registry_by_key",
    ),
    mutation(
        "the roster shows terminal workers",
        "WHERE registry = $1 AND nonce IS NOT NULL AND retired_at IS NULL",
        "WHERE registry = $1 AND nonce IS NOT NULL",
        "roster_is_without_terminal_workers",
    ),
    mutation(
        "the roster is in no order",
        "ORDER BY key COLLATE \"C\"",
        "ORDER BY key COLLATE \"C\" DESC",
        "roster_is_of_one_registry_by_key",
    ),
    // retire and readmit
    mutation(
        "the last end stays",
        "WHERE h.retired_at IS NULL AND h.registry = excluded.registry",
        "WHERE h.registry = excluded.registry",
        "first_end_stays",
    ),
    mutation(
        "another registry retires",
        "WHERE h.retired_at IS NULL AND h.registry = excluded.registry",
        "WHERE h.retired_at IS NULL",
        "holder_is_retired_by_its_registry_alone",
    ),
    mutation(
        "a registry that is gone retires",
        "SELECT $1::text, id, WALL_NOW, $3::smallint FROM tenure.registries WHERE id = $2",
        "SELECT $1::text, $2::integer, WALL_NOW, $3::smallint",
        "former_owner_retires_nobody",
    ),
    mutation(
        "whoever asks is told that he retired it",
        "AND h.retired_at IS NOT NULL AND (h.registry IS NOT DISTINCT FROM $2",
        "AND h.retired_at IS NOT NULL AND ($2::integer = $2",
        "holder_is_retired_by_its_registry_alone",
    ),
    mutation(
        "every end is forgiven",
        "AND h.pings AND h.ended = $3",
        "AND h.pings AND $3::smallint = $3",
        "only_silence_is_forgiven",
    ),
    mutation(
        "a worker with a lease is readmitted",
        "AND h.pings AND h.ended = $3",
        "AND h.ended = $3",
        "worker_with_a_lease_is_not_readmitted",
    ),
    mutation(
        "another registry readmits",
        "AND h.ended = $3\n      AND (h.registry IS NOT DISTINCT FROM $2",
        "AND h.ended = $3\n      AND ($2::integer = $2",
        "holder_is_readmitted_by_its_registry_alone",
    ),
    mutation(
        "a holder is readmitted with what it held",
        "AND NOT EXISTS (SELECT 1 FROM tenure.jobs WHERE state = 2 AND holder = $1)",
        "",
        "holder_is_not_readmitted_with_what_it_held",
    ),
    // succeed
    mutation(
        "a terminal worker is succeeded",
        "AND f.retired_at IS NULL AND s.retired_at",
        "AND s.retired_at",
        "terminal_worker_has_no_successor",
    ),
    mutation(
        "a terminal worker succeeds",
        "AND s.retired_at IS NULL AND f.registry",
        "AND f.registry",
        "terminal_worker_succeeds_nobody",
    ),
    mutation("a worker succeeds itself", "AND f.key <> s.key", "", "nobody_succeeds_itself"),
    mutation(
        "a worker of another registry succeeds",
        "AND f.registry IS NOT DISTINCT FROM s.registry",
        "",
        "succession_stays_in_one_registry",
    ),
    mutation(
        "succeed does not end the former",
        "SET retired_at = WALL_NOW, ended = $3",
        "SET retired_at = NULL, ended = nullif($3::smallint, $3)",
        "succession_ends_the_former",
    ),
    mutation(
        "succeed does not compare the holder",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $3, named.fence)",
        "$3::text = $3 AND (j.state, j.fence) IS NOT DISTINCT FROM (2::smallint, named.fence)",
        "succession_takes_only_from_the_former",
    ),
    mutation(
        "succeed does not compare the fence",
        "(j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $3, named.fence)",
        "(j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, $3)",
        "succession_needs_the_fence",
    ),
    mutation(
        "succeed answers for whatever the successor holds",
        "AND EXISTS (SELECT 1 FROM tenure.holders h WHERE h.key = $2 AND h.ended = $4)",
        "AND $2::text = $2 AND $4::smallint = $4",
        "terminal_worker_has_no_successor",
    ),
    mutation(
        "the successor of an exclusive claim has an ordinary one",
        "SET holder = $4, adopted = false",
        "SET holder = $4, adopted = false, exclusive = false",
        "exclusive_claim_stays_so_with_the_successor",
    ),
    mutation(
        "succeed leaves the mark of a take-over",
        "SET holder = $4, adopted = false",
        "SET holder = $4",
        "loss_after_a_succession_counts_again_after_a_take_over",
    ),
    // registries
    mutation(
        "a beat does not count",
        "SET beats = beats + 1",
        "SET beats = beats",
        "beats_are_seen_by_everyone",
    ),
    mutation(
        "a beat shows only its own registry",
        "FROM tenure.registries WHERE id <> $1",
        "FROM tenure.registries WHERE id <> $1 AND false",
        "beats_are_seen_by_everyone",
    ),
    mutation(
        "a resignation is not noted",
        "SET resigned = true",
        "SET resigned = false",
        "resignation_is_seen",
    ),
    mutation(
        "everyone resigns",
        "SET resigned = true WHERE id = $1",
        "SET resigned = true WHERE $1::integer = $1",
        "resignation_is_seen",
    ),
    mutation(
        "a take-over does not compare the beats that were seen",
        "WHERE id = $1 AND beats = $2 FOR UPDATE",
        "WHERE id = $1 AND $2::bigint = $2 FOR UPDATE",
        "take_over_needs_the_beats_that_were_seen",
    ),
    mutation(
        "a registry that is gone takes over",
        "SELECT id FROM tenure.registries WHERE id = $1 FOR KEY SHARE",
        "SELECT $1::integer",
        "registry_that_is_gone_takes_nobody_over",
    ),
    mutation(
        "a take-over leaves the terminal behind",
        "WHERE h.registry = $1\n        UNION\n        (SELECT key FROM tenure.holders WHERE registry = $1 AND",
        "WHERE h.registry = $1 AND false\n        UNION\n        (SELECT key FROM tenure.holders WHERE registry = $1 AND false AND",
        "take_over_moves_everybody_at_once",
    ),
    mutation(
        "a take-over answers the terminal, too",
        "h.name, h.retired_at IS NULL",
        "h.name, true",
        "take_over_moves_everybody_at_once",
    ),
    mutation(
        "a take-over takes everybody there is",
        "FROM tenure.holders WHERE registry = $1 AND retired_at IS NULL",
        "FROM tenure.holders WHERE $1::integer = $1 AND retired_at IS NULL",
        "take_over_moves_everybody_at_once",
    ),
    mutation(
        "a loss by a take-over counts",
        "SET adopted = true\n    FROM (SELECT id, holder FROM held",
        "SET adopted = false\n    FROM (SELECT id, holder FROM held",
        "loss_by_a_take_over_does_not_count",
    ),
    mutation(
        "a take-over marks the jobs of others",
        "WHERE state = 2 AND holder = ANY ($1)",
        "WHERE state = 2 AND $1::text[] IS NOT NULL",
        "take_over_leaves_the_losses_of_others",
    ),
    mutation(
        "a registry that was taken stays",
        "DELETE FROM tenure.registries WHERE id = $1",
        "DELETE FROM tenure.registries WHERE id = $1 AND false",
        "beat_of_a_registry_that_was_taken_is_none",
    ),
    // purge
    mutation(
        "terminal workers are forgotten at once",
        "h.retired_at <= WALL_NOW - $1::bigint",
        "h.retired_at <= WALL_NOW - $1::bigint * 0",
        "terminal_worker_is_remembered_for_a_day",
    ),
    mutation(
        "terminal workers are forgotten with what they hold",
        "AND (SELECT j.id FROM tenure.jobs j WHERE j.state = 2 AND j.holder = h.key LIMIT 1) IS NULL",
        "",
        "terminal_worker_is_remembered_while_it_holds",
    ),
    mutation(
        "the latest of the terminal workers are forgotten first",
        "ORDER BY h.retired_at LIMIT",
        "ORDER BY h.retired_at DESC LIMIT",
        "purge_forgets_workers_up_to_its_limit_oldest_first",
    ),
];
