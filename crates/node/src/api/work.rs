//! Workers: renew, finish, progress, and the unary claim. The stream in `session` uses the same functions.

use std::time::Duration;

use lease::registry::{Input, WorkerState};
use model::{ErrorKind, Hold, Nonce, Outcome, QueueName, Report, State, WorkerKey};
use rpc::{ApiError, convert, wire};
use store::{Claim, Claimed, Finished, KnownWorker, Progress, Renewed};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Answer, Api, Moves};
use crate::event::{Event, Leave, RollEvent, leases};
use crate::metrics::Verb;

/// The longest a unary claim may wait for work.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Bytes of jobs given out together. Their frame must fit a message, whatever the payloads.
pub(crate) const CLAIM_BYTES_MAX: usize = 4 << 20;

impl Api {
    /// Extends leases; counts the holders that came too late.
    pub(crate) async fn renew_holds(&self, worker: &WorkerKey, holds: Vec<Hold>) -> Answer<Vec<Renewed>> {
        let began = self.clock.monotonic();
        let renewing = self.store.renew(worker, holds, self.config.lease_default);
        let answer = self.heed(renewing, |_| leases(&[])).await;
        if let Some(for_) = self.renewals.observe(began, self.clock.monotonic(), answer.is_ok()) {
            self.tell(Event::StoreStalled { for_ }).await;
        }
        let answer = answer?;
        let lost = answer.iter().filter(|renewed| matches!(renewed, Renewed::Lost)).count();
        self.metrics.stale_writes.get_or_create(&Verb::RENEW).inc_by(lost as u64);
        Ok(answer)
    }

    /// Ends attempts; wakes dispatch for what comes back.
    pub(crate) async fn finish_reports(
        &self,
        worker: &WorkerKey,
        reports: Vec<Report>,
    ) -> Answer<Vec<(Hold, Finished)>> {
        let marks: Vec<(Hold, bool, bool)> = reports
            .iter()
            .map(|report| {
                let failed = matches!(report.outcome, Outcome::Failed { .. });
                (report.hold, failed, report.outcome == Outcome::HandedBack)
            })
            .collect();
        let answers = self.heed(self.store.finish(worker, reports), |_| leases(&[])).await?;
        self.forget_stops(marks.iter().map(|(hold, ..)| *hold));
        self.sound_alarms();
        for ((_, failed, handed_back), answer) in marks.iter().zip(&answers) {
            match answer {
                Finished::Done { state, ran, .. } => {
                    self.metrics.count_end(*state);
                    if *handed_back {
                        self.metrics.handed_back.inc();
                    } else {
                        self.metrics.job_duration.observe(ran.as_secs_f64());
                    }
                    if *failed {
                        self.metrics.failed.inc();
                        if !state.is_terminal() {
                            self.metrics.retried.inc();
                        }
                    }
                }
                Finished::Stale { .. } => {
                    self.metrics.stale_writes.get_or_create(&Verb::FINISH).inc();
                }
                Finished::AlreadyDone | Finished::Unknown => {}
            }
        }
        let moves = Moves::of(answers.iter().filter_map(|answer| match answer {
            Finished::Done { state, queue, due_in, .. } => Some((*state, queue, *due_in)),
            _ => None,
        }));
        self.tell_roll(Input::Settled {
            key: worker.clone(),
            holds: marks.iter().map(|(hold, ..)| *hold).collect(),
        })
        .await;
        let done = marks.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Finished::Done { .. }));
        let watched = self.watched_ids(done.map(|((hold, ..), _)| hold.job), &moves.states);
        self.wake_after(moves).await;
        self.announce(watched).await;
        Ok(marks.into_iter().map(|(hold, ..)| hold).zip(answers).collect())
    }

    /// Keeps progress notes and checkpoints.
    pub(crate) async fn note_progress(&self, worker: &WorkerKey, notes: Vec<Progress>) -> Answer<Vec<bool>> {
        let accepted = self.store.progress(worker, notes).await?;
        let refused = accepted.iter().filter(|accepted| !**accepted).count();
        self.metrics.stale_writes.get_or_create(&Verb::PROGRESS).inc_by(refused as u64);
        Ok(accepted)
    }

    /// The unary claim: takes what is there, or waits for work as a session of one call.
    /// What a caller that is gone would have got is handed back.
    pub(crate) async fn claim(
        &self,
        request: wire::ClaimRequest,
        gone: CancellationToken,
    ) -> Answer<wire::ClaimResponse> {
        let worker = convert::worker(&request.worker)?;
        let queues = convert::queues(&request.queues)?;
        let limit = request.limit.clamp(1, 1_000);
        let wait = convert::span(request.wait_ms, "wait_ms")?;
        if wait > WAIT_MAX {
            return Err(ApiError::invalid(format!(
                "wait_ms is {}; wait at most {}",
                wait.as_millis(),
                WAIT_MAX.as_millis()
            )));
        }
        let claim = Claim {
            holder: worker.clone(),
            queues: queues.clone(),
            limit: limit as usize,
            lease: self.config.lease_default,
            bytes_max: CLAIM_BYTES_MAX,
            exclusive: false,
        };
        let granted = |answer: &Result<Vec<Claimed>, _>| leases(answer.as_deref().unwrap_or_default());
        let claimed = self.heed(self.store.claim(claim), granted).await?;
        if claimed.is_empty() {
            self.refuse_exclusive(&queues)?;
            // A dead key gets nothing, and its empty claims must not pass for empty queues.
            self.refuse_dead_key(&worker).await?;
        }
        let jobs = if !claimed.is_empty() || wait.is_zero() {
            self.note_claimed(&claimed).await;
            if !claimed.is_empty() {
                self.tell(Event::LeasesGranted { leases: leases(&claimed) }).await;
            }
            claimed.into_iter().map(convert::assignment).collect()
        } else {
            self.wait_for_work(&worker, queues, limit, wait, &gone).await?
        };
        if gone.is_cancelled() && !jobs.is_empty() {
            let holds =
                jobs.iter().map(|job| convert::hold(&job.job, job.fence)).collect::<Result<Vec<_>, _>>()?;
            self.hand_back(&worker, holds).await;
            return Ok(wire::ClaimResponse::default());
        }
        Ok(wire::ClaimResponse { jobs })
    }

    /// Whoever claims by single calls cannot be known to have stopped, so it never gets anything from these.
    fn refuse_exclusive(&self, queues: &[QueueName]) -> Answer<()> {
        if !queues.iter().all(|queue| self.is_exclusive(queue)) {
            return Ok(());
        }
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "{}: exclusive queues give jobs only to workers that can stop them for certain; run `tenure worker`, \
                 or an SDK worker with a guardian",
                names.join(", ")
            ),
        ))
    }

    /// A worker that can stop jobs for certain says on its stream that one has ended, when it has. Anyone who knows its key,
    /// such as the job itself, could say so by a call while the job still runs.
    async fn refuse_by_call(&self, worker: &WorkerKey) -> Answer<()> {
        let Some((view, _)) = self.roll_entry(worker, 0).await? else {
            return self.refuse_unknown(worker).await;
        };
        if view.profile.stop_within.is_none() && view.state != WorkerState::Unsynced {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "worker {worker} reports on its stream, when its jobs have stopped; a call cannot do that for it"
            ),
        ))
    }

    async fn refuse_dead_key(&self, worker: &WorkerKey) -> Answer<()> {
        match self.store.worker(worker).await? {
            Some(KnownWorker { ended: Some((end, _)), .. }) => Err(ApiError::new(
                ErrorKind::WorkerInactive,
                format!("worker {worker} is over: {}; claim under a new key", end.sentence()),
            )),
            _ => Ok(()),
        }
    }

    /// Takes part in dispatch for the length of one call.
    async fn wait_for_work(
        &self,
        worker: &WorkerKey,
        queues: Vec<QueueName>,
        limit: u32,
        wait: Duration,
        gone: &CancellationToken,
    ) -> Answer<Vec<wire::Assignment>> {
        let (frames, mut inbox) = mpsc::channel(1);
        let session = self.sessions.open_unary(worker.clone(), queues, frames);
        self.tell(Event::Joined { session: session.id }).await;
        self.tell(Event::Credits { session: session.id, add: limit }).await;
        let frame = tokio::select! {
            frame = tokio::time::timeout(wait, inbox.recv()) => frame.ok().flatten(),
            () = self.closing.cancelled() => None,
            () = gone.cancelled() => None,
        };
        self.sessions.close(session.id);
        self.tell(Event::Left { session: session.id }).await;
        // A claim that was under way finds the door closed from here on and hands its jobs back; one that came
        // through just before is taken along.
        inbox.close();
        let frame = frame.or_else(|| inbox.try_recv().ok()).transpose()?;
        Ok(frame.map(|frame| frame.assignments).unwrap_or_default())
    }

    /// Gives back jobs that surely never reached their worker. Should that fail, their leases bring them back.
    pub(crate) async fn hand_back(&self, worker: &WorkerKey, holds: Vec<Hold>) {
        let reports = holds.into_iter().map(|hold| Report { hold, outcome: Outcome::HandedBack }).collect();
        if let Err(error) = self.finish_reports(worker, reports).await {
            info!(%worker, %error, "jobs that were never sent wait for their leases");
        }
    }

    /// Counts claims and tells watchers.
    pub(crate) async fn note_claimed(&self, claimed: &[store::Claimed]) {
        for job in claimed {
            self.metrics.enqueue_to_start.observe(job.waited.as_secs_f64());
        }
        let watched = self.watched_ids(claimed.iter().map(|job| job.hold.job), &[State::Running]);
        self.announce(watched).await;
    }

    /// A worker goes, or is removed. Answered when what it held is dealt with.
    pub(crate) async fn leave(&self, leave: Leave) -> Answer<()> {
        let (done, is_done) = oneshot::channel();
        self.tell(Event::Roll(RollEvent::Leave { leave, done })).await;
        let answer = is_done.await.map_err(|_| ApiError {
            retry_after: Some(Duration::from_secs(1)),
            ..ApiError::new(ErrorKind::Unavailable, "the end of the worker could not be made durable yet")
        })?;
        answer.map_err(|retry_after| ApiError {
            retry_after: Some(retry_after),
            ..ApiError::new(ErrorKind::Throttled, "too many leave at once that are not known here")
        })
    }

    /// A worker goes by itself.
    pub(crate) async fn leave_own(
        &self,
        key: WorkerKey,
        nonce: Nonce,
        words: lease::message::Leave,
    ) -> Answer<()> {
        self.refuse_of_others(&key).await?;
        self.leave(Leave::Own { key, nonce, words }).await
    }

    /// Counts jobs that were taken back and wakes dispatch for them. Their next holder can start at once.
    pub(crate) async fn note_reaped(&self, reaped: &[store::Reaped]) {
        for job in reaped {
            self.metrics.rescued.inc();
            self.metrics.rescue.observe(job.late.as_secs_f64());
            self.metrics.count_end(job.state);
            info!(job_id = %job.hold.job, fence = %job.hold.fence, worker = %job.holder, state = job.state.word(), "job taken back");
            // A holder that is connected after all should not find out only at its next beat.
            if let Some(session) = self.sessions.of_worker(&job.holder) {
                session.stop(convert::stop(job.hold, "lost"));
            }
        }
        let moves = Moves::of(reaped.iter().map(|job| (job.state, &job.queue, job.due_in)));
        let watched = self.watched_ids(reaped.iter().map(|job| job.hold.job), &moves.states);
        self.wake_after(moves).await;
        self.announce(watched).await;
    }

    pub(crate) async fn renew(&self, request: wire::RenewRequest) -> Answer<wire::RenewResponse> {
        let worker = convert::worker(&request.worker)?;
        let holds = convert::holds(&request.holds)?;
        refuse_volatile(&holds)?;
        // First, so that what is taken back is not renewed.
        let to_stop = self.stops_of(&worker).await?;
        let answers = self.renew_holds(&worker, holds.clone()).await?;
        if let ([hold], [Renewed::Lost]) = (&holds[..], &answers[..]) {
            return Err(self.why_stale(*hold).await);
        }
        let (held, mut stops) = renewal_answers(&holds, &answers);
        let is_renewed =
            |stop: &wire::Stop| held.iter().any(|hold| (&hold.job, hold.fence) == (&stop.job, stop.fence));
        let timeouts = to_stop.into_iter().filter(|stop| stop.reason == "timeout" && is_renewed(stop));
        stops.extend(timeouts);
        Ok(wire::RenewResponse { held, stops })
    }

    pub(crate) async fn finish(&self, request: wire::FinishRequest) -> Answer<wire::FinishResponse> {
        let worker = convert::worker(&request.worker)?;
        self.refuse_by_call(&worker).await?;
        let limits = &self.config.limits;
        let reports = request
            .reports
            .into_iter()
            .map(|report| convert::report(report, limits))
            .collect::<Result<Vec<_>, _>>()?;
        refuse_volatile(reports.iter().map(|report| &report.hold))?;
        let completed: Vec<Hold> = reports
            .iter()
            .filter(|report| matches!(report.outcome, Outcome::Completed { .. }))
            .map(|report| report.hold)
            .collect();
        let mut answers = self.finish_reports(&worker, reports).await?;
        for (hold, answer) in &mut answers {
            if *answer == Finished::AlreadyDone && completed.contains(hold) {
                *answer = self.was_completed(*hold).await?;
            }
        }
        if let [(hold, Finished::Stale { .. } | Finished::Unknown)] = &answers[..] {
            return Err(self.why_stale(*hold).await);
        }
        Ok(wire::FinishResponse {
            reports: answers.iter().map(|(hold, answer)| convert::report_answer(*hold, answer)).collect(),
        })
    }

    pub(crate) async fn progress(&self, request: wire::ProgressRequest) -> Answer<wire::ProgressResponse> {
        let worker = convert::worker(&request.worker)?;
        let limits = &self.config.limits;
        let notes = request
            .notes
            .into_iter()
            .map(|note| convert::progress(note, limits))
            .collect::<Result<Vec<_>, _>>()?;
        let holds: Vec<Hold> = notes.iter().map(|note| note.hold).collect();
        let accepted = self.note_progress(&worker, notes).await?;
        if let ([hold], [false]) = (&holds[..], &accepted[..]) {
            return Err(self.why_stale(*hold).await);
        }
        let notes = holds
            .iter()
            .zip(accepted)
            .map(|(hold, accepted)| wire::ProgressAnswer {
                job: hold.job.to_string(),
                fence: hold.fence.get(),
                accepted,
            })
            .collect();
        Ok(wire::ProgressResponse { notes })
    }

    /// Whether the report that ended this claim was one of completion. It was not if the job was taken back from a holder that
    /// did not stop it in time.
    async fn was_completed(&self, hold: Hold) -> Answer<Finished> {
        Ok(match self.store.get(hold.job).await? {
            Some(job) if !matches!(job.state, State::Completed | State::Cancelled) => {
                Finished::Stale { current: job.fence }
            }
            _ => Finished::AlreadyDone,
        })
    }

    /// The error for a single write that found its hold gone.
    async fn why_stale(&self, hold: Hold) -> ApiError {
        match self.store.get(hold.job).await {
            Err(error) => error.into(),
            Ok(None) => super::jobs::unknown_job(hold.job),
            Ok(Some(job)) if job.fence != hold.fence => ApiError::new(
                ErrorKind::StaleFence,
                format!(
                    "job {} moved on: fence {} is stale, the current one is {}; stop working on it",
                    hold.job, hold.fence, job.fence
                ),
            ),
            Ok(Some(job)) if job.state == State::Running => ApiError::new(
                ErrorKind::StaleFence,
                format!("job {} is held by another worker under this fence; stop working on it", hold.job),
            ),
            Ok(Some(job)) => ApiError::new(
                ErrorKind::StaleFence,
                format!("job {} is {} and no longer held; stop working on it", hold.job, job.shown_state()),
            ),
        }
    }
}

/// Nobody who makes single calls, or has no nonce, was ever given a volatile job. Its worker is believed even if nothing is known of the job, and
/// so must not be anyone.
pub(crate) fn refuse_volatile<'a>(holds: impl IntoIterator<Item = &'a Hold>) -> Answer<()> {
    let Some(hold) = holds.into_iter().find(|hold| hold.job.is_volatile()) else { return Ok(()) };
    Err(ApiError::new(
        ErrorKind::Refused,
        format!(
            "job {} is volatile: its worker says on its stream what becomes of it, and no call can",
            hold.job
        ),
    ))
}

/// Splits renewals into what stands and what must stop. A cancelled job is in both: its lease stands until it is
/// reported.
pub(crate) fn renewal_answers(holds: &[Hold], answers: &[Renewed]) -> (Vec<wire::Renewal>, Vec<wire::Stop>) {
    let mut held = Vec::new();
    let mut stops = Vec::new();
    for (hold, answer) in holds.iter().zip(answers) {
        match answer {
            Renewed::Held { lease, cancel, .. } => {
                let lease_ms = convert::millis(*lease);
                held.push(wire::Renewal { job: hold.job.to_string(), fence: hold.fence.get(), lease_ms });
                if *cancel {
                    stops.push(convert::stop(*hold, "cancelled"));
                }
            }
            Renewed::Lost => stops.push(convert::stop(*hold, "lost")),
        }
    }
    (held, stops)
}
