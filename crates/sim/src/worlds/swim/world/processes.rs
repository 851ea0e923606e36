//! Processes: they start and crash, are woken for their deadlines, and what they cannot take now waits.

use std::time::Duration;

use super::{Event, World};
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::{Epoch, Memory};
use crate::worlds::swim::protocol::{Address, Input, Node, Protocol, Start, Watch};

/// A machine that wants to be woken this often at one moment would never let time go on.
const WAKES_AT_ONE_MOMENT_MAX: u32 = 1_000;
/// How many of the members it saw last a node remembers over a restart.
const REMEMBERED_MAX: usize = 8;

impl<P: Protocol, W: Watch<P>> World<'_, P, W> {
    pub(super) fn start(&mut self, node: Node, memory: Memory) {
        self.places[node as usize].epoch += 1;
        self.start_as(node, node, memory);
    }

    /// A process starts in this place, in the name of that node. Nobody means it to.
    pub(super) fn start_twin(&mut self, place: Node, name: Node, epoch: Epoch) {
        self.places[name as usize].epoch += u32::from(epoch == Epoch::Later);
        self.start_as(place, name, Memory::Lost);
    }

    fn start_as(&mut self, node: Node, name: Node, memory: Memory) {
        self.crash(node);
        let now = self.queue.now();
        let contacts = self.setup.contacts.iter();
        let mut contacts: Vec<Address> = contacts.map(|node| self.places[*node as usize].address).collect();
        let epoch = self.places[name as usize].epoch;
        let place = &mut self.places[node as usize];
        place.lives += 1;
        if memory == Memory::Kept {
            contacts.append(&mut place.remembers);
        }
        let purpose = Rng::stream(self.setup.seed, u64::from(node), "protocol").bits();
        let start = Start {
            now: place.clock.shows(now),
            node: name,
            at: place.address,
            epoch,
            contacts: &contacts,
            known: if self.setup.is_formed && place.lives == 1 { self.setup.nodes } else { 0 },
            random: purpose.wrapping_add(u64::from(place.lives)),
        };
        place.protocol = Some(P::start(&self.settings, start));
        self.settle(now, node);
    }

    /// Its clock shows a later time at once.
    pub(super) fn jump(&mut self, now: Time, node: Node, by: Duration) {
        let place = &mut self.places[node as usize];
        place.clock.jump(by);
        if place.is_up() && now >= place.stopped_until {
            self.schedule_wake(now, node);
        }
    }

    pub(super) fn crash(&mut self, node: Node) {
        let place = &self.places[node as usize];
        if let Some(protocol) = &place.protocol {
            let seen =
                (0..self.setup.nodes).filter(|other| *other != node && protocol.belief(*other).is_present());
            let seen: Vec<Node> = seen.take(REMEMBERED_MAX).collect();
            let remembers = seen.into_iter().map(|other| self.places[other as usize].address).collect();
            self.places[node as usize].remembers = remembers;
        }
        self.places[node as usize].die();
    }

    /// Something arrives at a node; it waits if the process does not run or may not receive.
    pub(super) fn deliver(&mut self, now: Time, node: Node, input: Input<P::Message>) {
        let place = &mut self.places[node as usize];
        if !place.is_up() {
            return;
        }
        // That an exchange ended without an answer is no message: a timer of its own says so.
        let is_message = !matches!(input, Input::Response(_, None) | Input::Leave | Input::Told(..));
        let must_wait = is_message && (place.is_blocked(now) || !place.waiting.inbox.is_empty());
        if now < place.stopped_until || must_wait {
            place.keep(input);
        } else {
            self.handle(now, node, input);
        }
    }

    fn handle(&mut self, now: Time, node: Node, input: Input<P::Message>) {
        let place = &mut self.places[node as usize];
        let Some(protocol) = &mut place.protocol else { return };
        self.watch.input(now, node, protocol, &input);
        protocol.handle(place.clock.shows(now), input);
        self.settle(now, node);
        self.charge(now, node);
    }

    /// A node's pending wake-up comes: its deadline may have been put off meanwhile.
    pub(super) fn wake(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if place.wake_at != now {
            return;
        }
        place.wake_at = Time::MAX;
        self.trace.event(now, &[4, u64::from(node)]);
        if now < place.stopped_until {
            // The end of the stop looks at its timers.
            return;
        }
        self.look_at_timers(now, node);
    }

    fn look_at_timers(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        let Some(protocol) = &mut place.protocol else { return };
        let shown = place.clock.shows(now);
        if protocol.deadline().is_some_and(|deadline| deadline <= shown) {
            self.count_wake(now);
            let place = &mut self.places[node as usize];
            let Some(protocol) = &mut place.protocol else { return };
            protocol.handle_deadline(shown);
            self.settle(now, node);
            self.charge(now, node);
        } else {
            self.schedule_wake(now, node);
        }
    }

    /// What was just done has taken a slow process its time.
    fn charge(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if place.cost > Duration::ZERO && place.is_up() {
            place.stopped_until = place.stopped_until.max(now + place.cost);
            self.queue.push(place.stopped_until, Event::Resume(node));
        }
    }

    fn count_wake(&mut self, now: Time) {
        if self.wakes_at.0 != now {
            self.wakes_at = (now, 0);
        }
        self.wakes_at.1 += 1;
        let wakes_max = WAKES_AT_ONE_MOMENT_MAX.max(4 * self.setup.nodes);
        assert!(self.wakes_at.1 <= wakes_max, "a deadline is over once it was handled");
    }

    /// A process runs again, or may speak again, or has done its work: it goes on with what waits.
    pub(super) fn resume(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if !place.is_up() || now < place.stopped_until {
            return;
        }
        // What a slow process has to read must not keep it from its timers for ever.
        if self.setup.timers_first || place.cost > Duration::ZERO {
            self.look_at_timers(now, node);
        }
        let place = &mut self.places[node as usize];
        if !place.is_blocked(now) {
            for (to, message) in std::mem::take(&mut place.waiting.outbox) {
                self.launch(now, node, to, message);
            }
        }
        loop {
            let place = &mut self.places[node as usize];
            if now < place.stopped_until || place.is_blocked(now) {
                break;
            }
            let Some(input) = place.waiting.inbox.pop_front() else { break };
            self.handle(now, node, input);
        }
        if now >= self.places[node as usize].stopped_until {
            self.look_at_timers(now, node);
        }
    }

    /// Does what a node wants done, and sees to its next wake-up.
    fn settle(&mut self, now: Time, node: Node) {
        loop {
            let place = &mut self.places[node as usize];
            let Some(protocol) = &mut place.protocol else { return };
            let Some(output) = protocol.poll_output() else { break };
            self.watch.output(now, node, protocol, &output);
            self.act(now, node, output);
        }
        let place = &mut self.places[node as usize];
        let Some(protocol) = &place.protocol else { return };
        self.watch.turned(now, node, protocol);
        self.schedule_wake(now, node);
    }

    /// One pending wake-up is enough: a deadline that was put off is looked at when the earlier one comes.
    fn schedule_wake(&mut self, now: Time, node: Node) {
        let place = &mut self.places[node as usize];
        if let Some(deadline) = place.protocol.as_ref().and_then(P::deadline) {
            let at = place.clock.when(deadline).max(now);
            if at < place.wake_at {
                place.wake_at = at;
                self.queue.push(at, Event::Wake(node));
            }
        }
    }
}
