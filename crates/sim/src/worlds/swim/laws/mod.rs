//! The laws of this world, each named after what it forbids. Most are asked after every turn of a node; some of them
//! are about what must have happened some time after all faults ended.

pub(super) mod accused_and_silent;
pub(super) mod believed_too_early;
pub(super) mod condemned_after_refutation;
pub(super) mod condemned_by_one;
pub(super) mod datagram_too_long;
pub(super) mod dead_epoch_came_back;
pub(super) mod deaf_node_condemned;
pub(super) mod digest_hides_difference;
pub(super) mod grows_without_bound;
pub(super) mod incarnation_went_back;
pub(super) mod leaders_differ;
pub(super) mod left_came_back;
pub(super) mod talks_without_news;
pub(super) mod views_differ;
pub(super) mod woken_node_condemned;

use crate::law::{Verdict, Violation};

/// The names of all laws.
pub const LAWS: [&str; 15] = [
    accused_and_silent::LAW,
    believed_too_early::LAW,
    condemned_after_refutation::LAW,
    condemned_by_one::LAW,
    datagram_too_long::LAW,
    dead_epoch_came_back::LAW,
    deaf_node_condemned::LAW,
    digest_hides_difference::LAW,
    grows_without_bound::LAW,
    incarnation_went_back::LAW,
    leaders_differ::LAW,
    left_came_back::LAW,
    talks_without_news::LAW,
    views_differ::LAW,
    woken_node_condemned::LAW,
];

/// A law that asks that something holds.
fn holds(law: &'static str, is_so: bool, what: impl FnOnce() -> String) -> Verdict {
    if is_so { Ok(()) } else { Err(Violation { law, what: what() }) }
}
