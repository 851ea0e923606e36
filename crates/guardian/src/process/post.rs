//! The loop: what happened → the machine → what to do. When to do what is decided by the machine alone.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use lease::guardian::{FamilyId, Guardian, Input, Order, Output};
use lease::message::Leave;
use model::{Clock, Instant, Nonce, WorkerKey};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, pidfd_send_signal};

use super::audited;
use super::complaint::complain;
use super::families::{End, Families};
use super::leave;
use super::mouth::{Heard, Mouth};
use super::setup::Station;
use super::spawn::{Leader, Request, Spawner};
use super::waker::{Wake, Waker};
use crate::cgroup::Grove;
use crate::procfs::Mark;
use crate::wire::{CommandLine, Event, Said};

/// How soon families that are ending are looked at again, at first: those who were killed need a moment.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(1);
/// And when that was not enough, with longer and longer pauses.
const SWEEP_PAUSE_MAX: Duration = Duration::from_millis(20);
/// How soon strays are looked at when none of them has to end: the dead ones take up numbers.
const REST: Duration = Duration::from_secs(1);
/// How often, and how far apart, a round is tried again that failed after the worker's death.
const FAILURES_MAX: u32 = 100;
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Post {
    machine: Guardian,
    mouth: Mouth,
    worker: OwnedFd,
    waker: Waker,
    families: Families,
    grove: Option<Grove>,
    servers: String,
    spawner: Spawner,
    /// Ordered, and not yet allowed or refused by the machine.
    orders: HashMap<FamilyId, Launch>,
    /// To be taken when everything else is done.
    leaves: VecDeque<(WorkerKey, Nonce, Leave)>,
    /// Leaders that have exited and could not be reaped.
    lingering: Vec<FamilyId>,
    /// Rounds in a row that failed after the worker's death.
    failures: u32,
    is_mourning: bool,
    sweep_at: Option<Instant>,
    sweep_pause: Duration,
    is_over: bool,
}

struct Launch {
    exclusive: bool,
    command: CommandLine,
    streams: Vec<OwnedFd>,
}

impl Post {
    /// Begins to guard, and says so.
    pub(super) fn take(mut mouth: Mouth, station: Station) -> io::Result<Post> {
        let Station { worker, children, grove, namespace, credentials } = station;
        let cgroup = grove.as_ref().map(|grove| Arc::clone(grove.cgroup()));
        let path = cgroup.as_ref().and_then(|cgroup| cgroup.path().to_str().map(str::to_owned));
        let spawner = Spawner::new(cgroup, (!namespace).then(getpid), credentials);
        mouth.say(Event::Ready { cgroup: path });
        mouth.flush();
        Ok(Post {
            machine: Guardian::new(),
            waker: Waker::new(mouth.line(), &worker)?,
            mouth,
            worker,
            families: Families::new(children),
            grove,
            servers: String::new(),
            spawner,
            orders: HashMap::new(),
            leaves: VecDeque::new(),
            lingering: Vec::new(),
            failures: 0,
            is_mourning: false,
            sweep_at: None,
            sweep_pause: SWEEP_PAUSE_MIN,
            is_over: false,
        })
    }

    /// Guards until nothing is left to guard.
    pub(super) fn keep(mut self) -> ! {
        audited::shed();
        while !self.is_over {
            let Err(error) = self.round() else {
                self.failures = 0;
                continue;
            };
            complain(&format!("cannot go on: {error}"));
            self.failures += 1;
            if !self.is_mourning || self.failures > FAILURES_MAX {
                // Whoever waits for us is better served by our end, which is noticed, than by our silence.
                exit(1);
            }
            // Nobody else would end what a dead worker has left.
            std::thread::park_timeout(FAILURE_PAUSE);
        }
        drop(self.grove);
        exit(0)
    }

    fn round(&mut self) -> io::Result<()> {
        let wakes = self.waker.wait()?;
        // First of all: what a dead worker has ordered is not started.
        if wakes.contains(&Wake::WorkerDied) {
            self.mourn();
        }
        self.keep_time();
        for wake in wakes {
            match wake {
                Wake::Line => self.listen(),
                Wake::LeaderEnded(family) => self.leader_ended(family),
                Wake::WorkerDied | Wake::Time => {}
            }
        }
        self.sweep()?;
        self.talk()?;
        self.take_leave();
        let deadlines = [self.machine.next_deadline(), self.sweep_at];
        self.waker.wake_at(deadlines.into_iter().flatten().min())
    }

    fn leader_ended(&mut self, family: FamilyId) {
        if self.families.leader_exited(family) {
            self.input(Input::LeaderExited { family });
        } else if self.families.has_leader(family) {
            // Somebody traces it and has not looked yet. Nobody tells when that is done.
            self.lingering.push(family);
            self.sweep_at = Some(Instant::ZERO);
        }
    }

    fn keep_time(&mut self) {
        let now = SystemClock.monotonic();
        if self.machine.next_deadline().is_some_and(|at| at <= now) {
            self.machine.handle_deadline(now);
            self.act();
        }
    }

    /// The worker is dead. What it said before counts, except that nothing is started.
    fn mourn(&mut self) {
        self.waker.forget(&self.worker);
        self.is_mourning = true;
        self.families.begin_last_hour();
        loop {
            let heard = self.mouth.hear();
            if heard.is_empty() {
                break;
            }
            for Heard { said, descriptors } in heard {
                if !matches!(said, Said::Launch { .. }) {
                    self.hear(said, descriptors);
                }
            }
        }
        self.input(Input::WorkerDied);
    }

    fn listen(&mut self) {
        for Heard { said, descriptors } in self.mouth.hear() {
            self.hear(said, descriptors);
        }
        if self.mouth.is_closed() {
            // That proves nothing about the worker; its process does.
            self.waker.forget(self.mouth.line());
        }
    }

    fn talk(&mut self) -> io::Result<()> {
        let wants_room = self.mouth.flush();
        if self.mouth.is_closed() { Ok(()) } else { self.waker.watch_line(self.mouth.line(), wants_room) }
    }

    fn hear(&mut self, said: Said, streams: Vec<OwnedFd>) {
        match said {
            Said::Hello { .. } => {}
            Said::Servers(servers) => self.servers = servers,
            Said::Order(order) => self.input(Input::Said(order)),
            Said::Launch { family, exclusive, command } => {
                self.orders.insert(family, Launch { exclusive, command, streams });
                self.input(Input::Said(Order::Launch { family, exclusive }));
            }
        }
    }

    fn input(&mut self, input: Input) {
        self.machine.handle(SystemClock.monotonic(), input);
        self.act();
    }

    fn act(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Launch { family } => {
                    if let Err(error) = self.launch(family) {
                        self.miscarry(family, &error);
                    }
                }
                Output::Refused { family } => {
                    self.orders.remove(&family);
                    self.mouth.say(Event::Refused(family));
                }
                Output::Terminate { family } => {
                    if let Err(error) = self.families.terminate(family) {
                        complain(&format!("cannot look for strays: {error}"));
                    }
                }
                Output::Kill { family } => {
                    self.families.kill(family);
                    self.sweep_at = Some(Instant::ZERO);
                }
                Output::Ended { family } => {
                    let End { exit, gone_at } = self.families.take_end(family);
                    let (code, signal) = (exit.code, exit.signal);
                    self.mouth.say(Event::Ended { family, code, signal, gone_at });
                }
                Output::KillWorker => self.kill_worker(),
                Output::Leave { key, nonce, leave } => self.leaves.push_back((key, nonce, leave)),
                Output::Exit => self.is_over = true,
            }
        }
    }

    fn launch(&mut self, family: FamilyId) -> io::Result<()> {
        let Some(launch) = self.orders.remove(&family) else { return Err(Errno::INVAL.into()) };
        if self.families.is_full() {
            return Err(Errno::AGAIN.into());
        }
        let Launch { exclusive, command, streams } = launch;
        // Missing streams were cut off by the limit of open files.
        let streams = <[OwnedFd; 3]>::try_from(streams).map_err(|_| Errno::MFILE)?;
        let mark = Mark::of(&command.env);
        let leader = self.spawner.spawn(&Request { family, exclusive, command, streams })?;
        self.admit(family, leader, mark, exclusive)
    }

    fn admit(&mut self, family: FamilyId, leader: Leader, mark: Mark, exclusive: bool) -> io::Result<()> {
        if let Err(error) = self.waker.watch_leader(family, &leader.exit) {
            leader.abandon();
            return Err(error);
        }
        let number = leader.pid.as_raw_nonzero().get().unsigned_abs();
        self.mouth.say(Event::Launched { family, leader: number });
        self.families.admit(family, leader, mark, exclusive);
        self.sweep_at = self.sweep_at.or_else(|| Some(SystemClock.monotonic() + REST));
        self.input(Input::Launched { family, runs: true });
        Ok(())
    }

    fn miscarry(&mut self, family: FamilyId, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        self.mouth.say(Event::Failed { family, errno });
        self.input(Input::Launched { family, runs: false });
    }

    fn sweep(&mut self) -> io::Result<()> {
        let now = SystemClock.monotonic();
        if self.sweep_at.is_none_or(|at| at > now) {
            return Ok(());
        }
        for family in std::mem::take(&mut self.lingering) {
            self.leader_ended(family);
        }
        let emptied = self.families.sweep()?;
        self.sweep_pause = if emptied.is_empty() { self.sweep_pause * 2 } else { Duration::ZERO };
        self.sweep_pause = self.sweep_pause.clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX);
        for family in emptied {
            self.input(Input::Emptied { family });
        }
        let is_waiting = self.families.is_ending() || !self.lingering.is_empty();
        let pause = is_waiting.then_some(self.sweep_pause);
        let pause = pause.or_else(|| self.families.has_children().then_some(REST));
        self.sweep_at = pause.map(|pause| now + pause);
        Ok(())
    }

    fn kill_worker(&self) {
        if let Err(errno) = pidfd_send_signal(&self.worker, Signal::KILL) {
            complain(&format!("cannot end the worker: {errno}"));
        }
    }

    fn take_leave(&mut self) {
        while let Some((key, nonce, words)) = self.leaves.pop_front() {
            let asked_at = SystemClock.monotonic();
            // As of the moment it is said: finding a server may have taken longer than the margin it is about.
            let words = || Leave {
                stopped_for: words.stopped_for + SystemClock.monotonic().since(asked_at),
                ..words
            };
            let taken = leave::take(&self.servers, &key, nonce, words);
            self.input(Input::LeaveAnswered { key, taken });
        }
    }
}
