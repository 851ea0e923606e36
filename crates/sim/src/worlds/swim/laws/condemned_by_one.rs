//! Where second opinions are asked nobody is condemned by a single node: not by its own probes while others are there
//! to be asked, and not against the opinion of those who answered.

use swim::{Config, Reason};

use super::{Law, holds};
use crate::law::Verdict;
use crate::worlds::swim::protocol::Node;

pub(in super::super) const LAW: Law = Law::named("condemned_by_one");

/// A node condemns another; so many were there in its view.
pub(in super::super) fn check(
    config: &Config,
    (by, about): (Node, Node),
    reason: Reason,
    present: usize,
) -> Verdict {
    let Some(opinions) = config.opinions else { return Ok(()) };
    let agrees = match reason {
        // The judge, the judged, and one who could have been asked.
        Reason::NoAnswer => present < 3,
        Reason::Opinions { bad, of } => {
            bad >= 2.min(of) && u32::from(bad) * 100 >= opinions.condemn_percent * u32::from(of)
        }
        Reason::NotRefuted | Reason::Told(_) => true,
    };
    holds(LAW, agrees, || format!("{by} condemns {about} for {reason:?}, with {present} in view"))
}
