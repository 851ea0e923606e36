//! **The promise:** once a worker's lease is over by its own clock, its key is dead to it: it sends nothing under it and
//! starts nothing, not even when an answer arrives that would have been good news a moment earlier. Otherwise its registry
//! could have given its jobs away while it goes on as if nothing had happened.

use std::time::Duration;

use lease::clock_rule::{self, RateError};
use model::{Instant, WorkerKey};

use super::holds;
use crate::law::Verdict;

pub(super) const LAW: &str = "key_used_after_lapse";

/// What a worker can prove of its present key, kept beside its ledger.
#[derive(Debug, Default)]
pub(in super::super) struct Proof {
    /// The last heartbeat and when it was sent; an answer to an earlier one proves nothing.
    sent: Option<(u64, Instant)>,
    /// Until when the key may be used; `None` before the first acknowledgement.
    until: Option<Instant>,
}

impl Proof {
    /// A heartbeat goes out.
    pub(in super::super) fn sent(&mut self, now: Instant, number: u64) {
        self.sent = Some((number, now));
    }

    /// The heartbeat was taken, with this lease: until when that alone holds. News that comes too late is no news.
    pub(in super::super) fn acknowledged(
        &mut self,
        now: Instant,
        number: u64,
        lease: Duration,
        error: RateError,
    ) -> Option<Instant> {
        let (_, sent_at) = self.sent.take_if(|(sent, _)| *sent == number)?;
        let until = clock_rule::hold_until(sent_at, lease, error);
        let is_news = self.until.is_none_or(|until| now < until);
        if is_news {
            self.until = self.until.max(Some(until));
        }
        Some(until).filter(|_| is_news)
    }

    /// The key is used.
    pub(in super::super) fn check(&self, now: Instant, key: &WorkerKey, what: &str) -> Verdict {
        holds(LAW, self.until.is_none_or(|until| now < until), || {
            let late = now.since(self.until.unwrap_or(now));
            format!("{key} {what} {late:?} after its lease was over")
        })
    }
}
