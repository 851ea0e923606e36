//! Scenarios in virtual time, with workers that answer at once unless told otherwise.

mod health;
mod seats;
mod telling;
mod turnover;
mod wait;

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Generation, Instant, Seat, WorkerKey};

use super::{Dismissal, Input, Muster, Output, Terms, TurnedAway, WaitStatus};
use crate::consensus::How;
use crate::health::{Health, Unhealthy};
use crate::mutation::Mutation;
use crate::seats::About;
use crate::set::{SetId, keep};

/// A lease of 20 s by a clock that is 0.1 % slow, and a second.
const SAFE_WAIT: Duration = Duration::from_millis(21_020);

const UNSEATED: About = About { seat: None, host: String::new(), started_us: 0 };

/// A worker, and what it does of itself.
#[derive(Clone, Debug)]
struct Actor {
    about: About,
    kept: Option<SetId>,
    next_beat: u64,
    beats: bool,
    answers_fetch: bool,
    answers_checks: bool,
    hears_tells: bool,
}

/// The scheduler and its workers. Times are milliseconds.
struct Stage {
    muster: Muster,
    terms: Terms,
    mutation: Option<Mutation>,
    now: u64,
    actors: BTreeMap<WorkerKey, Actor>,
    log: Vec<(u64, Output)>,
}

fn key(name: &str) -> WorkerKey {
    WorkerKey::new(name).unwrap()
}

fn sitting(seat: &str, host: &str, started_us: u64) -> About {
    About { seat: Some(Seat::new(seat).unwrap()), host: host.into(), started_us }
}

impl Stage {
    fn new(mutation: Option<Mutation>) -> Self {
        Self::with(Terms::new(Generation(1), SAFE_WAIT), mutation)
    }

    fn with(terms: Terms, mutation: Option<Mutation>) -> Self {
        let muster = Self::scheduler(0, &terms, mutation);
        Stage { muster, terms, mutation, now: 0, actors: BTreeMap::new(), log: Vec::new() }
    }

    /// These workers, healthy, after the safe wait; and an empty log.
    fn settled(names: &[&str], mutation: Option<Mutation>) -> Self {
        let mut stage = Self::new(mutation);
        names.iter().for_each(|name| stage.enter(name, UNSEATED));
        stage.run_until(30_000);
        for name in names {
            assert!(stage.muster.may_run(&key(name)), "{name}: {:?}", stage.muster.status());
        }
        stage.log.clear();
        stage
    }

    fn scheduler(now: u64, terms: &Terms, mutation: Option<Mutation>) -> Muster {
        match mutation {
            Some(mutation) => Muster::broken(Instant::from_millis(now), terms.clone(), mutation),
            None => Muster::new(Instant::from_millis(now), terms.clone()),
        }
    }

    /// The scheduler dies and another one starts at once. Its log is new.
    fn restart(&mut self) {
        self.terms.generation = Generation(self.terms.generation.0 + 1);
        self.muster = Self::scheduler(self.now, &self.terms, self.mutation);
        self.log.clear();
    }

    /// A worker starts and beats for the first time.
    fn enter(&mut self, name: &str, about: About) {
        self.enter_with(name, about, None);
    }

    /// As [`enter`](Self::enter), with an id from elsewhere.
    fn enter_with(&mut self, name: &str, about: About, kept: Option<SetId>) {
        let actor = Actor {
            about,
            kept,
            next_beat: self.now,
            beats: true,
            answers_fetch: true,
            answers_checks: true,
            hears_tells: true,
        };
        self.actors.insert(key(name), actor);
        self.beat(&key(name));
    }

    fn actor(&mut self, name: &str) -> &mut Actor {
        self.actors.get_mut(&key(name)).unwrap()
    }

    /// Its lease is over.
    fn gone(&mut self, name: &str) {
        self.actors.remove(&key(name));
        self.give(Input::Gone { key: key(name) });
    }

    fn beat(&mut self, key: &WorkerKey) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(key) else { return };
        actor.next_beat = now + 4_000;
        let (about, echoed) = (actor.about.clone(), actor.kept);
        self.give(Input::Heard { key: key.clone(), about, echoed });
        if let Some(told) = self.muster.current_for(key) {
            self.tell(key, told);
        }
    }

    fn tell(&mut self, key: &WorkerKey, told: SetId) {
        let generation = self.terms.generation;
        if let Some(actor) = self.actors.get_mut(key) {
            actor.kept = keep(actor.kept, generation, told);
        }
    }

    fn give(&mut self, input: Input) {
        self.muster.handle(Instant::from_millis(self.now), input);
        self.answer();
    }

    /// Workers answer what they are asked.
    fn answer(&mut self) {
        while let Some(output) = self.muster.poll_output() {
            self.log.push((self.now, output.clone()));
            let input = match output {
                Output::Fetch { key } if self.actors.get(&key).is_some_and(|actor| actor.answers_fetch) => {
                    Input::Fetched { key }
                }
                Output::Check { key, number }
                    if self.actors.get(&key).is_some_and(|actor| actor.answers_checks) =>
                {
                    Input::Checked { key, number }
                }
                Output::Tell { key, id } if self.actors.get(&key).is_some_and(|actor| actor.hears_tells) => {
                    self.tell(&key, id);
                    Input::Echoed { key, id }
                }
                _ => continue,
            };
            self.muster.handle(Instant::from_millis(self.now), input);
        }
    }

    fn run_until(&mut self, until: u64) {
        loop {
            let beats = self.actors.iter().filter(|(_, actor)| actor.beats);
            let beat = beats.map(|(key, actor)| (actor.next_beat, key.clone())).min();
            let deadline =
                self.muster.next_deadline().map_or(u64::MAX, |at| at.as_nanos().div_ceil(1_000_000));
            let next = beat.as_ref().map_or(deadline, |(at, _)| deadline.min(*at));
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            match beat {
                Some((at, key)) if at <= deadline => self.beat(&key),
                _ => {
                    self.muster.handle_deadline(Instant::from_millis(self.now));
                    self.answer();
                }
            }
        }
        self.now = until;
    }

    fn wait_over(&self) -> Option<(How, u64)> {
        self.log.iter().find_map(|(_, output)| match output {
            Output::WaitOver { how, after } => Some((*how, after.as_millis() as u64)),
            _ => None,
        })
    }

    /// The outputs that are about this worker, without healthchecks.
    fn about(&self, name: &str) -> Vec<&Output> {
        let name = key(name);
        let is_about = |output: &&Output| match output {
            Output::Fetch { key }
            | Output::Tell { key, .. }
            | Output::Health { key, .. }
            | Output::Dismiss { key, .. }
            | Output::TurnAway { key, .. } => *key == name,
            Output::Check { .. } | Output::WaitOver { .. } => false,
        };
        self.log.iter().map(|(_, output)| output).filter(is_about).collect()
    }

    fn health(&self, name: &str) -> Health {
        let status = self.muster.status();
        status.workers.iter().find(|worker| worker.key == key(name)).expect("it is known").health
    }
}
