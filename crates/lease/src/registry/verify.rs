//! Row leases that are over: does anybody have the job?
//!
//! | the holder | says it has the job | verdict |
//! |---|---|---|
//! | is judged by another registry | – | not ours |
//! | anybody's, while this registry is not ours for certain | – | ask again |
//! | joining, unsynced, stopping, or we do not know yet who was alive | – | ask again |
//! | active | yes | push, unless the job must beat by itself: then it is lost |
//! | the same, and the job is exclusive and silent | yes | tell it to stop, ask again |
//! | active | yes, and its row is being asked | ask again |
//! | active | no, and its start was sent a moment ago (less than `verify_after`) | ask again |
//! | active | no, or it was told to stop | refused from now on, then take back |
//! | the same, and the job is volatile | no, and its start may be on its way, or it was told to stop | ask again |
//! | ended | – | take back, once the end is durable |
//! | unknown, and workers are being taken over | – | ask again |
//! | unknown | – | take back, unless it pings and the job need not beat by itself: push |

use model::{Hold, Instant, WorkerKey};

use super::bindings::{Findings, Standing};
use super::entity::Stage;
use super::io::{Output, Row, StartResult, Verdict};
use super::machine::Registry;
use super::mutation::Mutation;
use super::timers::{Due, Timer};
use crate::message::Stop;

impl Registry {
    /// Judges rows whose lease is over: one verdict for each, in their order. May queue outputs.
    pub fn verify(&mut self, now: Instant, rows: &[Row]) -> Vec<Verdict> {
        self.notice_stall(now);
        rows.iter().map(|row| self.verify_row(now, row)).collect()
    }

    fn verify_row(&mut self, now: Instant, row: &Row) -> Verdict {
        if row.registry.is_some_and(|registry| registry != self.rules.terms.registry) {
            // Whoever owns that one judges its workers.
            let judges = self.rules.has(Mutation::NonOwnerJudges);
            return if judges { Verdict::TakeBack } else { Verdict::NotOurs };
        }
        if !self.is_restored && !self.rules.has(Mutation::JudgedBeforeRestored) {
            return Verdict::AskAgain;
        }
        if self.rules.suspends_judgement(now) {
            return Verdict::AskAgain;
        }
        let may_be_taken_over = !self.taking.is_empty() && !self.rules.has(Mutation::TakenOverIsUnknown);
        let Some(worker) = self.workers.get_mut(&row.holder) else {
            return match row.registry {
                _ if row.pings && !row.beats_itself => Verdict::Push,
                Some(_) if may_be_taken_over => Verdict::AskAgain,
                _ => Verdict::TakeBack,
            };
        };
        match &worker.stage {
            Stage::Joining(_) | Stage::Stopping => return Verdict::AskAgain,
            Stage::Ended(ending) => {
                let is_durable = ending.farewell.is_none() || self.rules.has(Mutation::RetireNotDurableFirst);
                return if is_durable { Verdict::TakeBack } else { Verdict::AskAgain };
            }
            Stage::Active(_) => {
                if !worker.is_synced() && !self.rules.has(Mutation::UnsyncedIsNotBound) {
                    return Verdict::AskAgain;
                }
            }
        }
        // The row's lease began with the claim. On a slow disk that is long before the start was sent.
        let just_sent = worker.bindings.was_sent_after(row.hold, now - self.rules.terms.verify_after);
        // It runs from when it was sent: only a start that certainly came to nothing is taken back.
        let start = worker.bindings.start_result(row.hold, worker.starts_seen);
        let is_volatile = row.hold.job.is_volatile();
        let may_run = is_volatile && start != StartResult::NotStarted;
        match worker.bindings.standing(row.hold) {
            Some(Standing::Checking) => return Verdict::AskAgain,
            Some(Standing::Held) if !row.beats_itself => return Verdict::Push,
            Some(Standing::Held)
                if (row.exclusive || is_volatile) && !self.rules.has(Mutation::TakesBackSilentExclusive) =>
            {
                // It may be running: it moves when its worker says that it has stopped, or ends.
                let stops: Vec<Stop> = worker.bindings.silence(row.hold).into_iter().collect();
                self.outbox.tell(&row.holder, Findings { stops, ..Findings::default() });
                return Verdict::AskAgain;
            }
            Some(Standing::Held) => {
                let stops = vec![worker.bindings.lose(row.hold)];
                self.outbox.push(Output::Stop { key: row.holder.clone(), stops });
            }
            Some(Standing::Lost) | None if may_run && !self.rules.has(Mutation::UnsureIsTakenBack) => {
                return Verdict::AskAgain;
            }
            None if just_sent && start == StartResult::Unsure => return Verdict::AskAgain,
            Some(Standing::Lost) | None => {}
        }
        // The worker may be about to bind it, and must not before the row has moved.
        if let Some(at) = worker.bindings.refuse(now, row.hold) {
            self.timers.arm(at, Timer::Unmark, row.holder.clone());
        }
        Verdict::TakeBack
    }

    /// What is known of a start that was sent to this worker.
    pub fn start_result(&self, key: &WorkerKey, hold: Hold) -> StartResult {
        match self.workers.get(key) {
            Some(worker) if worker.is_synced() => worker.bindings.start_result(hold, worker.starts_seen),
            _ => StartResult::Unsure,
        }
    }

    /// True if [`Input::Granted`](super::Input::Granted) was taken for this hold, and it is neither bound nor settled yet. What
    /// starts as soon as it comes may be sent only then: whoever ends this worker must know that it may be running.
    pub fn is_recorded(&self, key: &WorkerKey, hold: Hold) -> bool {
        self.workers.get(key).is_some_and(|worker| worker.bindings.is_recorded(hold))
    }

    /// Refused marks are old.
    pub(super) fn unmark_due(&mut self, now: Instant, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        if let Some(at) = worker.bindings.sweep_refused(now, due.at) {
            self.timers.arm(at, Timer::Unmark, due.key);
        }
    }
}
