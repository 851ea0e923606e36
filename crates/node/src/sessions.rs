//! The open sessions: where to send a worker's frames, and who serves which queue.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lease::clock_rule::fits_exclusive;
use lease::message::Profile;
use lease::registry::Speaker;
use model::{Limits, Nonce, QueueName, WorkerKey};
use prometheus_client::metrics::gauge::Gauge;
use rpc::wire::{Hold, ReportAnswer, ServerFrame, Stop};
use schedule::dispatch::SessionId;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::warn;

/// Frames that may wait for a slow worker; then the sender waits, and only for that worker.
pub(crate) const FRAMES_MAX: usize = 256;

/// Answers that wait for the next frame at most, and as many results that may be forgotten.
const KEPT_MAX: usize = 256;

/// How long a worker may leave its frames untaken.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a worker's frames go: frames, and at most one error as the last item.
pub(crate) type Outgoing = mpsc::Sender<Result<ServerFrame, Status>>;

/// The way to one worker.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) worker: WorkerKey,
    pub(crate) nonce: Nonce,
    pub(crate) profile: Profile,
    pub(crate) frames: Outgoing,
    /// Fires when the session must end: the worker opened another one, is over, or the server is going away.
    pub(crate) close: CancellationToken,
    gate: Mutex<Gate>,
    /// Fires when what it says may be believed: its process is known to have the key, or the key is nobody's that heartbeats.
    pub(crate) may_speak: CancellationToken,
    /// Why its worker is to go, if that is nobody's wish.
    why_sent_away: OnceLock<String>,
    kept: Mutex<Kept>,
    /// The number of the last start that was sent to anybody.
    last_start: Arc<AtomicU64>,
    /// That of the last one before this session: what was sent over an older stream does not come here.
    starts_before: AtomicU64,
}

/// What goes out with the next frame.
#[derive(Debug, Default)]
struct Kept {
    /// Answers to reports.
    answers: Vec<ReportAnswer>,
    /// Results that need not be kept any longer.
    forgets: Vec<Hold>,
}

/// What a session waits for before it gets work.
#[derive(Debug, Default)]
struct Gate {
    /// The worker's heartbeats hold a lease.
    is_leased: bool,
    /// It can stop a job for certain, and its lease is long enough for that.
    is_fit: bool,
    /// It may go on without us for longer than a later life of this server would wait for it.
    is_promised_more: bool,
    /// Its clock runs at another rate than leases allow for.
    is_clock_off: bool,
    /// The muster lets its worker run volatile jobs.
    is_mustered: bool,
    /// Offered before that.
    credits: u32,
}

/// The worker is gone, or reads so slowly that it was given up.
pub(crate) struct Gone;

/// Another process has this key.
#[derive(Debug)]
pub(crate) struct KeyTaken;

impl Session {
    /// Sends a frame, with what waits for one. A worker that takes none for a while loses its session: whoever
    /// waits for it holds up nobody else, but must not wait for ever.
    pub(crate) async fn send(&self, mut frame: ServerFrame) -> Result<(), Gone> {
        if self.close.is_cancelled() {
            return Err(Gone);
        }
        self.kept().join(&mut frame);
        // There is nearly always room, and then no timer is needed.
        let frame = match self.frames.try_send(Ok(frame)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Gone),
            Err(TrySendError::Full(frame)) => frame,
        };
        tokio::select! {
            biased;
            () = self.close.cancelled() => Err(Gone),
            sent = tokio::time::timeout(SEND_TIMEOUT, self.frames.send(frame)) => match sent {
                Ok(sent) => sent.map_err(|_| Gone),
                Err(_) => {
                    warn!(worker = %self.worker, "worker takes no frames; its session is closed");
                    self.close.cancel();
                    Err(Gone)
                }
            },
        }
    }

    /// Keeps answers that change nothing for the worker until it is sent something that does: a worker that does one job after
    /// the other is woken for the next start, not for its last end. Whether there is room for these; then somebody must
    /// [`flush`](Self::flush) soon.
    pub(crate) fn keep_answers(&self, answers: &mut Vec<ReportAnswer>) -> bool {
        let kept = &mut self.kept().answers;
        let has_room = kept.len() + answers.len() <= KEPT_MAX;
        if has_room {
            kept.append(answers);
        }
        has_room
    }

    /// The worker may forget these results when it next hears of us, which is at its next heartbeat at the latest.
    pub(crate) fn keep_forgets(&self, holds: impl Iterator<Item = Hold>) {
        let count = {
            let mut kept = self.kept();
            kept.forgets.extend(holds);
            kept.forgets.len()
        };
        if count > KEPT_MAX {
            self.offer(ServerFrame::default());
        }
    }

    /// Sends the answers that still wait.
    pub(crate) async fn flush(&self) -> Result<(), Gone> {
        if self.kept().answers.is_empty() { Ok(()) } else { self.send(ServerFrame::default()).await }
    }

    /// Says goodbye, if the outbox has room, and ends the session.
    pub(crate) fn dismiss(&self) {
        let mut goodbye = ServerFrame { goodbye: true, ..Default::default() };
        self.kept().join(&mut goodbye);
        self.offer(goodbye);
        self.close.cancel();
    }

    /// Sends a frame if the outbox has room, without waiting. What a worker forgets by itself goes with it.
    pub(crate) fn offer(&self, mut frame: ServerFrame) {
        frame.forget.append(&mut self.kept().forgets);
        let _ = self.frames.try_send(Ok(frame));
    }

    /// Tells the worker to stop something, if its outbox has room; otherwise it learns it at its next beat.
    pub(crate) fn stop(&self, stop: Stop) {
        self.offer(ServerFrame { stops: vec![stop], ..Default::default() });
    }

    /// Whether a worker lease covers what is sent here; otherwise each job has only its row's own.
    pub(crate) fn is_leased(&self) -> bool {
        self.gate().is_leased
    }

    /// Whether anything but its heartbeats may be believed.
    pub(crate) fn speaks(&self) -> bool {
        self.may_speak.is_cancelled()
    }

    /// Whether it may be given exclusive jobs.
    pub(crate) fn is_fit(&self) -> bool {
        self.gate().is_fit
    }

    /// Whether it may be given volatile jobs: the muster lets it run them, and it would stop them as soon as a later life of
    /// this server stops waiting for it.
    pub(crate) fn is_mustered(&self) -> bool {
        let gate = self.gate();
        gate.is_mustered && !gate.is_promised_more
    }

    /// Whether what the worker was promised before reaches beyond the longest lease of today.
    pub(crate) fn is_promised_more(&self) -> bool {
        self.gate().is_promised_more
    }

    /// What the worker was promised before reaches beyond the longest lease of today, or no longer does. Whether that is news.
    pub(crate) fn set_promised_more(&self, is_promised_more: bool) -> bool {
        std::mem::replace(&mut self.gate().is_promised_more, is_promised_more) != is_promised_more
    }

    /// Its clock was found to be off, or right again. Whether that is news.
    pub(crate) fn set_clock_off(&self, is_clock_off: bool) -> bool {
        std::mem::replace(&mut self.gate().is_clock_off, is_clock_off) != is_clock_off
    }

    /// The muster decided anew. Whether that is news.
    pub(crate) fn set_mustered(&self, is_mustered: bool) -> bool {
        std::mem::replace(&mut self.gate().is_mustered, is_mustered) != is_mustered
    }

    /// Its worker is to go, for this reason.
    pub(crate) fn send_away(&self, why: String) {
        // It goes once, whatever else speaks for it.
        let _ = self.why_sent_away.set(why);
    }

    /// Why its worker is to go, if that is nobody's wish.
    pub(crate) fn why_sent_away(&self) -> &str {
        self.why_sent_away.get().map_or("", String::as_str)
    }

    /// Takes credits: those that may be used now. A worker that heartbeats gets no work before its registry took a
    /// heartbeat on this very stream: it might be another server's worker, or over, and would drop what it is given.
    pub(crate) fn admit_credits(&self, credits: u32) -> u32 {
        let mut gate = self.gate();
        if gate.is_leased || self.nonce == Nonce::default() {
            credits
        } else {
            gate.credits = gate.credits.saturating_add(credits).min(Limits::SLOTS_MAX);
            0
        }
    }

    /// It drains: what waited is not wanted any more.
    pub(crate) fn withdraw_credits(&self) {
        self.gate().credits = 0;
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().expect("no panic while holding the lock")
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().expect("no panic while holding the lock")
    }

    /// Numbers for this many starts: the first of them.
    pub(crate) fn number_starts(&self, count: u64) -> u64 {
        self.last_start.fetch_add(count, Ordering::SeqCst) + 1
    }

    /// No start with this number or a lower one comes over this session.
    pub(crate) fn starts_before(&self) -> u64 {
        self.starts_before.load(Ordering::SeqCst)
    }
}

impl Kept {
    fn join(&mut self, frame: &mut ServerFrame) {
        frame.reports.append(&mut self.answers);
        frame.forget.append(&mut self.forgets);
    }
}

/// All open sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    next_id: AtomicU64,
    /// The number of the last start. One row of numbers for all, so that those of a worker's later stream are higher.
    last_start: Arc<AtomicU64>,
    open: Mutex<Open>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<SessionId, Arc<Session>>,
    /// Those that speak for their keys: one for each.
    by_worker: HashMap<WorkerKey, SessionId>,
    by_queue: HashMap<QueueName, Servers>,
}

/// How many sessions serve a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Servers {
    all: u32,
    /// Those that may be given exclusive jobs.
    fit: u32,
}

impl Sessions {
    pub(crate) fn new(gauge: Gauge) -> Self {
        Sessions { next_id: AtomicU64::new(1), last_start: Arc::default(), open: Mutex::default(), gauge }
    }

    /// Opens a session. A worker that is still believed to be here under the same key has reconnected: its old session is
    /// closed. A process of which nobody knows yet whether it has the key displaces nobody: see [`let_speak`](Self::let_speak).
    /// One that never heartbeats would wait for that in vain, so it speaks unless the key is somebody's.
    pub(crate) fn open(
        &self,
        worker: WorkerKey,
        nonce: Nonce,
        profile: Profile,
        frames: Outgoing,
        speaker: Speaker,
    ) -> Result<Arc<Session>, KeyTaken> {
        let is_unknown = speaker == Speaker::Unknown;
        let session = self.insert(worker, nonce, profile, frames);
        let mut open = self.lock();
        let present = open.speaking_for(&session.worker);
        let is_anothers =
            present.is_some_and(|present| present.nonce != nonce && !present.close.is_cancelled());
        if speaker == Speaker::Impostor || is_unknown && nonce == Nonce::default() && is_anothers {
            drop(open);
            self.close(session.id);
            return Err(KeyTaken);
        }
        if !is_unknown || nonce == Nonce::default() {
            open.let_speak(&session);
        }
        // Not before the old one was closed: what is numbered later is not sent over it.
        session.starts_before.store(self.last_start.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(session)
    }

    /// The registry has taken a heartbeat on this stream: whoever else speaks for its key is another process, or its own older
    /// stream.
    pub(crate) fn let_speak(&self, session: &Arc<Session>) {
        if session.speaks() {
            return;
        }
        let mut open = self.lock();
        if open.by_id.contains_key(&session.id) {
            open.let_speak(session);
        }
    }

    /// Opens the session of one unary claim. It leaves the worker's stream, if it has one, alone.
    pub(crate) fn open_unary(
        &self,
        worker: WorkerKey,
        queues: Vec<QueueName>,
        frames: Outgoing,
    ) -> Arc<Session> {
        self.insert(worker, Nonce::default(), Profile { queues, ..Profile::default() }, frames)
    }

    fn insert(&self, worker: WorkerKey, nonce: Nonce, profile: Profile, frames: Outgoing) -> Arc<Session> {
        let id = SessionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(Session {
            id,
            worker,
            nonce,
            profile,
            frames,
            close: CancellationToken::new(),
            may_speak: CancellationToken::new(),
            gate: Mutex::default(),
            why_sent_away: OnceLock::new(),
            kept: Mutex::default(),
            last_start: Arc::clone(&self.last_start),
            starts_before: AtomicU64::new(0),
        });
        let mut open = self.lock();
        for queue in &session.profile.queues {
            open.by_queue.entry(queue.clone()).or_default().all += 1;
        }
        open.by_id.insert(id, Arc::clone(&session));
        self.gauge.set(open.by_id.len() as i64);
        session
    }

    /// The registry took a heartbeat on this stream and granted this lease. A worker whose clock is off cannot be relied on to
    /// stop in time. Answers the credits that waited for that, and
    /// whether it became fit or unfit for exclusive jobs.
    pub(crate) fn note_leased(&self, session: &Session, lease: Duration, is_clock_off: bool) -> (u32, bool) {
        // Without a nonce it cannot be told from another process that says its jobs have ended.
        let is_fit = session.nonce != Nonce::default()
            && !is_clock_off
            && session.profile.stop_within.is_some_and(|within| fits_exclusive(lease, within));
        let mut open = self.lock();
        let mut gate = session.gate();
        let is_news = gate.is_fit != is_fit && open.by_id.contains_key(&session.id);
        if is_news {
            gate.is_fit = is_fit;
            for queue in &session.profile.queues {
                let count = open.by_queue.entry(queue.clone()).or_default();
                count.fit = if is_fit { count.fit + 1 } else { count.fit - 1 };
            }
        }
        gate.is_leased = true;
        (std::mem::take(&mut gate.credits), is_news)
    }

    /// Forgets a session.
    pub(crate) fn close(&self, id: SessionId) {
        let mut open = self.lock();
        let Some(session) = open.by_id.remove(&id) else { return };
        if open.by_worker.get(&session.worker) == Some(&id) {
            open.by_worker.remove(&session.worker);
        }
        for queue in &session.profile.queues {
            if let Some(count) = open.by_queue.get_mut(queue) {
                count.all -= 1;
                count.fit -= u32::from(session.is_fit());
                if count.all == 0 {
                    open.by_queue.remove(queue);
                }
            }
        }
        self.gauge.set(open.by_id.len() as i64);
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        self.lock().by_id.get(&id).cloned()
    }

    /// The session this worker is on now.
    pub(crate) fn of_worker(&self, worker: &WorkerKey) -> Option<Arc<Session>> {
        self.lock().speaking_for(worker).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// How many connected workers serve this queue; of an exclusive one, those that may be given its jobs.
    pub(crate) fn workers_for(&self, queue: &QueueName, exclusive: bool) -> u32 {
        let count = self.lock().by_queue.get(queue).copied().unwrap_or_default();
        if exclusive { count.fit } else { count.all }
    }

    pub(crate) fn count(&self) -> u32 {
        self.lock().by_id.len() as u32
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().expect("no panic while holding the lock")
    }
}

impl Open {
    fn speaking_for(&self, worker: &WorkerKey) -> Option<&Arc<Session>> {
        self.by_worker.get(worker).and_then(|id| self.by_id.get(id))
    }

    fn let_speak(&mut self, session: &Arc<Session>) {
        if let Some(old) = self.by_worker.insert(session.worker.clone(), session.id)
            && old != session.id
            && let Some(old) = self.by_id.get(&old)
        {
            old.close.cancel();
        }
        session.may_speak.cancel();
    }
}
