//! The machine: founds, beats, says until when, and hands those who stand still to [`Watch`].

use std::collections::VecDeque;
use std::time::Duration;

use model::{Instant, RegistryId};

use super::io::{Input, Output, Sighting, Terms};
use super::mutation::Mutation;
use super::watch::Watch;

/// How often a call that failed is tried in the time of one beat.
const TRIES_PER_BEAT: u32 = 4;

/// The ownership of one server. After each input or deadline, drain [`poll_output`](Self::poll_output) before the next. Every
/// [`Output`] that names an answer gets one, also when the call failed or took too long.
#[derive(Debug)]
pub struct Ownership {
    terms: Terms,
    mutation: Option<Mutation>,
    stage: Stage,
    /// Registries that were lost since the last beat was committed.
    lost_in_a_row: u32,
    watch: Watch,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The store was asked for a registry.
    Founding,
    /// It failed, or the one before was lost: when to ask.
    FoundAt(Instant),
    /// There is one.
    Owning {
        registry: RegistryId,
        /// When we heard that it is there.
        since: Instant,
        beat: Beat,
    },
    /// This server goes.
    Resigned,
}

#[derive(Clone, Copy, Debug)]
enum Beat {
    /// When to send the next one.
    Due(Instant),
    /// One is under way, since then.
    Sent(Instant),
}

impl Ownership {
    /// Founds a registry at once.
    pub fn new(now: Instant, terms: Terms) -> Self {
        Self::with(now, terms, None)
    }

    /// The same with a deliberate bug, to show that tests notice it.
    pub fn broken(now: Instant, terms: Terms, mutation: Mutation) -> Self {
        Self::with(now, terms, Some(mutation))
    }

    fn with(now: Instant, terms: Terms, mutation: Option<Mutation>) -> Self {
        let watch = Watch::new(mutation);
        let stage = Stage::FoundAt(now);
        let outputs = VecDeque::new();
        let mut machine = Ownership { terms, mutation, stage, lost_in_a_row: 0, watch, outputs };
        machine.handle_deadline(now);
        machine
    }

    /// Something happened. What answers nothing that was asked, or what was asked for a registry that is gone, is ignored.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match (input, self.stage) {
            (Input::Founded { sent, registry }, Stage::Founding) => self.founded(now, sent, registry),
            (Input::Beaten { sent, seen }, Stage::Owning { registry, since, beat: Beat::Sent(at) }) => {
                self.lost_in_a_row = 0;
                self.beat_at(registry, since, at + self.terms.beat_every);
                self.own(now, sent);
                self.look(now, sent, registry, seen);
            }
            (Input::BeatFailed, Stage::Owning { registry, since, beat: Beat::Sent(at) }) => {
                self.beat_at(registry, since, now + self.pause());
                if self.has(Mutation::FailedBeatCounts) {
                    self.own(now, at);
                }
            }
            (Input::Gone, Stage::Owning { registry, beat: Beat::Sent(_), .. }) => self.lose(now, registry),
            (Input::SaidGone { seen_at }, Stage::Owning { registry, since, beat: Beat::Sent(_) }) => {
                // Whoever looked before we had it cannot have seen it.
                if seen_at > since || self.has(Mutation::OldHearsayCounts) {
                    self.lose(now, registry);
                } else {
                    self.beat_at(registry, since, now + self.pause());
                }
            }
            (Input::TakeOverDone { from }, _) => self.watch.taken(now, from),
            (Input::Resigning, Stage::Owning { .. }) => {
                self.stage = Stage::Resigned;
                self.outputs.push_back(Output::OwnedUntil(now));
            }
            (Input::Resigning, _) => self.stage = Stage::Resigned,
            _ => {}
        }
    }

    /// Wake me then; a time that is past means now.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::FoundAt(at) | Stage::Owning { beat: Beat::Due(at), .. } => Some(at),
            Stage::Founding | Stage::Owning { .. } | Stage::Resigned => None,
        }
    }

    /// It is then.
    pub fn handle_deadline(&mut self, now: Instant) {
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        match self.stage {
            Stage::Owning { registry, since, .. } => {
                self.stage = Stage::Owning { registry, since, beat: Beat::Sent(now) };
                self.outputs.push_back(Output::Beat { registry });
            }
            _ => self.found(),
        }
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Our registry, if there is one.
    pub fn registry(&self) -> Option<RegistryId> {
        match self.stage {
            Stage::Owning { registry, .. } => Some(registry),
            _ => None,
        }
    }

    fn found(&mut self) {
        self.stage = Stage::Founding;
        self.outputs.push_back(Output::Found);
    }

    fn founded(&mut self, now: Instant, sent: Instant, registry: Option<RegistryId>) {
        let Some(registry) = registry else {
            self.stage = Stage::FoundAt(now + self.pause());
            return;
        };
        // The first beat shows who else there is, so it does not wait.
        self.beat_at(registry, now, now);
        self.outputs.push_back(Output::Begin { registry });
        self.own(now, sent);
    }

    /// It is another server's by now. Whatever took it from us may take the next one too: the more of them are lost without a
    /// beat between, the longer the pause.
    fn lose(&mut self, now: Instant, registry: RegistryId) {
        self.watch.forget();
        self.outputs.push_back(Output::Disowned { registry });
        let pause = self.pause().saturating_mul(2_u32.saturating_pow(self.lost_in_a_row));
        self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        if self.has(Mutation::FoundsWithoutPause) {
            return self.found();
        }
        self.stage = Stage::FoundAt(now + pause.min(self.terms.beat_every));
    }

    fn beat_at(&mut self, registry: RegistryId, since: Instant, at: Instant) {
        self.stage = Stage::Owning { registry, since, beat: Beat::Due(at) };
    }

    /// A beat was committed that had been sent then.
    fn own(&mut self, now: Instant, sent: Instant) {
        let Terms { owned_for, rate_error, .. } = self.terms;
        let stamp = if self.has(Mutation::StampAtReceive) { now } else { sent };
        let is_naive = self.has(Mutation::RateErrorIgnored);
        let span = if is_naive { owned_for } else { rate_error.shorter(owned_for) };
        self.outputs.push_back(Output::OwnedUntil(stamp + span));
    }

    fn look(&mut self, now: Instant, sent: Instant, by: RegistryId, seen: Vec<Sighting>) {
        let sees_itself = self.has(Mutation::TakesOverItself);
        let others = seen.into_iter().filter(|sighting| sighting.registry != by || sees_itself);
        for Sighting { registry, beats, .. } in self.watch.look(now, sent, &self.terms, others) {
            self.outputs.push_back(Output::TakeOver { from: registry, beats, by });
        }
    }

    fn pause(&self) -> Duration {
        self.terms.beat_every / TRIES_PER_BEAT
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
