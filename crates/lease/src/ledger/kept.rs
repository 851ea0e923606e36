//! Results that the server took and that somebody still comes back for.
//!
//! A server that keeps nothing in a store forgets them when it ends. Until the client that submitted the job knows how it
//! ended, the worker is the only one who does for certain: it tells every new life of the server, under whatever key it has
//! then. It forgets when it is told that the client knows, or after a while; what is left when its process ends is lost, and
//! such a job may run again.
//!
//! Only ends that are final are kept: a failure that is tried again says nothing about the attempt after it. Jobs whose
//! clients do not come back cost nothing here.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use model::{Hold, Instant, Nonce, Outcome, Report, Retry};

use super::ReportAnswer;
use super::reports::{Reports, size};
use crate::key_hash::{ByHold, by_hold};
use crate::message::Generation;

/// How long a result is kept if nobody says that its client knows it.
pub(super) const RESULT_KEEP: Duration = Duration::from_secs(600);
/// Results at which no more jobs are taken until clients catch up; those of the jobs at hand are kept in addition.
pub(super) const RESULTS_MAX: usize = 100_000;
/// The same in bytes.
pub(super) const RESULT_BYTES_MAX: usize = 64 << 20;
/// Entries that `ages` may have in excess, whatever is kept.
const AGES_SPARE: usize = 64;

#[derive(Debug)]
pub(super) struct Kept {
    results: ByHold<Entry>,
    /// When each is too old, in order; those that were forgotten before may still be in it.
    ages: VecDeque<(Instant, Hold)>,
    /// What the present server is still to be told.
    unsent: VecDeque<Hold>,
    /// Reports that are not answered yet and whose clients know already: one word overtook the other.
    known: BTreeSet<Hold>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    outcome: Outcome,
    until: Instant,
    /// The last life of the server that took it.
    taken_by: Option<Generation>,
}

impl Kept {
    pub(super) fn new(nonce: Nonce) -> Self {
        Kept {
            results: by_hold(nonce),
            ages: VecDeque::new(),
            unsent: VecDeque::new(),
            known: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// This life of the server answered a report: if it took it and somebody still comes back for it, it is kept.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        report: Report,
        answer: ReportAnswer,
        server: Option<Generation>,
    ) {
        let Report { hold, outcome } = report;
        let is_known = self.known.remove(&hold);
        let is_awaited = || hold.job.submission().is_some_and(|(client, _)| client.is_awaited());
        if is_known || answer != ReportAnswer::Done || !is_final(&outcome) || !is_awaited() {
            return;
        }
        let until = now + RESULT_KEEP;
        self.remove(hold);
        self.bytes += size(&outcome);
        self.results.insert(hold, Entry { outcome, until, taken_by: server });
        self.ages.push_back((until, hold));
        self.trim();
    }

    /// Their clients know. Some of these reports may be `unanswered` yet.
    pub(super) fn forget(&mut self, holds: &[Hold], unanswered: &Reports) {
        for hold in holds {
            self.remove(*hold);
            if unanswered.contains(*hold) {
                self.known.insert(*hold);
            }
        }
        self.trim();
    }

    /// Nothing that is not answered yet will be.
    pub(super) fn forget_unanswered(&mut self) {
        self.known.clear();
    }

    /// Drops what is too old.
    pub(super) fn handle_deadline(&mut self, now: Instant) {
        while let Some((at, hold)) = self.ages.pop_front_if(|(at, _)| *at <= now) {
            if self.is_of(at, hold) {
                self.remove(hold);
            }
        }
        self.trim();
    }

    /// A stream to this life of a server: it is told what it has not taken.
    pub(super) fn tell(&mut self, server: Generation) {
        let is_due = |(at, hold): &&(Instant, Hold)| {
            self.results.get(hold).is_some_and(|entry| entry.until == *at && entry.taken_by != Some(server))
        };
        self.unsent = self.ages.iter().filter(is_due).map(|(_, hold)| *hold).collect();
    }

    /// The next batch to send.
    pub(super) fn take_unsent(&mut self, entries_max: usize, bytes_max: usize) -> Vec<Report> {
        let mut reports = Vec::new();
        let mut bytes = 0;
        while reports.len() < entries_max && bytes < bytes_max {
            let Some(hold) = self.unsent.pop_front() else { break };
            if let Some(entry) = self.results.get(&hold) {
                bytes += size(&entry.outcome);
                reports.push(Report { hold, outcome: entry.outcome.clone() });
            }
        }
        reports
    }

    /// This life of the server answered to one that it was told again. What it refuses is of no use to the next one either.
    pub(super) fn answered(&mut self, hold: Hold, answer: ReportAnswer, server: Option<Generation>) {
        match (answer, self.results.get_mut(&hold)) {
            (_, None) => {}
            (ReportAnswer::Done, Some(entry)) => entry.taken_by = server,
            (ReportAnswer::Refused { .. }, Some(_)) => {
                self.remove(hold);
                self.trim();
            }
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether no more jobs should be taken.
    pub(super) fn is_full(&self) -> bool {
        self.results.len() >= RESULTS_MAX || self.bytes >= RESULT_BYTES_MAX
    }

    /// When the oldest is too old; perhaps earlier.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.ages.front().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn ages_len(&self) -> usize {
        self.ages.len()
    }

    fn remove(&mut self, hold: Hold) {
        if let Some(entry) = self.results.remove(&hold) {
            self.bytes -= size(&entry.outcome);
        }
    }

    /// Clears `ages` of what was forgotten: what is in front at once, the rest when it is more than what is kept. Each entry
    /// pays for that once.
    fn trim(&mut self) {
        while let Some(&(at, hold)) = self.ages.front()
            && !self.is_of(at, hold)
        {
            self.ages.pop_front();
        }
        if self.ages.len() > 2 * self.results.len() + AGES_SPARE {
            let mut ages = std::mem::take(&mut self.ages);
            ages.retain(|(at, hold)| self.is_of(*at, *hold));
            self.ages = ages;
        }
    }

    /// Whether this age is that of a result that is kept.
    fn is_of(&self, at: Instant, hold: Hold) -> bool {
        self.results.get(&hold).is_some_and(|entry| entry.until == at)
    }
}

/// Whether the job has ended with it, whatever the server's policy is.
fn is_final(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed { .. } | Outcome::Failed { retry: Retry::Never, .. } => true,
        Outcome::Failed { .. } | Outcome::HandedBack => false,
    }
}
