//! What people want to see: who is here, who is held back by whom, and what a waiting scheduler waits for.

use std::fmt;
use std::time::Duration;

use model::{Generation, Seat, WorkerKey};

use super::muster::Muster;
use crate::consensus::{HeldBack, How, Member, Reason, Wait};
use crate::health::Health;
use crate::set::Version;

/// The whole picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This scheduler's life.
    pub generation: Generation,
    /// The present set's version.
    pub version: Version,
    /// How many are in it.
    pub members: usize,
    /// Whether the wait goes on.
    pub wait: WaitStatus,
    /// The unsafe wait, if somebody chose one.
    pub unsafe_wait: Option<Duration>,
    /// How many newcomers are queued because others come and go too fast.
    pub queued: usize,
    /// How many members are dead and still read by labels.
    pub departed: usize,
    /// All that are known, in the order of their keys.
    pub workers: Vec<WorkerStatus>,
    /// How long it takes at most until a silent worker is lost.
    pub time_to_lose: Duration,
    /// How long it took the last time until everybody was permitted; two heartbeats if that never happened.
    pub time_to_agree: Duration,
    /// With so many workers that start and die in a loop, new ones begin to depend on the queue: the first time by the second.
    pub turnover_max: u64,
}

/// Whether the wait goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// It does.
    Waiting {
        /// Until now.
        since: Duration,
        /// The longest that is left, unless a worker stays new; zero if only new workers keep it up.
        at_most: Duration,
        /// Why, in sentences.
        reasons: Vec<String>,
    },
    /// It does not.
    Over {
        /// How it ended.
        how: How,
    },
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Who.
    pub key: WorkerKey,
    /// Where it sits.
    pub seat: Option<Seat>,
    /// Its machine and port.
    pub host: String,
    /// How it is.
    pub health: Health,
    /// The version of the set that it said it knows.
    pub echoed: Option<Version>,
    /// The oldest version that it could agree on at a restart.
    pub label: Option<Version>,
    /// Why it may not be given work as far as the set of workers is concerned.
    pub held_back: Option<HeldBackBy>,
}

/// Why a worker is held back, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBackBy {
    /// Why.
    pub why: HeldBack,
    /// By whom, if that is one particular worker.
    pub by: Option<WorkerKey>,
}

impl fmt::Display for HeldBackBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(by) => write!(f, "{} ({by})", self.why),
            None => write!(f, "{}", self.why),
        }
    }
}

impl Muster {
    /// The whole picture, as of the last input.
    pub fn status(&self) -> Status {
        let rules = &self.terms.rules;
        let time_to_lose = rules.lease + rules.update_every;
        let time_to_agree = self.time_to_agree.unwrap_or(rules.heartbeat * 2).max(rules.push_after);
        Status {
            generation: self.terms.generation,
            version: self.consensus.version(),
            members: self.consensus.members().count(),
            wait: self.wait_status(),
            unsafe_wait: self.terms.unsafe_wait,
            queued: self.consensus.queued(),
            departed: self.consensus.departed(),
            workers: self.members.values().filter_map(|member| self.worker_status(*member)).collect(),
            time_to_lose,
            time_to_agree,
            turnover_max: (time_to_lose.as_millis() / time_to_agree.as_millis().max(1)) as u64,
        }
    }

    fn wait_status(&self) -> WaitStatus {
        let reasons = match self.consensus.wait() {
            Wait::Over { how } => return WaitStatus::Over { how },
            Wait::Waiting(reasons) => reasons,
        };
        let longest =
            self.terms.unsafe_wait.map_or(self.terms.safe_wait, |wait| wait.min(self.terms.safe_wait));
        let since = self.now.since(self.started);
        WaitStatus::Waiting {
            since,
            at_most: longest.saturating_sub(since),
            reasons: reasons.into_iter().map(|reason| self.sentence(reason)).collect(),
        }
    }

    fn worker_status(&self, member: Member) -> Option<WorkerStatus> {
        let worker = self.workers.get(&member)?;
        let key_of = |member| Some(self.workers.get(&member)?.key.clone());
        let held_back = self.consensus.permits(member).err();
        Some(WorkerStatus {
            key: worker.key.clone(),
            seat: worker.about.seat.clone(),
            host: worker.about.host.clone(),
            health: worker.health,
            echoed: self.consensus.echo_of(member),
            label: self.consensus.label_of(member),
            held_back: held_back.map(|why| HeldBackBy { why, by: why.by().and_then(key_of) }),
        })
    }

    fn sentence(&self, reason: Reason) -> String {
        match reason {
            Reason::Nobody => "no worker was heard of yet".into(),
            Reason::New { member, count: 1 } => {
                format!("what worker {} runs is not known yet", self.key_of(member))
            }
            Reason::New { member, count } => {
                format!("what {count} workers run is not known yet, {} among them", self.key_of(member))
            }
            Reason::NoId { member, count: 1 } => format!("worker {} brings no set id", self.key_of(member)),
            Reason::NoId { member, count } => {
                format!("{count} workers bring no set id, {} among them", self.key_of(member))
            }
            Reason::IdsDiffer { one, other } => {
                format!("{} and {} bring different set ids", self.key_of(one), self.key_of(other))
            }
            Reason::OtherSet { expected, present } => {
                format!("the workers agree on a set of {expected}, which the {present} that are here are not")
            }
        }
    }

    fn key_of(&self, member: Member) -> &WorkerKey {
        &self.workers.get(&member).expect("every member is a worker for as long as it counts").key
    }
}
