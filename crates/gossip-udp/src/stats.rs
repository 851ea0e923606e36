//! What was counted.

use crate::codec::Malformed;
use crate::seal::Refused;

/// Counts since the start. Only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams received, dropped ones included.
    pub datagrams_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Their bytes, without the headers of UDP and IP.
    pub bytes_in: u64,
    /// As `bytes_in`.
    pub bytes_out: u64,
    /// Datagrams that the machine did not take from us: no route, no room. They count as lost.
    pub send_failures: u64,
    /// Datagrams received and not passed on.
    pub dropped: Drops,
    /// Streams that others opened.
    pub streams_in: u64,
    /// Streams that we opened.
    pub streams_out: u64,
    /// Streams not begun because there were too many.
    pub streams_refused: u64,
    /// Streams that ended without a response: no connection, no answer in time, not sealed by us.
    pub streams_failed: u64,
    /// Times that the event loop came late.
    pub lags: u64,
}

/// Datagrams received and not passed on, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Not of our form; or, with the right seal, not a message.
    pub malformed: u64,
    /// A version that we do not speak.
    pub wrong_version: u64,
    /// Sealed with a key that we do not have, or not sealed.
    pub wrong_key: u64,
    /// Of another cluster.
    pub wrong_cluster: u64,
    /// Damaged on the way, or by somebody without our key.
    pub forged: u64,
    /// Received before, too old to tell, or our own.
    pub replayed: u64,
    /// Larger than any of ours.
    pub oversized: u64,
    /// Not read, because too much from the same address was dropped.
    pub rate_limited: u64,
    /// Cut off on purpose, by the [`Filter`](crate::Filter).
    pub filtered: u64,
}

impl Drops {
    /// All together.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }

    /// Each reason by its name.
    pub fn by_reason(&self) -> [(&'static str, u64); 9] {
        [
            ("malformed", self.malformed),
            ("wrong_version", self.wrong_version),
            ("wrong_key", self.wrong_key),
            ("wrong_cluster", self.wrong_cluster),
            ("forged", self.forged),
            ("replayed", self.replayed),
            ("oversized", self.oversized),
            ("rate_limited", self.rate_limited),
            ("filtered", self.filtered),
        ]
    }

    pub(crate) fn count(&mut self, dropped: Dropped) {
        let counter = match dropped {
            Dropped::Malformed(_) | Dropped::Refused(Refused::Short) => &mut self.malformed,
            Dropped::Refused(Refused::Version(_)) => &mut self.wrong_version,
            Dropped::Refused(Refused::Key) => &mut self.wrong_key,
            Dropped::Refused(Refused::Cluster) => &mut self.wrong_cluster,
            Dropped::Refused(Refused::Forged) => &mut self.forged,
            Dropped::Replayed => &mut self.replayed,
            Dropped::Oversized => &mut self.oversized,
            Dropped::RateLimited => &mut self.rate_limited,
            Dropped::Filtered => &mut self.filtered,
        };
        *counter += 1;
    }
}

/// Why a datagram is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    Malformed(Malformed),
    Refused(Refused),
    Replayed,
    Oversized,
    RateLimited,
    Filtered,
}
