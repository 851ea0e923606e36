//! One worker's stream: frames in, frames out. Everything that waits in the inbox is handled in one go, so that a busy
//! worker's beats and reports share a commit.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use lease::message::{Change, Heartbeat};
use lease::registry::Input;
use model::{ErrorKind, Hold, Nonce, Outcome, Report, Retry};
use rpc::wire::{ServerFrame, WorkerFrame};
use rpc::{ApiError, convert, lease_convert, wire};
use tokio::sync::mpsc;
use tonic::Status;
use tracing::{debug, info, warn};

use crate::api::{Answer, Api, renewal_answers};
use crate::event::{Event, Leave, Reply, RollEvent};
use crate::sessions::{FRAMES_MAX, Session};

/// Frames taken together at most; a named bound on the work between two looks at the stream.
const GATHER_MAX: usize = 64;

/// The other end of [`Outgoing`](crate::sessions::Outgoing).
pub(crate) type Outbox = mpsc::Receiver<Result<ServerFrame, Status>>;

/// Opens the session that the first frame announces and serves it in a task of its own until either side ends it.
pub(crate) async fn open<S>(api: Arc<Api>, mut frames: S) -> Answer<Outbox>
where
    S: Stream<Item = Result<WorkerFrame, Status>> + Send + Unpin + 'static,
{
    if api.closing.is_cancelled() {
        return Err(ApiError::new(
            ErrorKind::Unavailable,
            "the server is going away; connect again in a moment",
        ));
    }
    let first = match frames.next().await {
        Some(frame) => frame?,
        None => return Err(ApiError::invalid("the stream ended before its first frame")),
    };
    let hello = first
        .hello
        .clone()
        .ok_or_else(|| ApiError::invalid("the first frame of a session must carry a hello"))?;
    let worker = convert::worker(&hello.worker)?;
    let nonce = Nonce::new(hello.nonce);
    let profile = lease_convert::profile(&hello)?;
    let queues = profile.queues.clone();
    lease_convert::slots(first.credits)?;
    if let Some(other) = api.sessions.of_worker(&worker)
        && other.nonce != nonce
        && !other.close.is_cancelled()
    {
        return Err(ApiError::new(
            ErrorKind::WorkerInactive,
            format!("worker key {worker} is in use by another process; take another key"),
        ));
    }

    let (sender, outbox) = mpsc::channel(FRAMES_MAX);
    let session = api.sessions.open(worker, nonce, profile, sender);
    info!(worker = %session.worker, name = hello.name, slots = hello.slots, queues = queues.len(), "worker connected");
    api.tell(Event::Joined { session: session.id, queues }).await;
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

async fn serve<S>(api: &Api, session: &Arc<Session>, first: WorkerFrame, frames: &mut S) -> Answer<()>
where
    S: Stream<Item = Result<WorkerFrame, Status>> + Send + Unpin,
{
    let mut gathered = Gathered::default();
    gathered.add(api, session, first)?;
    loop {
        let mut open = true;
        while gathered.frames < GATHER_MAX {
            match frames.next().now_or_never() {
                Some(Some(frame)) => gathered.add(api, session, frame?)?,
                Some(None) => {
                    open = false;
                    break;
                }
                None => break,
            }
        }
        let left = std::mem::take(&mut gathered).handle(api, session).await?;
        if left || !open {
            return Ok(());
        }
        let next = tokio::select! {
            biased;
            () = session.close.cancelled() => return Ok(()),
            next = frames.next() => next,
        };
        match next {
            Some(frame) => gathered.add(api, session, frame?)?,
            None => return Ok(()),
        }
    }
}

/// What several frames said, put together.
#[derive(Default)]
struct Gathered {
    frames: usize,
    credits: u32,
    draining: bool,
    heartbeat: Option<(u64, Heartbeat)>,
    binds: Vec<Change>,
    beats: Vec<Hold>,
    reports: Vec<Report>,
    progress: Vec<store::Progress>,
    leave: Option<wire::Leave>,
}

impl Gathered {
    fn add(&mut self, api: &Api, session: &Session, frame: WorkerFrame) -> Answer<()> {
        let limits = &api.config.limits;
        self.frames += 1;
        self.credits = lease_convert::slots(self.credits.saturating_add(frame.credits))?;
        self.draining |= frame.draining;
        if let Some(beat) = frame.heartbeat {
            let (number, mut beat) =
                lease_convert::heartbeat_from_wire(beat, Some((&session.worker, session.nonce)))?;
            if beat.key != session.worker {
                return Err(ApiError::invalid("a heartbeat on a stream must be that of the stream's worker"));
            }
            // Of two that wait here together the first was given up by its worker; what it said is repeated.
            if beat.token.is_none() {
                beat.profile.get_or_insert_with(|| session.profile.clone());
            }
            self.heartbeat = Some((number, beat));
        }
        for change in &frame.binds {
            self.binds.push(lease_convert::change_from_wire(change)?);
        }
        self.beats.extend(convert::holds(&frame.beats)?);
        for report in frame.reports {
            let hold = convert::hold(&report.job, report.fence)?;
            // A report that breaks a limit would break it again: the job ends here, with the reason.
            let report = convert::report(report, limits).unwrap_or_else(|invalid| {
                let error = format!("the worker's report was refused: {invalid}");
                Report { hold, outcome: Outcome::Failed { error, retry: Retry::Never } }
            });
            self.reports.push(report);
        }
        for note in frame.progress {
            match convert::progress(note, limits) {
                Ok(note) => self.progress.push(note),
                Err(error) => warn!(%error, "a progress note was left out"),
            }
        }
        self.leave = frame.leave.or(self.leave.take());
        Ok(())
    }

    /// Does what was asked, in the order that is safe: notes before reports of the same job, reports before new
    /// work. Answers whether the worker left.
    async fn handle(mut self, api: &Api, session: &Arc<Session>) -> Answer<bool> {
        let worker = &session.worker;
        let mut answer = ServerFrame::default();
        if self.draining {
            // Before its hand-backs, which would otherwise come straight back to it.
            api.tell(Event::Left { session: session.id }).await;
        } else if self.credits > 0 {
            api.tell(Event::Credits { session: session.id, add: self.credits }).await;
        }
        if !self.progress.is_empty() {
            let holds: Vec<Hold> = self.progress.iter().map(|note| note.hold).collect();
            let accepted = api.note_progress(worker, self.progress).await?;
            let refused = holds.iter().zip(accepted).filter(|(_, accepted)| !accepted);
            answer.stops.extend(refused.map(|(hold, _)| convert::stop(*hold, "lost")));
        }
        // What is reported in the same breath needs no renewal, and must not be called lost when it is gone.
        let reported: HashSet<Hold> = self.reports.iter().map(|report| report.hold).collect();
        self.beats.retain(|hold| !reported.contains(hold));
        if !self.beats.is_empty() {
            self.beats.sort();
            self.beats.dedup();
            let answers = api.renew_holds(worker, self.beats.clone()).await?;
            answer.stops.extend(renewal_answers(&self.beats, &answers).1);
        }
        if !self.reports.is_empty() {
            let answers = api.finish_reports(worker, self.reports).await?;
            answer.reports =
                answers.iter().map(|(hold, answer)| convert::report_answer(*hold, answer)).collect();
        }
        if !self.binds.is_empty() {
            let (key, nonce) = (worker.clone(), session.nonce);
            api.tell_roll(Input::Bind { key, nonce, binds: self.binds }).await;
        }
        if let Some((number, beat)) = self.heartbeat {
            let reply = Reply::Stream { session: Arc::clone(session), number };
            api.tell(Event::Roll(RollEvent::Heartbeat { reply, beat: Box::new(beat) })).await;
        }
        if let Some(leave) = &self.leave {
            let nonce = session.is_leased().then_some(session.nonce);
            let leave = Leave::Own { key: worker.clone(), nonce, all_stopped: leave.all_stopped };
            api.leave(leave).await;
            answer.left = true;
        }
        if answer != ServerFrame::default() && session.send(answer).await.is_err() {
            debug!(%worker, "worker went away before its answer");
            return Ok(true);
        }
        Ok(self.leave.is_some())
    }
}
