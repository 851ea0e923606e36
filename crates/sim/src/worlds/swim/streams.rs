//! Exchanges over streams, with TCP's patience under loss: one request, one answer, one connection.
//!
//! ```text
//!   SYN at 0, 1, 3, 7 s ──► request, again after 0.2, 0.4, 0.8 … s ──► (the process answers) ──► answer, likewise
//! ```
//!
//! A machine whose process is down refuses at once; one that cannot be reached is silent, and the caller's timeout
//! ends the exchange. A stopped process is still connected to: its kernel does that.

use std::collections::BTreeMap;
use std::time::Duration;

use super::network::Network;
use super::protocol::Node;
use crate::time::Time;

/// When a connection is tried, counted from the first try.
const CONNECTS_AT: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(7)];
/// After how long data without an acknowledgement is sent again; doubled each time.
const RESEND_AFTER: Duration = Duration::from_millis(200);
/// Data is not sent more often than this; every timeout is over long before.
const SENDS_MAX: u8 = 10;

/// All exchanges that are under way.
#[derive(Debug)]
pub(super) struct Streams<M> {
    open: BTreeMap<u64, Exchange<M>>,
    opened: u64,
}

/// An exchange under way.
#[derive(Debug)]
pub(super) struct Exchange<M> {
    pub(super) from: Node,
    /// Which process of the caller asked; a later one does not want the answer.
    pub(super) from_life: u32,
    pub(super) to: Node,
    /// The caller's name for it.
    pub(super) ticket: u64,
    began: Time,
    /// The request, then the answer, until it is delivered.
    pub(super) message: Option<M>,
}

/// What happens next to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The caller's kernel sends its SYN, for the n-th time.
    Connect(u8),
    /// The request is sent, for the n-th time.
    Ask(u8),
    /// The request arrives.
    Asked,
    /// The answer is sent, for the n-th time.
    Answer(u8),
    /// The answer arrives.
    Answered,
    /// Nobody listens there.
    Refused,
    /// The caller waits no longer.
    Timeout,
}

impl<M> Streams<M> {
    pub(super) fn new() -> Self {
        Streams { open: BTreeMap::new(), opened: 0 }
    }

    /// An exchange begins; its number.
    pub(super) fn open(&mut self, now: Time, caller: (Node, u32), to: Node, ticket: u64, request: M) -> u64 {
        self.opened += 1;
        let (from, from_life) = caller;
        let exchange = Exchange { from, from_life, to, ticket, began: now, message: Some(request) };
        self.open.insert(self.opened, exchange);
        self.opened
    }

    pub(super) fn get(&self, number: u64) -> Option<&Exchange<M>> {
        self.open.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Exchange<M>> {
        self.open.get_mut(&number)
    }

    /// It is over.
    pub(super) fn close(&mut self, number: u64) -> Option<Exchange<M>> {
        self.open.remove(&number)
    }
}

impl<M> Exchange<M> {
    /// Sends what this step sends; when what happens next, if anything does before the timeout.
    pub(super) fn send(
        &self,
        now: Time,
        step: Step,
        network: &mut Network,
        is_up: bool,
    ) -> Option<(Time, Step)> {
        match step {
            Step::Connect(tries) => {
                let there = network.carry(self.from, self.to);
                let back = network.carry(self.to, self.from);
                if let (Some(there), Some(back)) = (there, back) {
                    let next = if is_up { Step::Ask(0) } else { Step::Refused };
                    return Some((now + there + back, next));
                }
                let again = CONNECTS_AT.get(usize::from(tries) + 1)?;
                Some(((self.began + *again).max(now), Step::Connect(tries + 1)))
            }
            Step::Ask(tries) => {
                transmit(now, network.carry(self.from, self.to), Step::Asked, tries, Step::Ask)
            }
            Step::Answer(tries) => {
                transmit(now, network.carry(self.to, self.from), Step::Answered, tries, Step::Answer)
            }
            Step::Asked | Step::Answered | Step::Refused | Step::Timeout => None,
        }
    }
}

fn transmit(
    now: Time,
    carried: Option<Duration>,
    arrives: Step,
    tries: u8,
    again: impl FnOnce(u8) -> Step,
) -> Option<(Time, Step)> {
    match carried {
        Some(delay) => Some((now + delay, arrives)),
        None if tries >= SENDS_MAX => None,
        None => Some((now + RESEND_AFTER * (1 << tries), again(tries + 1))),
    }
}
