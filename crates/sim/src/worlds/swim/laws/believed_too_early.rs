//! Who was taken for dead as unreliable is not believed before the hold-down is over, whatever it says: it would only
//! be condemned again. Unless somebody else vouches for it, or was told by others that it answers; or it died once more, not
//! as unreliable, after somebody had believed it.

use std::time::Duration;

use super::{Law, holds};
use crate::law::Verdict;
use crate::time::Time;
use crate::worlds::swim::books::Seen;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("believed_too_early");

/// A node believes that one again, of which it knew this; `vouched` if it has just read that another vouches for it.
pub(in super::super) fn check(
    now: Time,
    (by, about): (Node, Node),
    seen: &Seen,
    vouched: bool,
    hold_down: Duration,
) -> Verdict {
    let held = now.since(seen.since);
    // Clocks may be a little fast.
    let is_over = held >= hold_down.mul_f64(0.999);
    holds(LAW, !seen.is_unreliable || is_over || vouched || seen.is_found_good, || {
        format!("{by} believes {about}, which was unreliable, again after {held:?} of {hold_down:?}")
    })
}
