//! One worker's stream: frames in, frames out. Everything that waits in the inbox is handled in one go, so that a busy
//! worker's beats and reports share a commit.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use lease::registry::{Input, Speaker};
use model::{ErrorKind, Hold, Limits, Nonce, Outcome, Report, Retry, WorkerKey};
use rpc::wire::{ServerFrame, WorkerFrame};
use rpc::{ApiError, convert, lease_convert, wire};
use store::Finished;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tracing::{debug, info, warn};

use crate::api::{ANSWER_WAIT, Answer, Api, refuse_volatile, renewal_answers};
use crate::event::{Event, Reply, RollEvent};
use crate::sessions::{FRAMES_MAX, Session};

/// Entries and bytes of frames kept at most while the store is busy; then the worker is held back by flow control.
const GATHER_ENTRIES_MAX: usize = 10_000;
const GATHER_BYTES_MAX: usize = 16 << 20;

/// Entries and bytes kept at most of a stream of which nobody knows yet whether it speaks for its key: a frame or two.
const UNHEARD_ENTRIES_MAX: usize = 2_000;
const UNHEARD_BYTES_MAX: usize = 2 << 20;

/// Pauses between tries while the store is in trouble.
const STORE_PAUSE_MIN: Duration = Duration::from_millis(100);
const STORE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The other end of [`Outgoing`](crate::sessions::Outgoing).
pub(crate) type Outbox = mpsc::Receiver<Result<ServerFrame, Status>>;

/// Opens the session that the first frame announces and serves it in a task of its own until either side ends it.
pub(crate) async fn open<S>(api: Arc<Api>, mut frames: S) -> Answer<Outbox>
where
    S: Stream<Item = Result<WorkerFrame, Status>> + Send + Unpin + 'static,
{
    let first = api.first_frame(&mut frames).await?;
    let hello = first
        .hello
        .clone()
        .ok_or_else(|| ApiError::invalid("the first frame of a session must carry a hello"))?;
    let worker = convert::worker(&hello.worker)?;
    let nonce = Nonce::new(hello.nonce);
    let profile = lease_convert::profile(&hello)?;
    let queues = profile.queues.len();
    lease_convert::slots(first.credits)?;
    let (speaker, is_dead) = api.speaker(&worker, nonce).await?;
    let (sender, outbox) = mpsc::channel(FRAMES_MAX);
    let opened = api.sessions.open(worker.clone(), nonce, profile, sender, speaker);
    let Ok(session) = opened else {
        api.metrics.key_conflicts.inc();
        warn!(%worker, "a stream is refused: another process has its worker key");
        return Err(ApiError::new(
            ErrorKind::WorkerInactive,
            format!("worker key {worker} is another process's; take another key"),
        ));
    };
    // A dead key learns that from the answer to its heartbeat; until then it must not dry up queues by empty claims.
    // As it was cut: what a stranger says may be of any length.
    let name = &session.profile.name;
    info!(worker = %session.worker, name, slots = session.profile.slots, queues, "worker connected");
    if !is_dead {
        api.tell(Event::Joined { session: session.id }).await;
    }
    let welcome = wire::Welcome {
        server: api.config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: api.generation,
    };
    let _ = session.frames.send(Ok(ServerFrame { welcome: Some(welcome), ..Default::default() })).await;
    tokio::spawn(async move {
        let ended = serve(&api, &session, first, &mut frames).await;
        api.sessions.close(session.id);
        api.tell(Event::Left { session: session.id }).await;
        match ended {
            Ok(()) => info!(worker = %session.worker, "worker disconnected"),
            Err(error) => {
                info!(worker = %session.worker, %error, "worker session ended");
                let _ = session.frames.send(Err(error.into())).await;
            }
        }
    });
    Ok(outbox)
}

impl Api {
    /// Whether this process may speak for this key, and whether the key is over. The store knows workers that our registry does
    /// not: those of other servers, and those that ended long ago.
    async fn speaker(&self, worker: &WorkerKey, nonce: Nonce) -> Answer<(Speaker, bool)> {
        let (reply, answer) = oneshot::channel();
        let key = worker.clone();
        self.tell(Event::Roll(RollEvent::MaySpeak { key, nonce, reply })).await;
        let going_away = |_| ApiError::new(ErrorKind::Unavailable, "the server is going away");
        let (speaker, is_over) = answer.await.map_err(going_away)?;
        if speaker != Speaker::Unknown {
            return Ok((speaker, is_over));
        }
        let Some(known) = self.store.worker(worker).await? else { return Ok((speaker, is_over)) };
        Ok((Speaker::by_record(nonce, Some(known.worker.nonce)), known.ended.is_some()))
    }
}

/// Reads frames and does what they ask. Signs of life are passed on as soon as they are read: they must not wait for a slow
/// store behind the worker's own reports. The rest is gathered while the store is busy with what came before, and while nobody
/// knows whether this process speaks for its key.
async fn serve<S>(api: &Api, session: &Arc<Session>, first: WorkerFrame, frames: &mut S) -> Answer<()>
where
    S: Stream<Item = Result<WorkerFrame, Status>> + Send + Unpin,
{
    let mut gathered = Gathered::default();
    gathered.add(api, session, first).await?;
    let mut is_open = true;
    let mut work: Option<BoxFuture<'_, Answer<Next>>> = None;
    let mut answers_wait = pin!(None);
    loop {
        let speaks = session.speaks();
        if work.is_none() {
            while is_open && !gathered.is_full() {
                match frames.next().now_or_never() {
                    Some(Some(frame)) => gathered.add(api, session, frame?).await?,
                    Some(None) => is_open = false,
                    None => break,
                }
            }
            if speaks && gathered.must_come_again {
                return Err(ApiError::new(
                    ErrorKind::Unavailable,
                    "more was said than is kept before the first heartbeat is taken; come again",
                ));
            }
            if speaks && gathered.has_work() {
                work = Some(std::mem::take(&mut gathered).handle(api, session).boxed());
            } else if !is_open {
                return Ok(());
            }
        }
        tokio::select! {
            biased;
            () = session.close.cancelled() => return Ok(()),
            () = session.may_speak.cancelled(), if !speaks => {}
            next = async { work.as_mut().expect("there is work").await }, if work.is_some() => {
                work = None;
                match next? {
                    Next::Answered => {}
                    Next::AnswersWait if answers_wait.is_some() => {}
                    Next::AnswersWait => answers_wait.set(Some(tokio::time::sleep(ANSWER_WAIT))),
                    Next::Gone => return Ok(()),
                }
            }
            () = async { answers_wait.as_mut().as_pin_mut().expect("answers wait").await }, if answers_wait.is_some() => {
                answers_wait.set(None);
                if session.flush().await.is_err() {
                    return Ok(());
                }
            }
            frame = frames.next(), if is_open && !gathered.is_full() => match frame {
                Some(frame) => gathered.add(api, session, frame?).await?,
                None => is_open = false,
            },
        }
    }
}

/// How it goes on after what a worker said was dealt with.
enum Next {
    /// It knows.
    Answered,
    /// It will hear of it with the next frame, or soon.
    AnswersWait,
    /// It left, or is gone.
    Gone,
}

/// What several frames said, put together.
#[derive(Default)]
struct Gathered {
    credits: u32,
    draining: bool,
    beats: Vec<Hold>,
    reports: Vec<Report>,
    progress: Vec<store::Progress>,
    leave: Option<wire::Leave>,
    bytes: usize,
    /// Something was left out: the worker must say it again, on another stream.
    must_come_again: bool,
}

impl Gathered {
    /// Whether no more should be read until this is dealt with.
    fn is_full(&self) -> bool {
        let entries = self.beats.len() + self.reports.len() + self.progress.len();
        entries >= GATHER_ENTRIES_MAX || self.bytes >= GATHER_BYTES_MAX
    }

    fn has_work(&self) -> bool {
        self.credits > 0
            || self.draining
            || !self.beats.is_empty()
            || !self.reports.is_empty()
            || !self.progress.is_empty()
            || self.leave.is_some()
    }

    /// Whether a worker that does not speak for its key yet has said so much that no more of it is kept.
    fn is_more_than_unheard(&self) -> bool {
        let entries = self.beats.len() + self.reports.len() + self.progress.len();
        entries >= UNHEARD_ENTRIES_MAX || self.bytes >= UNHEARD_BYTES_MAX
    }

    /// Takes a frame: signs of life go on at once, the rest is kept.
    async fn add(&mut self, api: &Api, session: &Arc<Session>, frame: WorkerFrame) -> Answer<()> {
        let limits = &api.config.limits;
        if frame.binds.len().max(frame.beats.len()) > Limits::BOUND_MAX {
            return Err(ApiError::invalid(format!(
                "a frame may bind or beat for at most {} jobs",
                Limits::BOUND_MAX
            )));
        }
        self.credits = lease_convert::slots(self.credits.saturating_add(frame.credits))?;
        self.draining |= frame.draining;
        if let Some(beat) = frame.heartbeat {
            let (number, mut beat) =
                lease_convert::heartbeat_from_wire(beat, Some((&session.worker, session.nonce)))?;
            if beat.key != session.worker {
                return Err(ApiError::invalid("a heartbeat on a stream must be that of the stream's worker"));
            }
            beat.came_after_start(session.starts_before());
            // Once for each stream: a restarted server does not know who this is.
            if !session.is_leased() {
                beat.profile.get_or_insert_with(|| session.profile.clone());
            }
            let reply = Reply::Stream { session: Arc::clone(session), number };
            api.tell(Event::Roll(RollEvent::Heartbeat { reply, beat: Box::new(beat) })).await;
        }
        if !frame.binds.is_empty() {
            let binds = frame.binds.iter().map(lease_convert::change_from_wire).collect::<Result<_, _>>()?;
            let (key, nonce) = (session.worker.clone(), session.nonce);
            api.tell_roll(Input::Bind { key, nonce, binds }).await;
        }
        if !session.speaks() {
            if self.is_more_than_unheard() {
                self.must_come_again = true;
                return Ok(());
            }
        } else if let Some(set) = &frame.worker_set {
            let (key, id) = (session.worker.clone(), lease_convert::set_from_wire(set));
            api.tell(Event::Roll(RollEvent::Echoed { key, id })).await;
        }
        if frame.checked > 0 && session.speaks() {
            let (key, number) = (session.worker.clone(), frame.checked);
            api.tell(Event::Roll(RollEvent::Checked { key, number })).await;
        }
        self.beats.extend(convert::holds(&frame.beats)?);
        for report in frame.reports {
            self.bytes += report.result.len() + report.error.len();
            let hold = convert::hold(&report.job, report.fence)?;
            if session.nonce == Nonce::default() {
                refuse_volatile([&hold])?;
            }
            // A report that breaks a limit would break it again: the job ends here, with the reason.
            let report = convert::report(report, limits).unwrap_or_else(|invalid| {
                let error = format!("the worker's report was refused: {invalid}");
                Report { hold, outcome: Outcome::Failed { error, retry: Retry::Never } }
            });
            self.reports.push(report);
        }
        for note in frame.progress {
            self.bytes += [&note.note, &note.checkpoint].into_iter().flatten().map(Bytes::len).sum::<usize>();
            match convert::progress(note, limits) {
                Ok(note) => self.progress.push(note),
                Err(error) => warn!(%error, "a progress note was left out"),
            }
        }
        self.leave = frame.leave.or(self.leave.take());
        Ok(())
    }

    /// Does what was asked: notes before reports of the same job. Credits go first, so that new work is claimed while the reports
    /// are written.
    async fn handle(mut self, api: &Api, session: &Arc<Session>) -> Answer<Next> {
        let worker = &session.worker;
        let mut answer = ServerFrame::default();
        let mut is_unhurried = false;
        if self.draining {
            // Before its hand-backs, which would otherwise come straight back to it.
            session.withdraw_credits();
            api.tell(Event::Left { session: session.id }).await;
        } else {
            let add = session.admit_credits(self.credits);
            if add > 0 {
                api.tell(Event::Credits { session: session.id, add }).await;
            }
        }
        if !self.progress.is_empty() {
            let holds: Vec<Hold> = self.progress.iter().map(|note| note.hold).collect();
            let accepted = patiently(session, || api.note_progress(worker, self.progress.clone())).await?;
            let refused = holds.iter().zip(accepted).filter(|(_, accepted)| !accepted);
            answer.stops.extend(refused.map(|(hold, _)| convert::stop(*hold, "lost")));
        }
        // What is reported in the same breath needs no renewal, and must not be called lost when it is gone.
        let reported: HashSet<Hold> = self.reports.iter().map(|report| report.hold).collect();
        self.beats.retain(|hold| !reported.contains(hold));
        if !self.beats.is_empty() {
            self.beats.sort();
            self.beats.dedup();
            let answers = patiently(session, || api.renew_holds(worker, self.beats.clone())).await?;
            answer.stops.extend(renewal_answers(&self.beats, &answers).1);
        }
        if !self.reports.is_empty() {
            let answers = patiently(session, || api.finish_reports(worker, self.reports.clone())).await?;
            let is_accepted =
                |answer: &Finished| matches!(answer, Finished::Done { .. } | Finished::AlreadyDone);
            is_unhurried = answers.iter().all(|(_, answer)| is_accepted(answer));
            answer.reports =
                answers.iter().map(|(hold, answer)| convert::report_answer(*hold, answer)).collect();
        }
        if let Some(leave) = &self.leave {
            let words = lease::message::Leave {
                all_stopped: leave.all_stopped,
                crashed: leave.crashed,
                ..Default::default()
            };
            api.leave_own(worker.clone(), session.nonce, words).await?;
            answer.left = true;
        }
        let keeps = is_unhurried && answer.stops.is_empty() && !answer.left;
        if keeps && session.keep_answers(&mut answer.reports) {
            return Ok(Next::AnswersWait);
        }
        if answer != ServerFrame::default() && session.send(answer).await.is_err() {
            debug!(%worker, "worker went away before its answer");
            return Ok(Next::Gone);
        }
        Ok(if self.leave.is_some() { Next::Gone } else { Next::Answered })
    }
}

/// Does this until the store can. To end the session instead would help nobody: the worker would come back with the same
/// reports, and its heartbeats, which need no store, would be lost on the way.
async fn patiently<T, F: Future<Output = Answer<T>>>(
    session: &Session,
    mut call: impl FnMut() -> F,
) -> Answer<T> {
    let mut pause = STORE_PAUSE_MIN;
    loop {
        match call().await {
            Err(error) if error.kind == ErrorKind::Unavailable => {
                warn!(worker = %session.worker, %error, "what the worker said waits for the store");
            }
            answer => return answer,
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(STORE_PAUSE_MAX),
            () = session.close.cancelled() => {
                return Err(ApiError::new(ErrorKind::Unavailable, "the session was closed meanwhile"));
            }
        }
    }
}
