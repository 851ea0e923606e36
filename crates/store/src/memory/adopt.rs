//! Where what a volatile store inherited meets its rows: claims and results of former lives of the server, and clients that
//! acknowledge.
//!
//! ```text
//!                 the worker says it runs it      the worker reports it
//!   no row        adopted                         kept, until it is submitted
//!   waits         runs there                      ended by it
//!   runs there    renewed                         ended by it
//!   another copy  lost, and an alarm              stale, and an alarm unless its holder was declared over
//! ```

use std::time::Duration;

use model::{ClientId, Fence, Hold, JobId, Outcome, Report, State, WorkerKey};

use super::clock::Now;
use super::inherited::{Inherited, Legacy};
use super::jobs::Jobs;
use super::mutation::Mutation;
use super::row::Row;
use super::tables::Tables;
use crate::port::{Finished, Past, Renewed, Retention};

/// The lease of a row that is only made to run so that its result can end it.
const BRIEFLY: Duration = Duration::ZERO;

/// What a row says of a claim that is not its present one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// It may be true: the job waits, and was not started since.
    Believed,
    /// It was, and ended with its holder's report.
    Reported,
    /// It was taken back, and the job was started again since.
    StartedAgain,
    /// It is the row's, but under another key.
    AnotherKey,
    /// It is of a copy that this store knows nothing of.
    Foreign,
}

impl Tables {
    /// A worker says that it holds a job, under a claim that is not the row's.
    pub(super) fn adopt(&mut self, now: Now, holder: &WorkerKey, hold: Hold, lease: Duration) -> Renewed {
        let is_over = !self.guard(Mutation::TerminalHolderAdopted, !self.workers.is_terminal(holder));
        let Some(inherited) = &mut self.inherited else {
            return Renewed::Lost;
        };
        // A terminal holder has stopped what it held.
        if !hold.job.is_volatile() || !inherited.note_fence(now.lease, hold.fence) || is_over {
            return Renewed::Lost;
        }
        let Some(row) = self.jobs.get(hold.job) else {
            let is_known_to_end = inherited.clients.know_end_of(hold.job);
            // Its process may have another key by now. But a key that may be alive could be heard of again, and then end.
            let former = inherited.holder_of(hold).filter(|former| *former != holder);
            let is_held = former.is_some_and(|former| !self.workers.is_terminal(former));
            return if is_known_to_end || is_held || self.has(Mutation::UnknownHoldNotAdopted) {
                Renewed::Lost
            } else {
                self.inherited().adopt(holder, hold, lease)
            };
        };
        match self.word_on(row, hold) {
            Word::Believed if !self.has(Mutation::WaitingJobNotAdopted) => {
                self.believe(now, holder, hold, lease);
                self.renew(now, holder, hold, lease)
            }
            Word::Reported if !self.has(Mutation::OwnReportRaisesAlarm) => Renewed::Lost,
            Word::AnotherKey => Renewed::Lost,
            _ => {
                self.raise_alarm(holder, hold);
                Renewed::Lost
            }
        }
    }

    /// A worker reports on a job under a claim that is not the row's.
    pub(super) fn finish_late(&mut self, now: Now, holder: &WorkerKey, report: Report) -> Finished {
        let hold = report.hold;
        let row = &self.jobs[hold.job];
        let current = row.fence;
        if report.outcome == Outcome::HandedBack {
            // There is nothing to give back any more.
            return self.refuse(row, hold);
        }
        let (word, first) = (self.word_on(row, hold), row.first);
        // Of one whose end was declared its registry hears when it had really stopped. That its result comes late proves nothing.
        let is_over = row.rare().taken.as_ref().is_some_and(|(by, _)| self.workers.is_terminal(by));
        if !self.inherited().note_fence(now.lease, hold.fence) {
            return Finished::Stale { current };
        }
        let is_merged = match word {
            Word::Believed => !self.has(Mutation::LossBeatsLateReport),
            Word::StartedAgain => self.has(Mutation::LateReportEndsNextAttempt),
            Word::Reported | Word::AnotherKey | Word::Foreign => false,
        };
        if is_merged {
            self.believe(now, holder, hold, BRIEFLY);
            return self.finish(now, holder, report);
        }
        // A failed attempt of a former life may well be followed by one of ours; a completed one must not be.
        let is_copy = word == Word::StartedAgain && !is_over
            || (first > hold.fence && matches!(report.outcome, Outcome::Completed { .. }));
        match word {
            Word::Reported => return Finished::AlreadyDone,
            _ if is_copy => self.raise_alarm(holder, hold),
            _ => self.inherited().count_stale(),
        }
        Finished::Stale { current }
    }

    /// A worker reports on a job that is not here.
    pub(super) fn finish_unknown(&mut self, now: Now, holder: &WorkerKey, report: Report) -> Finished {
        let hold = report.hold;
        let Some(inherited) = &mut self.inherited else {
            return Finished::Unknown;
        };
        if !hold.job.is_volatile() || !inherited.note_fence(now.lease, hold.fence) {
            return Finished::Unknown;
        }
        if inherited.clients.know_end_of(hold.job) {
            inherited.put_unneeded(holder, hold);
            return Finished::AlreadyDone;
        }
        inherited.report(now.wall, holder, report)
    }

    /// Whether this job must not be run because its client knows how it ended. Takes note that the client is there.
    pub(super) fn is_refused(&mut self, now: Now, id: JobId) -> bool {
        let ignores = self.has(Mutation::AcknowledgedRunsAgain);
        match (&mut self.inherited, id.submission()) {
            (Some(inherited), Some((client, number))) if client.is_awaited() => {
                inherited.clients.hear(now.wall, client).knows(number) && !ignores
            }
            _ => false,
        }
    }

    /// Whether something is known of jobs that are not here.
    pub(super) fn is_heir(&self) -> bool {
        self.inherited.as_ref().is_some_and(|inherited| !inherited.is_empty())
    }

    /// Tells a job that was just entered what was known of it before.
    pub(super) fn inherit(&mut self, now: Now, id: JobId) {
        let ignores_claims = self.has(Mutation::AdoptedJobStartsAgain);
        let ignores_results = self.has(Mutation::EarlyResultIgnored);
        match self.inherited().take(id) {
            Some(Legacy::Running(claim)) if !ignores_claims => {
                self.believe(now, &claim.holder, Hold { job: id, fence: claim.fence }, claim.lease);
            }
            Some(Legacy::Ended(early)) if !ignores_results => {
                let hold = Hold { job: id, fence: early.fence };
                self.believe(now, &early.holder, hold, BRIEFLY);
                self.finish(now, &early.holder, Report { hold, outcome: early.outcome });
            }
            _ => {}
        }
    }

    pub(super) fn acknowledge(
        &mut self,
        now: Now,
        ids: Vec<JobId>,
        lowest: Option<JobId>,
    ) -> Vec<(WorkerKey, Hold)> {
        let mut unneeded = Vec::new();
        if self.inherited.is_none() {
            return unneeded;
        }
        for id in ids {
            if let Some((client, number)) = id.submission().filter(|(client, _)| client.is_awaited()) {
                unneeded.extend(self.inherited().clients.hear(now.wall, client).note(number));
                unneeded.extend(self.let_go(id));
            }
        }
        let lowest = lowest.and_then(|id| Some((id, id.submission()?)));
        if let Some((before, (client, number))) = lowest.filter(|(_, (client, _))| client.is_awaited()) {
            let number = if self.has(Mutation::MarkIgnored) { 0 } else { number };
            unneeded.extend(self.inherited().clients.hear(now.wall, client).raise(number));
            let first = client.job(0);
            let mut below: Vec<JobId> = self.jobs.range(first..before).map(|row| row.id).collect();
            below.extend(self.inherited().results_between(first, before));
            unneeded.extend(below.into_iter().filter_map(|id| self.let_go(id)));
        }
        unneeded
    }

    pub(super) fn past_of(&mut self, now: Now, client: ClientId) -> Past {
        let Some(inherited) = &mut self.inherited else {
            return Past::default();
        };
        let memory = inherited.clients.hear(now.wall, client).memory();
        let knows = |id| self.inherited.as_ref().is_some_and(|inherited| inherited.clients.know_end_of(id));
        let ended = rows_of(client, &self.jobs).filter(|row| row.state.is_terminal());
        let ended = ended.filter(|row| !knows(row.id)).map(|row| self.shown(row)).collect();
        Past { memory, ended }
    }

    /// Forgets at most `limit` clients that were not heard of for long, with what ended of theirs, and as many results that
    /// nobody asked for in a day. Answers how many. Whoever has jobs that wait or run is not forgotten.
    pub(super) fn purge_clients(&mut self, now: Now, limit: usize) -> usize {
        let forgets = self.has(Mutation::ClientForgottenAtOnce);
        let Some(inherited) = &mut self.inherited else {
            return 0;
        };
        let dropped = inherited.forget_results(now.wall - Retention::REQUEST_IDS, limit);
        let silence = if forgets { Duration::ZERO } else { inherited.clients.silence_max() };
        let since = now.wall - silence;
        let silent = self.inherited().clients.silent_since(since);
        let idle = silent
            .into_iter()
            .filter(|client| rows_of(*client, &self.jobs).all(|row| row.state.is_terminal()));
        let gone: Vec<ClientId> = idle.take(limit).collect();
        for client in &gone {
            let theirs: Vec<JobId> = rows_of(*client, &self.jobs).map(|row| row.id).collect();
            theirs.into_iter().for_each(|id| self.remove(id));
            self.inherited().clients.forget(*client);
        }
        gone.len() + dropped
    }

    /// Those of a store that has none are never asked for.
    pub(super) fn inherited(&mut self) -> &mut Inherited {
        self.inherited.as_mut().expect("only volatile stores inherit")
    }

    /// What to think of a claim that is not the row's present one. A fence is minted for one claim of a job, so it is the same
    /// process that names it, though it may have another key by now: its own clock ends a key that was cut off.
    fn word_on(&self, row: &Row, hold: Hold) -> Word {
        let is_running = row.state == State::Running;
        if row.rare().taken.as_ref().is_some_and(|(_, fence)| *fence == hold.fence) {
            return if !is_running && row.fence == hold.fence { Word::Believed } else { Word::StartedAgain };
        }
        if row.reported_fence == hold.fence {
            return Word::Reported;
        }
        if is_running && row.fence == hold.fence {
            return Word::AnotherKey;
        }
        // Not started here, so whoever has a later claim than is known here has it from a former life.
        let is_idle = match row.state {
            State::Scheduled | State::Available => true,
            State::Cancelled => row.fence == Fence::NONE,
            State::Running | State::Completed | State::Dead => false,
        };
        let is_inherited = is_idle && row.first == Fence::NONE && hold.fence > row.fence;
        if is_inherited { Word::Believed } else { Word::Foreign }
    }

    /// Makes a job that waits, or that ended without its holder's word, run under this claim.
    fn believe(&mut self, now: Now, holder: &WorkerKey, hold: Hold, lease: Duration) {
        let registry = self.workers.registry_of(holder);
        let row = &self.jobs[hold.job];
        let lease = self.heartbeat_timeout_of(row).unwrap_or(lease);
        if row.state != State::Available {
            self.change(hold.job, |row| {
                // Called off before its worker was heard of: it is told now.
                row.cancel_requested |= row.state == State::Cancelled;
                row.state = State::Available;
                row.holder = None;
                row.lease_until = None;
                row.exclusive = false;
                row.finished_at = None;
            });
        }
        self.change(hold.job, |row| {
            row.state = State::Running;
            row.fence = hold.fence;
            row.attempt += 1;
            row.holder = Some(holder.clone());
            row.lease_until = Some(now.lease + lease);
            row.started_at = Some(now.wall);
            row.granted = lease;
            row.exclusive = true;
            row.registry = registry;
            if row.rare().taken.is_some() {
                row.rare_mut().taken = None;
            }
        });
    }

    /// A client knows how this job ended, or does not wait for it: it is not run again. Answers who keeps its result.
    fn let_go(&mut self, id: JobId) -> Option<(WorkerKey, Hold)> {
        let keeps = self.has(Mutation::AcknowledgedResultStaysWithItsWorker);
        let Some(row) = self.jobs.get_mut(id) else {
            return self.inherited().drop_result(id).filter(|_| !keeps);
        };
        if row.state == State::Running {
            // Whatever ends it ends it for good.
            row.cancel_requested = true;
            return None;
        }
        let reporter = row.reporter.take();
        let hold = Hold { job: id, fence: row.reported_fence };
        self.remove(id);
        reporter.map(|reporter| (reporter, hold)).filter(|_| !keeps)
    }

    /// Removes a job for good.
    pub(super) fn remove(&mut self, id: JobId) {
        let row = &self.jobs[id];
        self.index.unlink(row);
        row.count_out(&mut self.bytes);
        self.jobs.remove(id);
    }

    /// A copy that should not exist showed itself, of a job that is here.
    fn raise_alarm(&mut self, other: &WorkerKey, hold: Hold) {
        let row = &self.jobs[hold.job];
        let taken_by = row.rare().taken.as_ref().map(|(by, _)| by);
        let holder = row.holder.as_ref().or(row.reporter.as_ref()).or(taken_by);
        let known = holder.map(|holder| (holder.clone(), row.fence));
        self.inherited().raise_alarm(hold.job, known, other, hold.fence);
    }
}

/// The jobs of one client, by id.
fn rows_of(client: ClientId, jobs: &Jobs) -> impl Iterator<Item = &Row> {
    jobs.range(client.job(0)..=client.job(ClientId::SEQUENCE_MAX))
}
