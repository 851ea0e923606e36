//! The world itself: one event after another until all is done or a law is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use model::WorkerKey;

use super::calm::Calm;
use super::chaos::Chaos;
use super::corners::Corners;
use super::event::{Event, LeaveAnswer, Message};
use super::guardian::{Guardian, GuardianId, GuardianInput};
use super::laws::{healthy_worker_reaped, inactive_while_held, process_left_behind};
use super::outside::{Declared, HowDeclared, Outside};
use super::server::{Server, ServerInput};
use super::setup::{SERVERS, Setup, server_node, worker_at, worker_node};
use super::stats::Stats;
use super::usurper::Usurper;
use super::worker::{Worker, WorkerInput};
use super::workload::Workload;
use crate::law::Violation;
use crate::net::{Arrival, ConnectionId, Node, Side};
use crate::seeds::Outcome;
use crate::time::Time;
use crate::trace::Trace;

/// One run of the world.
pub(super) struct World<'a> {
    pub(super) outside: Outside<'a>,
    pub(super) servers: Vec<Server>,
    pub(super) workers: Vec<Worker>,
    pub(super) guardians: BTreeMap<GuardianId, Guardian>,
    pub(super) chaos: Chaos,
    pub(super) workload: Workload,
    pub(super) usurper: Usurper,
    pub(super) corners: Corners,
    pub(super) calm: Option<Calm>,
}

impl<'a> World<'a> {
    pub(super) fn new(setup: Setup, trace: Trace<'a>) -> Self {
        let mut outside = Outside::new(setup, trace);
        let setup = &outside.setup;
        let chaos = Chaos::new(setup);
        let workload = Workload::new(setup);
        let mut usurper = Usurper::new(setup);
        let mut corners = Corners::new(setup);
        for index in 0..SERVERS {
            outside.queue.push(Time::ZERO, Event::Start(server_node(index)));
        }
        for index in 0..outside.setup.workers.len() {
            outside.queue.push(Time::from_millis(10 * index as u64), Event::Start(worker_node(index)));
        }
        for number in 0..outside.setup.plan.faults().count() {
            outside.queue.push(Time::from_millis(1_000), Event::Fault(number));
        }
        outside.queue.push(Time::from_millis(100), Event::Enqueue);
        outside.queue.push(Time::from_millis(2_000), Event::Operate);
        if let Some(pause) = usurper.until_next() {
            outside.queue.push(Time::from_millis(1_000) + pause, Event::Usurp);
        }
        if let Some(pause) = corners.until_next() {
            outside.queue.push(Time::from_millis(1_000) + pause, Event::Corner);
        }
        outside.queue.push(Time::ZERO + outside.setup.faults_last, Event::Calm);
        World {
            servers: (0..SERVERS).map(|index| Server::new(index, &outside)).collect(),
            workers: (0..outside.setup.workers.len()).map(|index| Worker::new(index, &outside)).collect(),
            guardians: BTreeMap::new(),
            outside,
            chaos,
            workload,
            usurper,
            corners,
            calm: None,
        }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Outcome<Stats> {
        while let Some((now, event)) = self.outside.queue.pop() {
            self.outside.now = now;
            self.happen(event);
            self.carry_out_deaths();
            while let Some(declared) = self.outside.declared.pop() {
                self.judge_end(&declared);
            }
            let violation = self.outside.take_violation();
            if violation.is_some() || self.is_over() {
                if let Some(violation) = &violation {
                    self.outside.tell(|| format!("BROKEN {violation}"));
                }
                return self.end(violation);
            }
        }
        unreachable!("servers always wait for something")
    }

    fn end(mut self, violation: Option<Violation>) -> Outcome<Stats> {
        self.outside.stats.events = self.outside.trace.events();
        self.outside.stats.virtual_time = self.outside.now.since(Time::ZERO);
        Outcome {
            hash: self.outside.trace.hash(),
            at: self.outside.now,
            stats: self.outside.stats,
            violation,
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.outside.now;
        match event {
            Event::Net(wake) => {
                let arrival = self.outside.net.wake(now, wake);
                self.outside.schedule_net();
                if let Some(arrival) = arrival {
                    self.arrive(arrival);
                }
            }
            Event::Wake(node, number) => {
                self.note(&[1, u64::from(node.0)]);
                self.wake(node, number);
            }
            Event::Start(node) => {
                self.note(&[2, u64::from(node.0)]);
                self.start(node);
            }
            Event::Handler(node, life, hold, news) => {
                self.note(&[3, u64::from(node.0), hold.fence.get() as u64]);
                let worker = &mut self.workers[worker_at(node).expect("only workers have handlers")];
                if worker.process.life() == life {
                    worker.deliver(&mut self.outside, WorkerInput::Handler(hold, news));
                }
            }
            Event::ToGuardian(id, input) => {
                self.note(&[14, id.worker as u64, u64::from(id.life)]);
                self.tell_guardian(id, [*input]);
            }
            Event::FromGuardian(id, news) => {
                self.note(&[15, id.worker as u64, u64::from(id.life)]);
                let worker = &mut self.workers[id.worker];
                if worker.process.life() == id.life {
                    worker.deliver(&mut self.outside, WorkerInput::Guardian(news));
                }
            }
            Event::WakeGuardian(id, number) => {
                self.note(&[16, id.worker as u64, u64::from(id.life)]);
                if let Some(guardian) = self.guardians.get_mut(&id) {
                    let next = guardian.process.wake(now, number);
                    guardian.go_on(&mut self.outside, next);
                }
            }
            Event::Family(id, plan, news) => {
                self.note(&[17, id.0, u64::from(plan)]);
                if let Some((guardian, inputs)) = self.outside.family_happens(id, plan, news) {
                    self.tell_guardian(guardian, inputs);
                    self.note_end_of_namespace(guardian);
                }
            }
            Event::StoreRuns(number) => {
                self.note(&[4, number]);
                self.store_runs(number);
            }
            Event::StoreAnswers(number) => {
                self.note(&[5, number]);
                let answered = self.outside.database.take_answer(number);
                let server = &mut self.servers[answered.asker.server];
                if server.process.life() == answered.asker.life {
                    let input = ServerInput::Answered(answered.asker.registry, answered.then, answered.reply);
                    server.deliver(&mut self.outside, input);
                }
            }
            Event::Enqueue => self.enqueue(),
            Event::EnqueueAgain(batch) => self.enqueue_again(*batch),
            Event::Operate => self.operate(),
            Event::Fault(number) => self.strike(number),
            Event::Heal(heal) => self.heal(heal),
            Event::Usurp => self.usurp(),
            Event::Corner => self.corner(),
            Event::Calm => self.calm_down(),
            Event::Look => self.look(),
        }
    }

    fn arrive(&mut self, arrival: Arrival<Message>) {
        match arrival {
            Arrival::Opened { connection, to } => {
                self.note(&[6, connection.0]);
                // Nobody is known before its hello; but that nobody listens is known at once.
                if !self.servers[usize::from(to.0)].process.is_up() {
                    self.outside.close(connection, Side::Acceptor);
                }
            }
            Arrival::Message { connection, to, message } => {
                self.note(&[7, connection.0, message_word(&message)]);
                match worker_at(to) {
                    Some(_) if self.is_usurpers(connection, Some(&message)) => {}
                    Some(index) => match self.guardian_on(connection) {
                        Some(id) => self.tell_guardian(id, [GuardianInput::Heard(connection, message)]),
                        None => {
                            let input = WorkerInput::Heard(connection, message);
                            self.workers[index].deliver(&mut self.outside, input);
                        }
                    },
                    None => {
                        let input = ServerInput::Heard(connection, message);
                        self.servers[usize::from(to.0)].deliver(&mut self.outside, input);
                    }
                }
            }
            Arrival::Broken { connection, to } => {
                self.note(&[8, connection.0]);
                match worker_at(to) {
                    Some(_) if self.is_usurpers(connection, None) => {}
                    Some(index) => match self.guardian_on(connection) {
                        Some(id) => self.tell_guardian(id, [GuardianInput::Broken(connection)]),
                        None => {
                            self.workers[index].deliver(&mut self.outside, WorkerInput::Broken(connection));
                        }
                    },
                    None => {
                        let input = ServerInput::Broken(connection);
                        self.servers[usize::from(to.0)].deliver(&mut self.outside, input);
                    }
                }
            }
            Arrival::Datagram { .. } => unreachable!("nobody sends datagrams here"),
        }
    }

    fn wake(&mut self, node: Node, number: u64) {
        let now = self.outside.now;
        match worker_at(node) {
            Some(index) => {
                let worker = &mut self.workers[index];
                let next = worker.process.wake(now, number);
                worker.go_on(&mut self.outside, next);
            }
            None => {
                let server = &mut self.servers[usize::from(node.0)];
                let next = server.process.wake(now, number);
                server.go_on(&mut self.outside, next);
            }
        }
    }

    /// A guardian hears something, if it lives.
    fn tell_guardian(&mut self, id: GuardianId, inputs: impl IntoIterator<Item = GuardianInput>) {
        if let Some(guardian) = self.guardians.get_mut(&id) {
            inputs.into_iter().for_each(|input| guardian.deliver(&mut self.outside, input));
        }
    }

    /// The guardian that opened this connection, if it was one.
    fn guardian_on(&self, connection: ConnectionId) -> Option<GuardianId> {
        self.guardians.iter().find(|(_, guardian)| guardian.has(connection)).map(|(id, _)| *id)
    }

    fn start(&mut self, node: Node) {
        match worker_at(node) {
            Some(index) if !self.workers[index].process.is_up() => self.start_worker(index),
            None if !self.servers[usize::from(node.0)].process.is_up() => {
                self.servers[usize::from(node.0)].start(&mut self.outside);
            }
            _ => {}
        }
    }

    /// A key ended: by the right clock, and not without a reason.
    fn judge_end(&mut self, declared: &Declared) {
        let Declared { key, lease, how } = declared;
        let now = self.outside.now;
        let book = self.outside.books.key(key);
        let worker = book.worker;
        // What a worker believes by the word of a server that is not its owner any more is for ordinary jobs only.
        let held_until = book.held_until.max(book.exclusive_until);
        if *how == HowDeclared::Expired {
            self.outside.stats.expired += 1;
            let live = self.outside.runs.of_key(key).next();
            self.outside.judge(process_left_behind::check_expiry(key, live));
            if let Some(held_until) = held_until.filter(|_| self.is_alive(key)) {
                self.outside.stats.note_margin(inactive_while_held::margin(now, held_until));
                self.outside.judge(inactive_while_held::check(key, now, held_until));
            }
        }
        let is_in_use = match how {
            // The end of a key that its worker no longer uses follows from whatever made it take another one.
            HowDeclared::Expired => self.is_alive(key) && self.workers[worker].key() == Some(key),
            // What its owner has ended was judged then, or somebody wished it.
            HowDeclared::Lapsed | HowDeclared::Told => !self.is_over_for_its_owner(key),
        };
        if is_in_use {
            let trouble = self.chaos.trouble_of(worker, *lease);
            let trouble = if self.is_orphan(key) { now } else { trouble };
            let verdict = healthy_worker_reaped::check(key, now, *lease, trouble);
            self.outside.stats.healthy_reaped += u64::from(verdict.is_err());
            self.outside.judge(verdict);
        }
    }

    /// Whether the very process that drew this key still lives.
    pub(super) fn is_alive(&self, key: &WorkerKey) -> bool {
        let book = self.outside.books.key(key);
        let process = &self.workers[book.worker].process;
        process.is_up() && process.life() == book.life
    }

    /// An event with these marks goes into the record.
    pub(super) fn note(&mut self, words: &[u64]) {
        self.outside.trace.event(self.outside.now, words);
    }

    /// How long it has been calm.
    pub(super) fn calm_for(&self) -> Option<Duration> {
        self.calm.as_ref().map(|calm| self.outside.now.since(calm.since))
    }
}

fn message_word(message: &Message) -> u64 {
    match message {
        Message::Hello { nonce, .. } => nonce.get(),
        Message::Welcome { generation } => generation.0,
        Message::Leave { nonce, leave, .. } => nonce.get() ^ u64::from(leave.all_stopped),
        Message::LeaveAnswered(answer) => u64::from(*answer == LeaveAnswer::Taken),
        Message::Said(said) => {
            let number = said.heartbeat.as_ref().map_or(0, |(number, _)| *number);
            number << 16 | (said.reports.len() as u64) << 8 | u64::from(said.credits)
        }
        Message::Told(told) => {
            let number = told.heartbeat.as_ref().map_or(0, |(number, _)| *number);
            number << 16 | (told.assignments.len() as u64) << 8 | told.reports.len() as u64
        }
    }
}
