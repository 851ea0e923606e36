//! A small world for the laws: servers whose clocks drift, that are frozen, killed, cut off and stopped, and a store that is
//! slow and whose answers get lost. Times are true times, in nanoseconds, which nobody in it can read.

mod server;
mod store;

use std::collections::BTreeMap;

use model::splitmix::SplitMix;
use model::{Instant, RegistryId};

use self::server::Server;
use self::store::Store;
use super::Bug;
use crate::ownership::{Input, Output, Terms};

const MS: u64 = 1_000_000;
/// How long faults happen.
const FAULTS: u64 = 60_000 * MS;
/// The longest a call takes each way when nothing is wrong.
const CALM_DELAY: u64 = 5 * MS;
/// The longest it takes each way at all, and how long a caller waits for what was lost.
const SLOW_DELAY: u64 = 8_000 * MS;
/// ρ, in parts per million.
const RATE_ERROR: u64 = 1_000;
/// What rounding to nanoseconds may cost.
const ROUNDING: u64 = 5;

/// How long after the last fault every dead registry is taken over. What was under way then is answered, perhaps with a
/// failure, or with the news that the own registry is gone; then it is seen, waited for, seen again, and taken.
const TAKEN_OVER_WITHIN: u64 = {
    let under_way = 2 * SLOW_DELAY;
    // A pause after a failure, the longest one after a loss.
    let own_again = (250 + 1_000) * MS + 2 * 2 * CALM_DELAY;
    let waiting = 5_000 * MS * (1_000_000 + RATE_ERROR) / (1_000_000 - RATE_ERROR);
    let looking = 2 * (1_000 * MS * 1_000_000 / (1_000_000 - RATE_ERROR) + 2 * CALM_DELAY);
    under_way + own_again + waiting + looking + 2 * CALM_DELAY
};

/// What is going to happen.
enum Event {
    /// A server looks at its clock.
    Wake { server: usize, life: u32 },
    /// A call reaches the store; its answer is lost, or not.
    Commit { call: Call, is_lost: bool },
    /// A call is answered.
    Answer { call: Call, input: Input },
    /// Something goes wrong.
    Fault,
}

/// A call to the store.
struct Call {
    server: usize,
    life: u32,
    output: Output,
    /// When it was sent, by the server's clock.
    sent: Instant,
    sent_at: u64,
}

pub(super) struct World {
    rng: SplitMix,
    bug: Bug,
    /// The longest a call takes each way when nothing is wrong, here.
    calm_delay: u64,
    now: u64,
    servers: Vec<Server>,
    /// The number keeps the order of what happens at the same time.
    agenda: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    store: Store,
    /// Until when somebody counts on a registry.
    believed: BTreeMap<RegistryId, u64>,
}

impl World {
    pub(super) fn new(seed: u64, bug: Bug) -> Self {
        let mut rng = SplitMix::new(seed);
        let servers = (0..2 + rng.below(9)).map(|_| Server::new(&mut rng, 0, 0, bug)).collect();
        // Where calls take next to no time nothing hides that clocks differ.
        let calm_delay = if rng.percent(50) { CALM_DELAY } else { CALM_DELAY / 100 };
        let mut world = World {
            rng,
            bug,
            calm_delay,
            now: 0,
            servers,
            agenda: BTreeMap::new(),
            scheduled: 0,
            store: Store::default(),
            believed: BTreeMap::new(),
        };
        (0..world.servers.len()).for_each(|server| world.act(server));
        for _ in 0..world.rng.below(30) {
            let at = world.rng.below(FAULTS);
            world.schedule(at, Event::Fault);
        }
        world
    }

    /// Faults for a while, then none. Answers how many registries were taken over.
    pub(super) fn run(mut self) -> u64 {
        let end = FAULTS + TAKEN_OVER_WITHIN;
        while let Some(((at, _), event)) = self.agenda.pop_first() {
            if at > end {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self.now = end;
        // Law: whoever lives has its registry for certain, and there are no others.
        let alive: Vec<&Server> = self.servers.iter().filter(|server| server.is_alive).collect();
        for server in &alive {
            let registry = server.machine.registry().expect("a live server has a registry");
            assert!(self.store.beats(registry).is_some(), "{registry:?} is gone and its server lives");
            assert!(
                self.believed.get(&registry).is_some_and(|until| *until > end),
                "{registry:?} is not certain"
            );
        }
        assert_eq!(self.store.len(), alive.len(), "a dead registry is left");
        self.store.take_overs()
    }

    fn happen(&mut self, event: Event) {
        let (server, life) = match &event {
            Event::Commit { .. } | Event::Fault => return self.happen_outside(event),
            Event::Wake { server, life } => (*server, *life),
            Event::Answer { call, .. } => (call.server, call.life),
        };
        let it = &mut self.servers[server];
        if !it.is_alive || it.life != life {
            return;
        }
        if it.frozen_until > self.now {
            // It lies unread until then.
            let until = it.frozen_until;
            return self.schedule(until, event);
        }
        let clock = it.clock(self.now);
        match event {
            Event::Answer { call, input } => {
                if matches!(input, Input::Beaten { .. }) {
                    it.answered_beat_sent_at = call.sent_at;
                }
                it.machine.handle(clock, input);
            }
            _ => it.machine.handle_deadline(clock),
        }
        self.act(server);
    }

    fn happen_outside(&mut self, event: Event) {
        match event {
            Event::Commit { call, is_lost } => {
                if let Output::TakeOver { from, beats, by } = call.output
                    && self.store.may_take_over(from, beats, by)
                {
                    // Law: whoever had it does not count on it any more.
                    let until = self.believed.get(&from).copied().unwrap_or_default();
                    assert!(until <= self.now + ROUNDING, "{from:?} is taken {} ns early", until - self.now);
                }
                let answer = self.store.commit(self.now, call.output, call.sent);
                let (input, delay) = match is_lost {
                    false => (answer, self.delay()),
                    true => (failure(call.output, call.sent), SLOW_DELAY),
                };
                self.schedule(self.now + delay, Event::Answer { call, input });
            }
            _ => self.fault(),
        }
    }

    fn fault(&mut self) {
        let index = self.rng.below(self.servers.len() as u64) as usize;
        let others_live = self.servers.iter().filter(|server| server.is_alive).count() > 1;
        let (kind, span) = (self.rng.below(6), self.rng.below(15_000) * MS);
        let server = &mut self.servers[index];
        match kind {
            0 | 1 => server.frozen_until = (self.now + span).min(FAULTS),
            2 | 3 => server.cut_off_until = self.now + span,
            // Dead, or resigned and then dead; in its place another may start.
            _ if !server.is_alive => {
                let life = server.life + 1;
                self.servers[index] = Server::new(&mut self.rng, self.now, life, self.bug);
                self.act(index);
            }
            4 if others_live => server.is_alive = false,
            5 if others_live && server.frozen_until <= self.now => {
                let registry = server.machine.registry();
                server.machine.handle(server.clock(self.now), Input::Resigning);
                self.act(index);
                self.servers[index].is_alive = false;
                registry.into_iter().for_each(|registry| self.store.resign(registry));
            }
            _ => {}
        }
    }

    /// Does what a server's machine asks for.
    fn act(&mut self, index: usize) {
        while let Some(output) = self.servers[index].machine.poll_output() {
            match output {
                Output::Found | Output::Beat { .. } => self.call(index, output),
                Output::TakeOver { from, beats, by } => {
                    let asked_at = self.servers[index].answered_beat_sent_at;
                    let since = asked_at.saturating_sub(Terms::DEFAULT.owned_for.as_nanos() as u64);
                    // Law: nobody is even suspected who could have been seen to live.
                    assert!(from != by, "{by:?} takes itself over");
                    assert!(
                        self.store.stood_still(from, since + ROUNDING, asked_at),
                        "{from:?} beat within the time and is suspected at {beats}"
                    );
                    self.call(index, output);
                }
                Output::OwnedUntil(until) => {
                    let until = self.servers[index].true_time(until);
                    let registry = self.servers[index].registry.expect("it has begun");
                    // Law: nobody has taken over what it counts on from now on.
                    let taken_at = self.store.taken_at(registry).unwrap_or(u64::MAX);
                    let is_over = until <= self.now;
                    assert!(is_over || until <= taken_at.saturating_add(ROUNDING), "{registry:?} was taken");
                    self.believed.insert(registry, until);
                }
                Output::Begin { registry } => self.servers[index].registry = Some(registry),
                Output::Disowned { .. } => {}
            }
        }
        let server = &self.servers[index];
        if let Some(deadline) = server.machine.next_deadline() {
            let at = server.true_time(deadline).max(self.now);
            let life = server.life;
            self.schedule(at, Event::Wake { server: index, life });
        }
    }

    /// Sends a call to the store. It may get lost on either way.
    fn call(&mut self, index: usize, output: Output) {
        let server = &self.servers[index];
        let (life, sent) = (server.life, server.clock(self.now));
        let is_cut_off = server.cut_off_until > self.now;
        let call = Call { server: index, life, output, sent, sent_at: self.now };
        let goes_wrong = self.now < FAULTS;
        if goes_wrong && (is_cut_off || self.rng.percent(2)) {
            let input = failure(call.output, sent);
            let wait = if self.rng.percent(70) { 500 * MS } else { SLOW_DELAY };
            return self.schedule(self.now + wait, Event::Answer { call, input });
        }
        let is_lost = goes_wrong && self.rng.percent(3);
        let delay = self.delay();
        self.schedule(self.now + delay, Event::Commit { call, is_lost });
    }

    fn delay(&mut self) -> u64 {
        match self.now < FAULTS && self.rng.percent(8) {
            true => self.rng.below(SLOW_DELAY),
            false => self.rng.below(self.calm_delay),
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.agenda.insert((at, self.scheduled), event);
    }
}

/// What the caller hears when nothing is heard.
fn failure(output: Output, sent: Instant) -> Input {
    match output {
        Output::Found => Input::Founded { sent, registry: None },
        Output::Beat { .. } => Input::BeatFailed,
        Output::TakeOver { from, .. } => Input::TakeOverDone { from },
        other => panic!("{other:?} is no call"),
    }
}
