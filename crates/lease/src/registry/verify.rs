//! Row leases that are over: does anybody have the job?
//!
//! | the holder | says it has the job | verdict |
//! |---|---|---|
//! | is judged by another registry | – | not ours |
//! | is judged by a registry that cannot be reached | – | ask again; take back once its longest possible lease is over |
//! | the same, and the job is exclusive | – | ask again |
//! | joining, unsynced, stopping, or we do not know yet who was alive | – | ask again |
//! | active | yes | push, unless the job must beat by itself: then it is lost |
//! | the same, and the job is exclusive and silent | yes | tell it to stop, ask again |
//! | active | yes, and its row is being asked | ask again |
//! | active | no, or it was told to stop | refused from now on, then take back |
//! | ended | – | take back, once the end is durable |
//! | unknown | – | take back, unless it never heartbeat, pings, and the job need not beat by itself: push |

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
            return self.verify_foreign(row);
        }
        if !self.is_restored && !self.rules.has(Mutation::JudgedBeforeRestored) {
            return Verdict::AskAgain;
        }
        let Some(worker) = self.workers.get_mut(&row.holder) else {
            return match row.registry {
                None if row.pings && !row.beats_itself => Verdict::Push,
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
        match worker.bindings.standing(row.hold) {
            Some(Standing::Checking) => return Verdict::AskAgain,
            Some(Standing::Held) if !row.beats_itself => return Verdict::Push,
            Some(Standing::Held) if row.exclusive && !self.rules.has(Mutation::TakesBackSilentExclusive) => {
                // It may be running: it moves when its worker says that it has stopped, or ends.
                let stops: Vec<Stop> = worker.bindings.silence(row.hold).into_iter().collect();
                self.outbox.tell(&row.holder, Findings { stops, ..Findings::default() });
                return Verdict::AskAgain;
            }
            Some(Standing::Held) => {
                let stops = vec![worker.bindings.lose(row.hold)];
                self.outbox.push(Output::Stop { key: row.holder.clone(), stops });
            }
            Some(Standing::Lost) | None => {}
        }
        // The worker may be about to bind it, and must not before the row has moved.
        if let Some(at) = worker.bindings.refuse(now, row.hold) {
            self.timers.arm(at, Timer::Unmark, row.holder.clone());
        }
        Verdict::TakeBack
    }

    /// Another registry's worker is that registry's to judge. Only if nobody can ask it, and it can have renewed nothing for
    /// as long as any lease lasts, is there nobody left who could have the job in good faith.
    fn verify_foreign(&self, row: &Row) -> Verdict {
        let terms = &self.rules.terms;
        match row.unreachable_for {
            _ if self.rules.has(Mutation::NonOwnerJudges) => Verdict::TakeBack,
            None => Verdict::NotOurs,
            // Only its owner can say that it has stopped.
            Some(_) if row.exclusive => Verdict::AskAgain,
            Some(silent) if silent > terms.rate_error.longer(terms.lease_max) => Verdict::TakeBack,
            Some(_) => Verdict::AskAgain,
        }
    }

    /// What is known of a start that was sent to this worker.
    pub fn start_result(&self, key: &WorkerKey, hold: Hold) -> StartResult {
        match self.workers.get(key) {
            Some(worker) if worker.is_synced() => worker.bindings.start_result(hold, worker.starts_seen),
            _ => StartResult::Unsure,
        }
    }

    /// Refused marks are old.
    pub(super) fn unmark_due(&mut self, now: Instant, due: Due) {
        let Some(worker) = self.workers.get_mut(&due.key) else { return };
        if let Some(at) = worker.bindings.sweep_refused(now, due.at) {
            self.timers.arm(at, Timer::Unmark, due.key);
        }
    }
}
