//! Where nothing happens nothing is spread: some time after all views agree, nobody sends datagrams just to spread news.
//!
//! The time is that of the last news: each is told a few times by each node, five times in a period to three others. It
//! is shorter than a hold-down on purpose. What a node remembers for that long is no news when its time is over: whoever died
//! meanwhile must not be taken for alive again because it once contradicted, nor be found dead a second time.

use super::{Law, holds};
use crate::law::Verdict;

pub(in super::super) const LAW: Law = Law::named("talks_without_news");

/// So many datagrams were sent for nothing but news, by so many nodes, long after there was any.
pub(in super::super) fn check(gossip: u64, nodes: u64) -> Verdict {
    // One for each node would be a rumour that comes late.
    holds(LAW, gossip <= nodes, || format!("{gossip} datagrams with nothing but news, and there was none"))
}
