//! The driver of the ledger: link, handlers and clock in; frames, tasks and tokens out.
//!
//! One loop owns everything, so nothing in here is locked. Handlers are spawned tasks that tell their end over a
//! channel; whatever is ready when the stream can take a frame goes out in one frame.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lease::ledger::{Grant, Input, KeyEnd, Ledger, Output, StopReason, Terms};
use lease::message::{Profile, Stop, StopOrder};
use model::{Clock, Hold, Instant, Nonce};
use rpc::{lease_convert, wire};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{self, Sleep};

use crate::context::JobContext;
use crate::event::{Observer, Summary, WorkerEvent};
use crate::frame;
use crate::handler::{self, Handlers};
use crate::home::{Home, JobEvent};
use crate::key;
use crate::link::{self, LinkEvent, LinkTerms, Opening};
use crate::worker::Shutdown;

/// Ends and notes taken from handlers in one go.
const JOB_EVENTS_BATCH_MAX: usize = 1024;
/// The loop turns at least this often: timers do not count the time a machine is suspended, our clock does.
const TURN_MAX: Duration = Duration::from_millis(250);
/// How long aborted tasks may take to disappear when the worker ends at once.
const ABORT_WAIT: Duration = Duration::from_secs(1);

/// What a session is made of.
pub(crate) struct SessionParts {
    pub(crate) terms: Terms,
    pub(crate) nonce: Nonce,
    pub(crate) grace: Duration,
    pub(crate) handlers: Handlers,
    pub(crate) observer: Observer,
    pub(crate) home: Arc<Home>,
    pub(crate) job_events: mpsc::UnboundedReceiver<JobEvent>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Everything that can happen.
enum Event {
    /// The link has something.
    Link(LinkEvent),
    /// Handlers ended or noted progress; they are in the batch.
    Jobs,
    /// The stream can take a frame.
    Writable,
    /// A deadline, or simply time to turn.
    Tick,
    /// Shut down gently.
    Drain,
    /// Shut down at once.
    Abort,
}

pub(crate) struct Session {
    ledger: Ledger,
    profile: Profile,
    link_terms: LinkTerms,
    running: HashMap<Hold, Running>,
    frames: Option<mpsc::Sender<wire::WorkerFrame>>,
    link: mpsc::Receiver<LinkEvent>,
    job_events: mpsc::UnboundedReceiver<JobEvent>,
    batch: Vec<JobEvent>,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to.
    timer_at: Instant,
    grace: Duration,
    is_draining: bool,
    is_gone: bool,
    handlers: Handlers,
    observer: Observer,
    home: Arc<Home>,
    clock: Arc<dyn Clock>,
    summary: Summary,
}

struct Running {
    context: JobContext,
    task: AbortHandle,
}

impl Session {
    pub(crate) fn start(parts: SessionParts) -> Self {
        let now = parts.clock.monotonic();
        let link_terms = LinkTerms { home: Arc::clone(&parts.home), clock: Arc::clone(&parts.clock) };
        let profile = parts.terms.profile.clone();
        let ledger = Ledger::new(parts.terms, parts.home.key(), parts.nonce);
        let hello = lease_convert::hello(ledger.key(), ledger.nonce(), &profile);
        Session {
            link: link::spawn(link_terms.clone(), hello, Opening::First),
            ledger,
            profile,
            link_terms,
            running: HashMap::new(),
            frames: None,
            job_events: parts.job_events,
            batch: Vec::with_capacity(JOB_EVENTS_BATCH_MAX),
            timer: Box::pin(time::sleep(TURN_MAX)),
            timer_at: now + TURN_MAX,
            grace: parts.grace,
            is_draining: false,
            is_gone: false,
            handlers: parts.handlers,
            observer: parts.observer,
            home: parts.home,
            clock: parts.clock,
            summary: Summary::default(),
        }
    }

    pub(crate) async fn run(mut self, shutdown: Shutdown) -> Summary {
        while !self.is_gone {
            let event = self.next_event(&shutdown).await;
            let now = self.clock.monotonic();
            // Deadlines come first: a process that was stopped finds out what it lost before it starts anything.
            self.ledger.handle_deadline(now);
            self.carry_out(now, None);
            match event {
                Event::Link(event) => self.on_link(now, event),
                Event::Jobs => self.on_jobs(now),
                Event::Writable => self.send(now),
                Event::Tick => {}
                Event::Drain => self.on_drain(now),
                Event::Abort => break,
            }
        }
        self.end().await
    }

    async fn next_event(&mut self, shutdown: &Shutdown) -> Event {
        let now = self.clock.monotonic();
        self.set_timer(now);
        let is_writing = self.ledger.has_transmit(now);
        // In this order, what can be learned is learned before a frame is made of it.
        tokio::select! {
            biased;
            () = shutdown.abort_ordered() => Event::Abort,
            () = shutdown.drain_ordered(), if !self.is_draining => Event::Drain,
            Some(event) = self.link.recv() => Event::Link(event),
            _ = self.job_events.recv_many(&mut self.batch, JOB_EVENTS_BATCH_MAX) => Event::Jobs,
            () = writable(self.frames.as_ref()), if is_writing => Event::Writable,
            () = &mut self.timer => Event::Tick,
        }
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent) {
        match event {
            LinkEvent::Up { server, generation, frames } => {
                self.frames = Some(frames);
                self.observer.tell(|| WorkerEvent::Connected { server });
                self.input(now, Input::Connected { generation });
            }
            LinkEvent::Down { why } => {
                self.hang_up(why);
                self.input(now, Input::Disconnected);
            }
            LinkEvent::Failed { why } => self.observer.tell(|| WorkerEvent::Unreachable { why }),
            LinkEvent::Frame(frame) => self.on_frame(now, *frame),
        }
    }

    fn on_frame(&mut self, now: Instant, frame: wire::ServerFrame) {
        // What was answered is booked before a heartbeat's answer can end the key that it was said under.
        let answers = frame.reports.iter().filter_map(frame::report_answer);
        let stops = frame.stops.iter().filter_map(frame::stop);
        let heartbeat = frame.heartbeat.as_ref().and_then(frame::heartbeat_answer);
        for input in answers.chain(stops).chain(frame::bound(&frame.bound)).chain(heartbeat) {
            self.input(now, input);
        }
        for assignment in frame.assignments {
            let kind_timeout = self.handlers.heartbeat_timeout(&assignment.kind);
            if let Some(grant) = frame::grant(&assignment, kind_timeout) {
                self.ledger.handle(now, Input::Assigned(grant.clone()));
                self.carry_out(now, Some((grant, assignment)));
            }
        }
        if frame.left {
            self.input(now, Input::Left);
        }
    }

    fn on_jobs(&mut self, now: Instant) {
        let mut batch = std::mem::take(&mut self.batch);
        for event in batch.drain(..) {
            match event {
                JobEvent::Finished { hold, ended } => {
                    self.running.remove(&hold);
                    self.input(now, Input::Finished { hold, ended });
                }
                JobEvent::Lost(hold) => {
                    self.input(now, Input::Stopped(Stop { hold, reason: StopOrder::Lost }));
                }
                JobEvent::Noted(hold) => {
                    if let Some(note) = self.running.get(&hold).and_then(|job| job.context.take_note()) {
                        self.input(now, Input::Noted { hold, note });
                    }
                }
                JobEvent::Beaten(hold) => {
                    if let Some(job) = self.running.get(&hold) {
                        job.context.take_beat();
                        self.input(now, Input::Beaten { hold });
                    }
                }
            }
        }
        self.batch = batch;
    }

    fn on_drain(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.observer.tell(|| WorkerEvent::Draining);
            self.input(now, Input::Drain { grace: self.grace });
        }
    }

    fn input(&mut self, now: Instant, input: Input) {
        self.ledger.handle(now, input);
        self.carry_out(now, None);
    }

    /// Does what the ledger asks for. A start can only follow the assignment that was just handed in.
    fn carry_out(&mut self, now: Instant, mut arrived: Option<(Grant, wire::Assignment)>) {
        while let Some(output) = self.ledger.poll_output() {
            match output {
                Output::Start { .. } => {
                    let (grant, assignment) = arrived.take().expect("a start follows its own assignment");
                    self.start_job(grant, assignment);
                }
                Output::Stop { hold, reason } => self.stop_job(hold, reason),
                Output::Abort { hold } => {
                    if let Some(job) = self.running.get(&hold) {
                        job.task.abort();
                    }
                }
                Output::Ended { hold, outcome } => {
                    if let Some(outcome) = &outcome {
                        self.summary.count(outcome);
                    }
                    self.observer.finished(hold, outcome);
                }
                Output::Accepted { hold: Hold { job, fence } } => {
                    self.observer.tell(|| WorkerEvent::Accepted { job, fence });
                }
                Output::Refused { hold: Hold { job, fence }, current } => {
                    self.summary.refused += 1;
                    self.observer.tell(|| WorkerEvent::Refused { job, fence, current_fence: current });
                }
                Output::Registered { lease } => {
                    self.home.register(lease);
                    self.observer.tell(|| WorkerEvent::Registered { key: self.home.key(), lease });
                }
                Output::NewKey { why } => self.rekey(now, why),
                Output::MoveTo { address } => self.move_to(now, address),
                Output::DrainOrdered => self.on_drain(now),
                Output::Gone { unreported } => {
                    self.summary.unreported = unreported as u64;
                    self.is_gone = true;
                }
            }
        }
    }

    fn rekey(&mut self, now: Instant, why: KeyEnd) {
        let key = key::fresh(&self.profile.name);
        self.home.rekey(key.clone());
        self.ledger.handle(now, Input::Rekeyed { key: key.clone() });
        self.observer.tell(|| WorkerEvent::NewKey { key, why });
        self.reopen(now, "the worker's key is over", None);
    }

    fn move_to(&mut self, now: Instant, address: Option<String>) {
        if address.is_none() {
            self.home.client.prefer_another();
        }
        self.reopen(now, "another server owns this worker", address);
    }

    /// Drops the stream and opens another one, at this address first.
    fn reopen(&mut self, now: Instant, why: &str, address: Option<String>) {
        self.hang_up(why.to_owned());
        self.ledger.handle(now, Input::Disconnected);
        let hello = lease_convert::hello(self.ledger.key(), self.ledger.nonce(), &self.profile);
        self.link = link::spawn(self.link_terms.clone(), hello, Opening::Again { address });
    }

    fn hang_up(&mut self, why: String) {
        if self.frames.take().is_some() {
            self.observer.tell(|| WorkerEvent::Disconnected { why });
        }
    }

    fn start_job(&mut self, grant: Grant, mut assignment: wire::Assignment) {
        let Hold { job, fence } = grant.hold;
        let payload = std::mem::take(&mut assignment.payload);
        let attempt = assignment.attempt;
        self.observer.tell(|| WorkerEvent::Started { job, fence, attempt });
        let Some(handler) = self.handlers.find(&assignment.kind).cloned() else {
            let ended = handler::unhandled(&assignment.kind);
            let _ = self.home.events.send(JobEvent::Finished { hold: grant.hold, ended });
            return;
        };
        let context = JobContext::new(&grant, assignment, Arc::clone(&self.home));
        let task =
            tokio::spawn(handler.run(context.clone(), payload, self.home.events.clone())).abort_handle();
        self.running.insert(grant.hold, Running { context, task });
    }

    fn stop_job(&mut self, hold: Hold, reason: StopReason) {
        if let Some(job) = self.running.get(&hold) {
            job.context.stop(reason);
        }
        let Hold { job, fence } = hold;
        match reason {
            StopReason::Lost => {
                self.summary.lost += 1;
                self.observer.tell(|| WorkerEvent::Lost { job, fence });
            }
            StopReason::LeaseOver => self.observer.tell(|| WorkerEvent::LeaseOver { job, fence }),
            StopReason::Cancelled => self.observer.tell(|| WorkerEvent::Cancelled { job, fence }),
            StopReason::TimedOut => self.observer.tell(|| WorkerEvent::TimedOut { job, fence }),
            StopReason::Wedged => self.observer.tell(|| WorkerEvent::Wedged { job, fence }),
            StopReason::Draining => {}
        }
    }

    fn send(&mut self, now: Instant) {
        let Some(frames) = &self.frames else { return };
        // Only this loop sends, so the place that was free is still free.
        let Ok(place) = frames.try_reserve() else { return };
        match self.ledger.poll_transmit(now) {
            Some(transmit) => place.send(frame::worker_frame(transmit)),
            None => drop(place),
        }
        self.carry_out(now, None);
    }

    fn set_timer(&mut self, now: Instant) {
        let turn_at = now + TURN_MAX;
        let wake_at = self.ledger.next_deadline().map_or(turn_at, |at| at.min(turn_at));
        // A timer that is early is harmless, so it is only moved when it is late or has fired.
        if wake_at < self.timer_at || self.timer.is_elapsed() {
            self.timer.as_mut().reset(time::Instant::now() + wake_at.since(now));
            self.timer_at = wake_at;
        }
    }

    /// Ends what still runs and waits, for a short while, until it is gone.
    async fn end(mut self) -> Summary {
        self.summary.still_running = self.running.len() as u64;
        for job in self.running.values() {
            job.task.abort();
        }
        let all_gone = async {
            while !self.running.is_empty() {
                if let Some(JobEvent::Finished { hold, .. }) = self.job_events.recv().await {
                    self.running.remove(&hold);
                }
            }
        };
        let _ = time::timeout(ABORT_WAIT, all_gone).await;
        self.summary
    }
}

/// Waits until a frame can be sent. Without a stream, or with one that is closing, that is never.
async fn writable(frames: Option<&mpsc::Sender<wire::WorkerFrame>>) {
    match frames {
        Some(frames) if frames.reserve().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}
