//! The driver of the ledger: link, handlers and clock in; frames, tasks and tokens out.
//!
//! One loop owns everything, so nothing in here is locked. Handlers are spawned tasks that tell their end over a
//! channel; whatever is ready when the stream can take a frame goes out in one frame. What the loop cannot promise, since
//! it may be frozen or starved together with its process, is the guardian's duty.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use guardian::Guardian;
use lease::clock_rule::{self, Stopping};
use lease::ledger::{Ended, Input, KeyEnd, Ledger, Output, StopReason, Terms};
use lease::message::{Answer, Profile, Stop, StopOrder};
use model::{Clock, Hold, Instant, Nonce};
use rpc::{lease_convert, wire};
use tokio::sync::mpsc;
use tokio::time::{self, Sleep};

use crate::context::JobContext;
use crate::doom::Doom;
use crate::event::{Observer, Summary, WorkerEvent};
use crate::farewell::{self, Words};
use crate::frame;
use crate::guard::Guard;
use crate::handler::Handlers;
use crate::healthcheck::{Check, Checks};
use crate::home::{Home, JobEvent};
use crate::jobs::Jobs;
use crate::key;
use crate::link::{self, LinkEvent, LinkTerms};
use crate::route::Route;
use crate::told::Told;
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
    pub(crate) guardian: Option<Guardian>,
    pub(crate) doom: Doom,
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
    /// The guardian is gone.
    GuardianLost,
    /// Shut down gently.
    Drain,
    /// Shut down at once.
    Abort,
}

pub(crate) struct Session {
    ledger: Ledger,
    profile: Profile,
    stopping: Stopping,
    route: Route,
    link_terms: LinkTerms,
    jobs: Jobs,
    checks: Checks,
    told: Told,
    guard: Guard,
    /// Resolves when the guardian is gone; never without one.
    guardian_lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    doom: Doom,
    frames: Option<mpsc::Sender<wire::WorkerFrame>>,
    link: mpsc::Receiver<LinkEvent>,
    job_events: mpsc::UnboundedReceiver<JobEvent>,
    batch: Vec<JobEvent>,
    timer: Pin<Box<Sleep>>,
    /// What the timer is set to.
    timer_at: Instant,
    grace: Duration,
    is_draining: bool,
    /// The server has taken our leave.
    has_left: bool,
    /// The last leave that was sent said that nothing runs any more.
    says_all_stopped: bool,
    is_gone: bool,
    has_told_unfit: bool,
    observer: Observer,
    home: Arc<Home>,
    clock: Arc<dyn Clock>,
    summary: Summary,
}

impl Session {
    pub(crate) fn start(parts: SessionParts) -> Self {
        let now = parts.clock.monotonic();
        let link_terms = LinkTerms { home: Arc::clone(&parts.home), clock: Arc::clone(&parts.clock) };
        let mut route = Route::new(parts.home.client.servers().map(str::to_owned).collect());
        let first = route.next(parts.home.lease(), rand::random());
        let (profile, stopping) = (parts.terms.profile.clone(), parts.terms.stopping);
        let mut guard = Guard::attach(parts.guardian, &parts.home.servers, stopping);
        guard.follow_key(parts.home.key(), parts.nonce);
        let ledger = Ledger::new(parts.terms, parts.home.key(), parts.nonce);
        let hello = lease_convert::hello(ledger.key(), ledger.nonce(), &profile);
        let starter = guard.guardian().filter(|_| parts.handlers.has_exec()).cloned();
        Session {
            link: link::spawn(link_terms.clone(), first, hello),
            route,
            ledger,
            profile,
            stopping,
            link_terms,
            jobs: Jobs::new(parts.handlers, Arc::clone(&parts.home), stopping.kill_wait),
            checks: Checks::new(parts.home.events.clone(), starter),
            told: Told::default(),
            guardian_lost: Box::pin(guard.lost()),
            guard,
            doom: parts.doom,
            frames: None,
            job_events: parts.job_events,
            batch: Vec::with_capacity(JOB_EVENTS_BATCH_MAX),
            timer: Box::pin(time::sleep(TURN_MAX)),
            timer_at: now + TURN_MAX,
            grace: parts.grace,
            is_draining: false,
            has_left: false,
            says_all_stopped: false,
            is_gone: false,
            has_told_unfit: false,
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
            self.carry_out(now);
            match event {
                Event::Link(event) => self.on_link(now, event),
                Event::Jobs => self.on_jobs(now),
                Event::Writable => self.send(now),
                Event::Tick => {}
                Event::GuardianLost => self.on_guardian_lost(now),
                Event::Drain => self.on_drain(now, self.grace),
                Event::Abort => break,
            }
        }
        self.end().await
    }

    async fn next_event(&mut self, shutdown: &Shutdown) -> Event {
        let now = self.clock.monotonic();
        self.set_timer(now);
        let is_writing = self.ledger.has_transmit(now) || self.checks.has_done();
        // In this order, what can be learned is learned before a frame is made of it.
        tokio::select! {
            biased;
            () = shutdown.abort_ordered() => Event::Abort,
            () = shutdown.drain_ordered(), if !self.is_draining => Event::Drain,
            () = &mut self.guardian_lost, if !self.summary.guardian_lost => Event::GuardianLost,
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
                self.route.failed();
                self.open_link();
                self.input(now, Input::Disconnected);
            }
            LinkEvent::Failed { why } => {
                self.observer.tell(|| WorkerEvent::Unreachable { why });
                self.route.failed();
                self.open_link();
            }
            LinkEvent::Frame(frame) => self.on_frame(now, *frame),
        }
    }

    fn on_frame(&mut self, now: Instant, frame: wire::ServerFrame) {
        // What was answered is booked before a heartbeat's answer can end the key that it was said under.
        let answers = frame.reports.iter().filter_map(frame::report_answer);
        let stops = frame.stops.iter().filter_map(frame::stop);
        let heartbeat = frame.heartbeat.as_ref().and_then(frame::heartbeat_answer);
        if matches!(heartbeat, Some(Input::HeartbeatAnswered { answer: Answer::Ok(_), .. })) {
            self.route.settled();
            self.guard.follow_server(self.route.here());
        }
        let forget = frame::forget(&frame.forget);
        let told = frame.worker_set.as_ref().map(frame::told);
        self.told.set(frame.worker_set.as_ref());
        if let Some(answer) = &frame.heartbeat {
            self.told.answer(answer);
        }
        if let Some(check) = frame::check(&frame, now) {
            self.checks.ask(check);
        }
        for input in
            answers.chain(stops).chain(frame::bound(&frame.bound)).chain(forget).chain(told).chain(heartbeat)
        {
            self.input(now, input);
        }
        for assignment in frame.assignments {
            let kind_timeout = self.jobs.heartbeat_timeout(&assignment.kind);
            if let Some(grant) = frame::grant(&assignment, self.ledger.key(), kind_timeout) {
                self.jobs.arrive(&grant, assignment);
                self.input(now, Input::Assigned(grant));
                self.jobs.settle(|hold| self.ledger.is_waiting(hold));
            }
        }
        if frame.left {
            self.has_left = self.says_all_stopped;
            self.input(now, Input::Left);
        }
    }

    fn on_jobs(&mut self, now: Instant) {
        let mut batch = std::mem::take(&mut self.batch);
        for event in batch.drain(..) {
            match event {
                JobEvent::Finished { hold, ended, at } => {
                    // Its end may be heard before the guardian's. Nothing more may be asked for then.
                    if ended == Ended::Crashed {
                        self.summary.lost += 1;
                        self.on_guardian_lost(now);
                    }
                    self.jobs.remove(hold);
                    self.input(now, Input::Finished { hold, ended, at });
                }
                JobEvent::Checked { is_well } => {
                    if let Some(Check { asked_at, lease, .. }) = self.checks.ended(is_well) {
                        self.input(now, Input::Checked { asked_at, lease });
                    }
                }
                JobEvent::Lost(hold) => {
                    self.input(now, Input::Stopped(Stop { hold, reason: StopOrder::Lost }));
                }
                JobEvent::Noted(hold) => {
                    if let Some(note) = self.jobs.context(hold).and_then(JobContext::take_note) {
                        self.input(now, Input::Noted { hold, note });
                    }
                }
                JobEvent::Beaten(hold) => {
                    if let Some(context) = self.jobs.context(hold) {
                        context.take_beat();
                        self.input(now, Input::Beaten { hold });
                    }
                }
            }
        }
        self.batch = batch;
    }

    fn on_drain(&mut self, now: Instant, grace: Duration) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.observer.tell(|| WorkerEvent::Draining);
            self.input(now, Input::Drain { grace });
        }
    }

    /// Without its guardian a worker can start no command and end none for certain, so it ends. Handlers are told to stop
    /// at once; commands were killed by whoever noticed, and are lost; what was not started is handed back.
    fn on_guardian_lost(&mut self, now: Instant) {
        if std::mem::replace(&mut self.summary.guardian_lost, true) {
            return;
        }
        tracing::error!("the guardian is gone; this worker ends");
        self.observer.tell(|| WorkerEvent::GuardianLost);
        self.on_drain(now, self.stopping.kill_wait);
    }

    fn input(&mut self, now: Instant, input: Input) {
        self.ledger.handle(now, input);
        self.carry_out(now);
    }

    /// Does what the ledger asks for.
    fn carry_out(&mut self, now: Instant) {
        // First of all: what is started next relies on it.
        self.guard.follow_lease(self.ledger.exclusive_hold_until(), self.ledger.hold_until());
        while let Some(output) = self.ledger.poll_output() {
            match output {
                Output::Start { hold } => self.start_job(hold),
                Output::Stop { hold, reason } => self.stop_job(hold, reason),
                Output::Abort { hold } => self.jobs.abort(hold),
                Output::Doom { hold } => self.meet_doom(hold),
                Output::Farewell { key, nonce, stopped_at, all_stopped } => {
                    let words = Words { key, nonce, stopped_at, all_stopped };
                    farewell::spawn(Arc::clone(&self.home), words);
                }
                Output::Ended { hold, outcome } => {
                    if let Some(outcome) = &outcome {
                        self.summary.count(outcome);
                    }
                    self.jobs.take(hold);
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
                    self.check_fitness(lease);
                }
                Output::NewKey { why } => self.rekey(now, why),
                Output::MoveTo { address } => self.move_to(now, address),
                Output::TryAnother => self.try_another(now),
                Output::DrainOrdered => self.on_drain(now, self.grace),
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
        self.guard.follow_key(key.clone(), self.ledger.nonce());
        self.ledger.handle(now, Input::Rekeyed { key: key.clone() });
        self.observer.tell(|| WorkerEvent::NewKey { key, why });
        self.reopen(now, "the worker's key is over".to_owned());
    }

    /// Key, jobs and lease are what they were; only whom we talk to changes.
    fn move_to(&mut self, now: Instant, address: Option<String>) {
        let place = address.as_deref().map(|address| format!(": {address}")).unwrap_or_default();
        self.route.sent_away(address.and_then(|address| self.usable(&address)));
        self.reopen(now, format!("another server looks after this worker{place}"));
    }

    /// The same where the server here can do nothing for us: another one may.
    fn try_another(&mut self, now: Instant) {
        if self.route.leaves() {
            self.reopen(now, "the server's store is in trouble; another server is tried".to_owned());
        }
    }

    /// Drops the stream and opens another one.
    fn reopen(&mut self, now: Instant, why: String) {
        self.hang_up(why);
        self.ledger.handle(now, Input::Disconnected);
        self.open_link();
    }

    /// The next try to reach a server, in place of the last one.
    fn open_link(&mut self) {
        let stop = self.route.next(self.home.lease(), rand::random());
        let hello = lease_convert::hello(self.ledger.key(), self.ledger.nonce(), &self.profile);
        self.link = link::spawn(self.link_terms.clone(), stop, hello);
    }

    /// An address that a server named, in the form in which we know servers.
    fn usable(&self, address: &str) -> Option<String> {
        let server = self.home.client.server(address);
        let server =
            server.inspect_err(|error| tracing::warn!(address, %error, "we were sent to no usable address"));
        server.ok().map(|server| server.url)
    }

    fn hang_up(&mut self, why: String) {
        self.checks.forget();
        if self.frames.take().is_some() {
            self.observer.tell(|| WorkerEvent::Disconnected { why });
        }
    }

    fn start_job(&mut self, hold: Hold) {
        let assigned = self.jobs.take(hold).expect("a start names a job that was assigned");
        let (Hold { job, fence }, attempt) = (hold, assigned.context.attempt());
        self.observer.tell(|| WorkerEvent::Started { job, fence, attempt });
        let (clock, until) = (Arc::clone(&self.clock), self.ledger.exclusive_hold_until());
        let start_by = until.map(|until| self.stopping.stop_at(until));
        self.jobs.start(assigned, &self.guard, move || start_by.is_some_and(|by| clock.monotonic() < by));
    }

    fn stop_job(&mut self, hold: Hold, reason: StopReason) {
        self.jobs.stop(hold, reason);
        if reason == StopReason::Lost {
            self.summary.lost += 1;
        }
        self.observer.stopped(hold, reason);
    }

    fn send(&mut self, now: Instant) {
        let Some(frames) = &self.frames else { return };
        // Only this loop sends, so the place that was free is still free.
        let Ok(place) = frames.try_reserve() else { return };
        let (transmit, checked) = (self.ledger.poll_transmit(now), self.checks.take_done());
        if transmit.is_none() && checked.is_none() {
            drop(place);
        } else {
            let transmit = transmit.unwrap_or_default();
            if let Some(leave) = &transmit.leave {
                self.says_all_stopped = leave.all_stopped;
            }
            let checked = checked.unwrap_or_default();
            place.send(wire::WorkerFrame { checked, ..frame::worker_frame(transmit) });
        }
        self.carry_out(now);
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

    /// An exclusive job did not end although it was aborted, and must not outlive the lease.
    fn meet_doom(&self, hold: Hold) {
        match self.jobs.family_gone(hold).zip(self.guard.guardian()) {
            // The guardian goes on: it ends what else this process leaves behind, and tells the server.
            None => self.doom.strike(hold),
            // One that did not end a family, because it is frozen perhaps, is of no use. When it is gone, its families are
            // ended from here; if that helps in time, there is nothing to end this process for.
            Some((gone, guardian)) => {
                let (doom, guardian, patience) =
                    (self.doom.clone(), guardian.clone(), self.stopping.safety / 8);
                tokio::spawn(async move {
                    // We may have been frozen ourselves, and its word that all is done is waiting to be read.
                    if time::timeout(patience, gone.cancelled()).await.is_err() {
                        guardian.kill();
                        doom.strike_unless(gone, patience, hold).await;
                    }
                });
            }
        }
    }

    /// The lease is the server's choice in the end, so only now it shows whether it is long enough.
    fn check_fitness(&mut self, lease: Duration) {
        let Some(within) = self.profile.stop_within else { return };
        if clock_rule::fits_exclusive(lease, within) || std::mem::replace(&mut self.has_told_unfit, true) {
            return;
        }
        let needed = clock_rule::exclusive_lease_min(within);
        tracing::warn!(?lease, ?needed, "the lease granted is too short for exclusive queues");
        self.observer.tell(|| WorkerEvent::ExclusiveUnfit { lease, needed });
    }

    /// Ends what still runs and waits, for a short while, until it is gone.
    async fn end(mut self) -> Summary {
        self.summary.still_running = self.jobs.running() as u64;
        self.jobs.abort_all();
        let all_gone = async {
            while self.jobs.running() > 0 {
                if let Some(JobEvent::Finished { hold, .. }) = self.job_events.recv().await {
                    self.jobs.remove(hold);
                }
            }
        };
        let is_clean = time::timeout(ABORT_WAIT, all_gone).await.is_ok();
        // Otherwise the guardian ends what is left when this process is gone, and takes leave for us.
        if is_clean && (self.has_left || !self.ledger.is_registered()) {
            self.guard.say_goodbye();
        }
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
