//! The passive detector: listens for pings and says who fell silent.
//!
//! Pings never come here. The caller notes the time of each member's last ping wherever it likes and tells it when
//! asked, so a ping costs this machine nothing. Members wait in buckets, filed by the check at which they could be dead
//! at the earliest; a check looks at the bucket that is due and no other. Who pinged meanwhile is filed again by that
//! ping, so each member is looked at about once per timeout, however often it pings and however many there are.
//!
//! ```text
//!   check    1     2     3     4     5 …           timeout: three checks
//!                          [a b] [c]               at check 3: a pinged after check 2, b did not
//!                            │
//!                            ├─ a ──────► [.. a]   filed again
//!                            └─ b  silent
//! ```
//!
//! **Own stalls.** A check that comes late by more than a third of the timeout means that we stood still, and pings may
//! be waiting unread: judging begins anew, and everybody has a full timeout from then, as after a start.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::{Instant, Invalid};

/// How long silence may last. Death is noticed within `timeout` and one `check_every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassiveConfig {
    /// Silence beyond this is death.
    pub timeout: Duration,
    /// From one check to the next. At most a third of the timeout: a stall of ours that no check notices is then too
    /// short to make anybody look dead who pings in time.
    pub check_every: Duration,
}

impl PassiveConfig {
    /// The shortest time between checks: more of them cost more than they bring.
    pub const CHECK_EVERY_MIN: Duration = Duration::from_millis(1);

    /// Notices a death within 6 s; on a slow network, also some that are none.
    pub const fn aggressive() -> Self {
        PassiveConfig { timeout: Duration::from_secs(5), check_every: Duration::from_secs(1) }
    }

    /// Notices a death within 40 s, for networks with long gaps.
    pub const fn conservative() -> Self {
        PassiveConfig { timeout: Duration::from_secs(30), check_every: Duration::from_secs(10) }
    }

    /// Refuses what cannot be judged by, for members that ping at this interval: three pings must fit in the timeout.
    pub fn check(self, ping_interval: Duration) -> Result<Self, Invalid> {
        let PassiveConfig { timeout, check_every } = self;
        if check_every < Self::CHECK_EVERY_MIN || check_every > timeout / 3 {
            return Err(Invalid::new(format!(
                "check interval of {check_every:?} is out of range; choose between {:?} and {:?}, a third of the timeout",
                Self::CHECK_EVERY_MIN,
                timeout / 3
            )));
        }
        if ping_interval > self.ping_interval_max() {
            return Err(Invalid::new(format!(
                "ping interval of {ping_interval:?} is too long; three must fit in the timeout, so choose at most {:?}",
                self.ping_interval_max()
            )));
        }
        Ok(self)
    }

    /// Who pings at least this often is not taken for dead when two pings in a row are lost or late.
    pub fn ping_interval_max(self) -> Duration {
        self.timeout / 3
    }

    /// A check that comes later than this shows that we stood still.
    fn late_max(self) -> Duration {
        self.timeout / 3
    }
}

impl Default for PassiveConfig {
    /// Notices a death within 20 s.
    fn default() -> Self {
        PassiveConfig { timeout: Duration::from_secs(15), check_every: Duration::from_secs(5) }
    }
}

/// Something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<M> {
    /// Judging begins: everybody known has a full timeout from now, and the first check comes after one interval.
    Started,
    /// Watch this member. It is watched until it is named in an [`Output`], or is found to have left.
    Joined {
        /// The caller's handle of it; a member that comes back after it left or fell silent is a new one.
        member: M,
        /// When it pinged last.
        last_ping: Instant,
    },
}

/// Do this for me.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output<M> {
    /// This member was silent for too long and is not watched any more. If it has pinged since, say [`Input::Joined`].
    Silent {
        /// Who.
        member: M,
        /// Its last ping, as it was told.
        last_ping: Instant,
    },
}

/// The machine. After each deadline or check, drain [`poll_output`](Self::poll_output) before the next.
#[derive(Debug)]
pub struct SilenceWatch<M> {
    config: PassiveConfig,
    /// When judging began. Checks are counted from here, and nobody's silence began earlier.
    began: Instant,
    /// The number of the next check.
    next_check: u64,
    /// Members by the number of the check at which they are dead unless they ping.
    buckets: BTreeMap<u64, Vec<M>>,
    /// How many members all checks together looked at.
    looked_at: u64,
    outputs: VecDeque<Output<M>>,
}

impl<M> SilenceWatch<M> {
    /// A watch over nobody yet, whose judging begins now.
    ///
    /// # Panics
    ///
    /// When the config does not pass its own [`check`](PassiveConfig::check).
    pub fn new(config: PassiveConfig, now: Instant) -> Self {
        SilenceWatch {
            config: config
                .check(config.ping_interval_max())
                .expect("a watch is built with a config that was checked"),
            began: now,
            next_check: 1,
            buckets: BTreeMap::new(),
            looked_at: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<M>) {
        match input {
            Input::Started => self.begin(now),
            Input::Joined { member, last_ping } => self.file(member, last_ping),
        }
    }

    /// When the next check is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let span = self.nanos_per_check().saturating_mul(self.next_check);
        Some(self.began + Duration::from_nanos(span))
    }

    /// It is then: looks at the members that could be dead by now. `last_ping` says when a member pinged last, `None`
    /// if it left.
    pub fn handle_deadline(&mut self, now: Instant, last_ping: impl FnMut(&M) -> Option<Instant>) {
        let Some(due_at) = self.next_deadline().filter(|due_at| *due_at <= now) else { return };
        if now.since(due_at) > self.config.late_max() {
            self.begin(now);
            return;
        }
        let check = self.checks_by(now);
        self.next_check = check + 1;
        self.look(now, check, last_ping);
    }

    /// A check out of turn, to the instant, and without regard to whether the last one was long ago. It finds whoever
    /// is dead now, and looks also at those who could be dead by the next check.
    pub fn check(&mut self, now: Instant, last_ping: impl FnMut(&M) -> Option<Instant>) {
        self.look(now, self.checks_by(now) + 1, last_ping);
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output<M>> {
        self.outputs.pop_front()
    }

    /// How many are watched, those included that left since they were last looked at.
    pub fn watched(&self) -> usize {
        self.buckets.values().map(Vec::len).sum()
    }

    /// How many members all checks together have looked at: the cost of checking.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    fn begin(&mut self, now: Instant) {
        self.began = now;
        self.next_check = 1;
        // Nobody's silence began before now, so they all wait for the same check.
        let members: Vec<M> = std::mem::take(&mut self.buckets).into_values().flatten().collect();
        let check = self.check_after(now);
        self.buckets.insert(check, members);
    }

    /// Looks at everybody who is filed under this check or an earlier one.
    fn look(&mut self, now: Instant, check: u64, mut last_ping: impl FnMut(&M) -> Option<Instant>) {
        let later = self.buckets.split_off(&(check + 1));
        let due = std::mem::replace(&mut self.buckets, later);
        for member in due.into_values().flatten() {
            self.looked_at += 1;
            match last_ping(&member) {
                None => {}
                Some(last_ping) if self.is_silent(now, last_ping) => {
                    self.outputs.push_back(Output::Silent { member, last_ping });
                }
                Some(last_ping) => self.file(member, last_ping),
            }
        }
    }

    fn file(&mut self, member: M, last_ping: Instant) {
        self.buckets.entry(self.check_after(last_ping)).or_default().push(member);
    }

    fn is_silent(&self, now: Instant, last_ping: Instant) -> bool {
        now.since(last_ping.max(self.began)) > self.config.timeout
    }

    /// The first check at which somebody whose last ping was then is dead.
    fn check_after(&self, last_ping: Instant) -> u64 {
        self.checks_by(last_ping.max(self.began) + self.config.timeout) + 1
    }

    /// How many checks are due from the beginning up to this instant.
    fn checks_by(&self, at: Instant) -> u64 {
        at.as_nanos().saturating_sub(self.began.as_nanos()) / self.nanos_per_check()
    }

    fn nanos_per_check(&self) -> u64 {
        u64::try_from(self.config.check_every.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
