//! The laws of this world, each named after what it promises. Safety laws are asked after every event that could break them;
//! `job_lost` and `turnover_converges` say that what was promised does happen.

pub(super) mod exit_is_one_way;
pub(super) mod fence_monotone;
pub(super) mod held_back_worker_is_not_lost;
pub(super) mod indirect_never_exceeds_truth;
pub(super) mod job_lost;
pub(super) mod latch_is_permanent;
pub(super) mod never_running_twice;
pub(super) mod no_exit_before_all_runners_known;
pub(super) mod turnover_converges;
pub(super) mod work_for_the_unhealthy;

use crate::law::{Verdict, Violation};

/// The names of all laws.
pub const LAWS: [&str; 10] = [
    exit_is_one_way::LAW,
    fence_monotone::LAW,
    held_back_worker_is_not_lost::LAW,
    indirect_never_exceeds_truth::LAW,
    job_lost::LAW,
    latch_is_permanent::LAW,
    never_running_twice::LAW,
    no_exit_before_all_runners_known::LAW,
    turnover_converges::LAW,
    work_for_the_unhealthy::LAW,
];

/// A law that asks that something holds.
fn holds(law: &'static str, is_so: bool, what: impl FnOnce() -> String) -> Verdict {
    if is_so { Ok(()) } else { Err(Violation { law, what: what() }) }
}
