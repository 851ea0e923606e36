//! What nodes want done, and what becomes of it on the way: datagrams that fly, and streams step by step.

use super::{Event, World};
use crate::time::Time;
use crate::worlds::swim::protocol::{Address, Input, Node, Output, Protocol, Watch};
use crate::worlds::swim::streams::Step;

impl<P: Protocol, W: Watch<P>> World<'_, P, W> {
    pub(super) fn act(&mut self, now: Time, node: Node, output: Output<P::Message>) {
        let place = &mut self.places[node as usize];
        match output {
            Output::Send(to, message) if place.is_blocked(now) => place.waiting.outbox.push((to, message)),
            Output::Send(to, message) => self.launch(now, node, to, message),
            Output::Request(ticket, to, message) => {
                place.sent.exchanges += 1;
                place.sent.stream_bytes += P::wire_bytes(&message) as u64;
                let caller = (node, place.lives);
                // At an address that nobody has any more there is nobody to refuse.
                let to = self.place_at(to).unwrap_or(Node::MAX);
                let number = self.streams.open(now, caller, to, ticket, message);
                self.queue.push(now, Event::Stream(number, Step::Connect(0)));
                let timeout = P::stream_timeout(&self.settings);
                self.queue.push(now + timeout, Event::Stream(number, Step::Timeout));
            }
            Output::Respond(number, message) => {
                place.sent.exchanges += 1;
                place.sent.stream_bytes += P::wire_bytes(&message) as u64;
                if let Some(exchange) = self.streams.get_mut(number) {
                    exchange.message = Some(message);
                    self.queue.push(now, Event::Stream(number, Step::Answer(0)));
                }
            }
            Output::Changed(about, epoch, belief) => {
                self.trace.event(now, &[5, u64::from(node), u64::from(about), belief as u64]);
                self.trace.tell(now, || format!("{node:>4} thinks {about}@{epoch} is {belief:?}"));
            }
        }
    }

    pub(super) fn launch(&mut self, now: Time, from: Node, to: Address, message: P::Message) {
        let place = &mut self.places[from as usize];
        place.sent.datagrams += 1;
        place.sent.datagram_bytes += P::wire_bytes(&message) as u64;
        let came_from = place.address;
        let Some(to) = self.place_at(to) else { return };
        if self.network.doubles()
            && let Some(delay) = self.network.carry(from, to)
        {
            let flight = self.flights.launch(came_from, message.clone());
            self.queue.push(now + delay, Event::Datagram { to, flight });
        }
        if let Some(delay) = self.network.carry(from, to) {
            let flight = self.flights.launch(came_from, message);
            self.queue.push(now + delay, Event::Datagram { to, flight });
        }
    }

    pub(super) fn stream(&mut self, now: Time, number: u64, step: Step) {
        let Some(exchange) = self.streams.get(number) else { return };
        let (from, to) = (exchange.from, exchange.to);
        self.trace.event(now, &[6, number]);
        // Whoever may not speak now says it when it may.
        let speaker = match step {
            Step::Connect(_) | Step::Ask(0) => Some(from),
            Step::Answer(0) => Some(to),
            _ => None,
        };
        if let Some(place) = speaker.and_then(|speaker| self.places.get(speaker as usize))
            && place.is_blocked(now)
        {
            self.queue.push(place.blocked_until, Event::Stream(number, step));
            return;
        }
        match step {
            Step::Connect(_) if to >= self.setup.nodes => {}
            Step::Connect(_) | Step::Ask(_) | Step::Answer(_) => {
                let is_up = self.places[to as usize].is_up();
                if let Some((at, next)) = exchange.send(now, step, &mut self.network, is_up) {
                    self.queue.push(at, Event::Stream(number, next));
                }
            }
            // A process that died after the connection was made: its kernel says so.
            Step::Asked if !self.places[to as usize].is_up() => {
                if let Some(delay) = self.network.carry(to, from) {
                    self.queue.push(now + delay, Event::Stream(number, Step::Refused));
                }
            }
            Step::Asked => {
                let message = self.streams.get_mut(number).and_then(|exchange| exchange.message.take());
                if let Some(message) = message {
                    self.trace.tell(now, || format!("{from:>4} asks {to} {message:?}"));
                    let came_from = self.places[from as usize].address;
                    self.deliver(now, to, Input::Request(number, came_from, message));
                }
            }
            Step::Answered | Step::Refused | Step::Timeout => {
                let Some(exchange) = self.streams.close(number) else { return };
                let answer = if step == Step::Answered { exchange.message } else { None };
                if self.places[from as usize].lives == exchange.from_life {
                    self.trace.tell(now, || format!("{from:>4} was answered by {to} {answer:?}"));
                    self.deliver(now, from, Input::Response(exchange.ticket, answer));
                }
            }
        }
    }
}

/// Datagrams on their way, in places that are used again and again.
#[derive(Debug)]
pub(super) struct Flights<M> {
    places: Vec<Option<(Address, M)>>,
    free: Vec<u32>,
}

impl<M> Flights<M> {
    pub(super) fn new() -> Self {
        Flights { places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn launch(&mut self, from: Address, message: M) -> u32 {
        let flight = Some((from, message));
        if let Some(free) = self.free.pop() {
            self.places[free as usize] = flight;
            return free;
        }
        self.places.push(flight);
        self.places.len() as u32 - 1
    }

    pub(super) fn land(&mut self, flight: u32) -> (Address, M) {
        self.free.push(flight);
        self.places[flight as usize].take().expect("a datagram lands once")
    }
}
