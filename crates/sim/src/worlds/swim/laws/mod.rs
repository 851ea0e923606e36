//! The laws of this world, each named after what it forbids. Most are asked after every turn of a node; some of them
//! are about what must have happened some time after all faults ended.

pub(super) mod accused_and_silent;
pub(super) mod ahead_and_untold;
pub(super) mod believed_too_early;
pub(super) mod condemned_after_refutation;
pub(super) mod condemned_by_one;
pub(super) mod datagram_too_long;
pub(super) mod dead_epoch_came_back;
pub(super) mod deaf_node_condemned;
pub(super) mod digest_hides_difference;
pub(super) mod grows_without_bound;
pub(super) mod incarnation_went_back;
pub(super) mod info_differs;
pub(super) mod late_and_sure;
pub(super) mod leaders_differ;
pub(super) mod left_came_back;
pub(super) mod over_and_stays;
pub(super) mod parted_by_bad_links;
pub(super) mod talks_without_news;
pub(super) mod views_differ;
pub(super) mod woken_node_condemned;

use crate::law::{Verdict, Violation};

/// The names of all laws.
pub const LAWS: [&str; 20] = [
    "accused_and_silent",
    "ahead_and_untold",
    "believed_too_early",
    "condemned_after_refutation",
    "condemned_by_one",
    "datagram_too_long",
    "dead_epoch_came_back",
    "deaf_node_condemned",
    "digest_hides_difference",
    "grows_without_bound",
    "incarnation_went_back",
    "info_differs",
    "late_and_sure",
    "leaders_differ",
    "left_came_back",
    "over_and_stays",
    "parted_by_bad_links",
    "talks_without_news",
    "views_differ",
    "woken_node_condemned",
];

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Law(usize);

impl Law {
    /// The one with this name. To be called in constants only, where a wrong name does not compile.
    const fn named(name: &str) -> Law {
        let mut at = 0;
        while !are_equal(LAWS[at].as_bytes(), name.as_bytes()) {
            at += 1;
        }
        Law(at)
    }

    /// Its place in [`LAWS`].
    pub(super) const fn index(self) -> usize {
        self.0
    }

    const fn name(self) -> &'static str {
        LAWS[self.0]
    }
}

const fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A law that asks that something holds.
fn holds(law: Law, is_so: bool, what: impl FnOnce() -> String) -> Verdict {
    if is_so { Ok(()) } else { Err(Violation { law: law.name(), what: what() }) }
}
