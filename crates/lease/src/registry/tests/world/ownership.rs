//! Several servers in the world: ours commits beats while it can, and another one takes over when it has not for long enough.
//! The one that lost its workers does not know that, and goes on answering.

use model::{Hold, HolderEnd, Instant, RegistryId};

use super::super::desk::millis;
use super::{Packet, Unanswered, World};
use crate::clock_rule::RateError;
use crate::message::Answer;
use crate::ownership;
use crate::registry::{Input, Output, Registry};

/// The registry's lot.
#[derive(Default)]
pub(super) struct Lot {
    /// There are several servers.
    pub(super) is_shared: bool,
    /// Ours cannot reach the store.
    pub(super) is_cut_off: bool,
    /// Until when its registry is its own for certain.
    pub(super) until: Option<Instant>,
    /// A server that was taken over and does not know.
    pub(super) former: Option<Registry>,
    /// There ever was one.
    pub(super) was_taken_over: bool,
}

impl World {
    /// Commits a beat, if that is possible.
    pub(super) fn own(&mut self) {
        let terms = ownership::Terms::DEFAULT;
        if self.lot.is_shared && !self.lot.is_cut_off {
            let until = self.now + RateError::DEFAULT.shorter(terms.owned_for);
            self.lot.until = Some(until);
            self.tell(Input::OwnedUntil(until));
        }
    }

    /// When to commit the next one.
    pub(super) fn next_beat(&self) -> Option<Instant> {
        let until = self.lot.until.filter(|_| !self.lot.is_cut_off)?;
        Some(until - millis(3_995))
    }

    pub(super) fn is_ours(&self) -> bool {
        self.lot.until.is_none_or(|until| self.now < until)
    }

    pub(super) fn lose_or_find_the_store(&mut self) {
        self.lot.is_cut_off = self.lot.is_shared && !self.lot.is_cut_off;
        if self.rng.percent(50) {
            self.take_over();
        }
    }

    /// Our own process stands still. When it wakes up another may have its workers.
    pub(super) fn stand_still(&mut self) {
        self.now = self.now + millis(self.rng.below(40_000));
        if self.rng.percent(30) {
            self.take_over();
        }
    }

    /// Another server takes over, if it may. From now on that one is ours.
    fn take_over(&mut self) {
        if self.is_ours() {
            return;
        }
        self.lot.is_cut_off = false;
        self.lot.was_taken_over = true;
        let former = self.start_anew();
        self.lot.former = Some(former);
        self.tell(Input::Restored(Vec::new()));
        let from = RegistryId(1);
        self.tell(Input::TakeOverBegun { from });
        // The store has done it, and we have not heard.
        for _ in 0..self.rng.below(4) {
            self.deliver();
            self.verify_any();
        }
        self.tell(Input::Restored(self.store.alive()));
        self.tell(Input::TakeOverEnded { from });
    }

    /// A worker speaks to us, or to the one before us.
    pub(super) fn hear_worker(&mut self, input: Input) {
        match &mut self.lot.former {
            Some(former) if self.rng.percent(30) => {
                former.handle(self.now, input);
                self.drain_former();
            }
            _ => self.tell(input),
        }
    }

    /// Time passes for the one before us, until it hears that it is over.
    pub(super) fn wake_former(&mut self) {
        if let Some(former) = &mut self.lot.former {
            former.handle_deadline(self.now);
            self.drain_former();
        }
        if self.rng.percent(1) {
            self.lot.former = None;
        }
    }

    /// Laws: it says nothing that matters to exclusive jobs, and judges nobody. The store refuses what it asks for.
    fn drain_former(&mut self) {
        while let Some(output) = self.lot.former.as_mut().and_then(Registry::poll_output) {
            match output {
                Output::Answer { ticket, key, answer } => {
                    let vouches = matches!(&answer, Answer::Ok(ack) if ack.exclusive_hold);
                    assert!(!vouches, "{key:?} hears what is not certain");
                    let Some(waiting) = self.unanswered.remove(&ticket) else { continue };
                    let Unanswered { node, number, change, .. } = waiting;
                    self.packets.push(Packet::Answer { node, number, change, answer });
                }
                Output::Bound { key, holds } => {
                    self.check_bound(false, &holds);
                    self.packets.push(Packet::Bound { key, holds });
                }
                Output::Ended { key, end } => {
                    assert!(end != HolderEnd::Expired, "{key:?} is judged by somebody who may not");
                }
                _ => {}
            }
        }
    }

    /// Law: that an exclusive job may start is said only by whoever is certain.
    pub(super) fn check_bound(&self, is_certain: bool, holds: &[Hold]) {
        for hold in holds.iter().filter(|hold| self.store.is_exclusive(**hold)) {
            assert!(is_certain, "{hold:?} may start by the word of somebody who is not certain");
        }
    }
}
