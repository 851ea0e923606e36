//! The laws of this world, each named after what it forbids. Safety laws are asked after every event that could break
//! them; `job_lost`, `healthy_worker_reaped` and `left_without_owner` also say that what was promised does happen.

pub(super) mod bind_undone;
pub(super) mod double_judge;
pub(super) mod exclusive_to_the_unfit;
pub(super) mod fence_went_back;
pub(super) mod healthy_worker_reaped;
pub(super) mod inactive_while_held;
pub(super) mod inactive_with_heartbeat_waiting;
pub(super) mod job_lost;
pub(super) mod key_used_after_lapse;
pub(super) mod left_without_owner;
pub(super) mod process_left_behind;
pub(super) mod renewed_on_mismatch;
pub(super) mod reported_while_running;
pub(super) mod running_twice;
pub(super) mod stale_write_accepted;
pub(super) mod started_twice_under_one_fence;
pub(super) mod taken_from_a_live_holder;
pub(super) mod two_owners;

use crate::law::{Verdict, Violation};

/// The names of all laws.
pub const LAWS: [&str; 18] = [
    bind_undone::LAW,
    double_judge::LAW,
    exclusive_to_the_unfit::LAW,
    fence_went_back::LAW,
    healthy_worker_reaped::LAW,
    inactive_while_held::LAW,
    inactive_with_heartbeat_waiting::LAW,
    job_lost::LAW,
    key_used_after_lapse::LAW,
    left_without_owner::LAW,
    process_left_behind::LAW,
    renewed_on_mismatch::LAW,
    reported_while_running::LAW,
    running_twice::LAW,
    stale_write_accepted::LAW,
    started_twice_under_one_fence::LAW,
    taken_from_a_live_holder::LAW,
    two_owners::LAW,
];

/// A law that asks that something holds.
fn holds(law: &'static str, is_so: bool, what: impl FnOnce() -> String) -> Verdict {
    if is_so { Ok(()) } else { Err(Violation { law, what: what() }) }
}
