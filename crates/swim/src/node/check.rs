//! Deaths learned by comparing views are checked with a few pings before they are believed.
//!
//! After a partition each half takes the other for dead, and both compare. Believing every entry, a half would bury its own
//! living members for the moment it takes them to contradict. The ping tells its target what is said of it, so that it
//! contradicts at once; only who stays silent is dead for us too.

use super::Node;
use super::evidence::Source;
use crate::identity::{Identity, NodeId};
use crate::message::{Message, Update};
use crate::timers::Timer;

/// Most deaths that are checked at once; further ones are believed unchecked.
const CHECKS_MAX: usize = 256;
/// How often each is pinged, within one probe timeout.
const CHECK_PINGS: u32 = 3;

/// A death that is being checked.
#[derive(Debug)]
pub(super) struct Check {
    said: Update,
    number: u32,
    pinged: u32,
}

impl Node {
    /// Begins to check a death that was learned by comparing. False if it is to be believed as it is.
    pub(super) fn check_death(&mut self, said: &Update) -> bool {
        let id = said.node.id;
        if self.checks.get(&id).is_some_and(|check| check.said.node == said.node) {
            return true;
        }
        if self.checks.len() >= CHECKS_MAX {
            return false;
        }
        let number = self.next_number();
        self.checks.insert(id, Check { said: said.clone(), number, pinged: 0 });
        self.check_again(id, number);
        true
    }

    /// Pings once more, or believes it.
    pub(super) fn check_again(&mut self, id: NodeId, number: u32) {
        let Some(check) = self.checks.get_mut(&id).filter(|check| check.number == number) else { return };
        let said = check.said.clone();
        if check.pinged == CHECK_PINGS {
            self.checks.remove(&id);
            if !self.must_not_condemn() {
                self.learn(said, Source::Checked);
            }
            return;
        }
        check.pinged += 1;
        self.timers.set(self.now + self.config.probe_timeout / CHECK_PINGS, Timer::Check { id, number });
        if let Some(addr) = self.table.get(id).map(|entry| entry.info.addr) {
            let node = said.node;
            self.send_with(Some(Update { info: None, ..said }), node, addr, Message::Ping { number });
        }
    }

    pub(super) fn check_acked(&mut self, from: Identity, number: u32) {
        if self.checks.get(&from.id).is_some_and(|check| check.number == number && check.said.node == from) {
            self.checks.remove(&from.id);
        }
    }
}
