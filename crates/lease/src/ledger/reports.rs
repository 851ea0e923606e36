//! Outcomes owed to the server: kept until it answers, sent again on every new stream and under every new key.

use std::collections::VecDeque;

use model::{Hold, Nonce, Outcome, Report};

use crate::key_hash::{ByHold, by_hold};

/// What a report takes in a frame apart from its result and error text: ids, tags, the outcome's name.
const REPORT_BYTES_BASE: usize = 96;

#[derive(Debug)]
pub(super) struct Reports {
    unanswered: ByHold<Outcome>,
    unsent: VecDeque<Hold>,
}

impl Reports {
    pub(super) fn new(nonce: Nonce) -> Self {
        Reports { unanswered: by_hold(nonce), unsent: VecDeque::new() }
    }

    pub(super) fn owe(&mut self, hold: Hold, outcome: Outcome) {
        self.unanswered.insert(hold, outcome);
        self.unsent.push_back(hold);
    }

    /// The next batch to send. They stay owed until they are answered.
    pub(super) fn take_unsent(&mut self, entries_max: usize, bytes_max: usize) -> Vec<Report> {
        let mut reports = Vec::with_capacity(self.unsent.len().min(entries_max));
        let mut bytes = 0;
        while reports.len() < entries_max && bytes < bytes_max {
            let Some(hold) = self.unsent.pop_front() else { break };
            if let Some(outcome) = self.unanswered.get(&hold) {
                bytes += size(outcome);
                reports.push(Report { hold, outcome: outcome.clone() });
            }
        }
        reports
    }

    /// A new stream, or a new key: nobody knows which of the sent ones arrived. A repeat changes nothing at the server.
    pub(super) fn send_all_again(&mut self) {
        self.unsent = self.owed().into();
    }

    /// None of them is worth sending any more. Which they were.
    pub(super) fn drop_all(&mut self) -> Vec<Hold> {
        let owed = self.owed();
        self.unsent.clear();
        self.unanswered.clear();
        owed
    }

    /// What was owed of this one, if anything.
    pub(super) fn answered(&mut self, hold: Hold) -> Option<Outcome> {
        self.unanswered.remove(&hold)
    }

    pub(super) fn contains(&self, hold: Hold) -> bool {
        self.unanswered.contains_key(&hold)
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.unanswered.len()
    }

    fn owed(&self) -> Vec<Hold> {
        let mut owed: Vec<Hold> = self.unanswered.keys().copied().collect();
        owed.sort_unstable();
        owed
    }
}

/// What a report of it takes in a frame, about.
pub(super) fn size(outcome: &Outcome) -> usize {
    REPORT_BYTES_BASE
        + match outcome {
            Outcome::Completed { result } => result.len(),
            Outcome::Failed { error, .. } => error.len(),
            Outcome::HandedBack => 0,
        }
}
