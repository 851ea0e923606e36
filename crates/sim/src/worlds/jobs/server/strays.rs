//! Starts that come again: an assignment may be repeated long after it was sent, on its own stream or to another worker.
//! Whoever receives it must recognise that it came before, or is not for him.

use std::collections::VecDeque;

use lease::ledger::Grant;

use crate::net::ConnectionId;
use crate::rng::Rng;

/// Assignments that may come again; older ones are forgotten.
const KEPT_MAX: usize = 64;

/// The assignments of one life of a server.
#[derive(Debug)]
pub(super) struct Strays {
    sent: VecDeque<(ConnectionId, Grant)>,
    /// How often, of one, an old assignment goes along with new ones.
    often: f64,
    rng: Rng,
}

impl Strays {
    pub(super) fn new(rng: Rng, often: f64) -> Self {
        Strays { sent: VecDeque::new(), often, rng }
    }

    /// Keeps in mind what goes to this connection, and perhaps puts an old one before or behind it.
    pub(super) fn mingle(&mut self, connection: ConnectionId, fresh: Vec<Grant>) -> Vec<Grant> {
        if self.often == 0.0 || fresh.is_empty() {
            return fresh;
        }
        let mut all = fresh.clone();
        if !self.sent.is_empty() && self.rng.chance(self.often) {
            let (sent_to, stray) = &self.sent[self.rng.below(self.sent.len() as u64) as usize];
            // Starts are numbered by stream: no server says on one what it said to the same worker on another.
            if *sent_to == connection || stray.start.key != fresh[0].start.key {
                let place = if self.rng.chance(0.5) { 0 } else { all.len() };
                all.insert(place, stray.clone());
            }
        }
        self.sent.extend(fresh.into_iter().map(|grant| (connection, grant)));
        while self.sent.len() > KEPT_MAX {
            self.sent.pop_front();
        }
        all
    }
}
