//! Watches how many members nodes count, and looks when all count all.

use std::time::Duration;

use crate::time::Time;
use crate::worlds::swim::protocol::{Node, Protocol, Watch};
use crate::worlds::swim::world::World;

/// Which sizes of the cluster were seen by anybody.
#[derive(Debug)]
pub(super) struct Sizes {
    seen: Vec<bool>,
}

impl Sizes {
    pub(super) fn new(nodes: u32) -> Self {
        Sizes { seen: vec![false; nodes as usize + 1] }
    }

    pub(super) fn distinct(&self) -> u64 {
        self.seen.iter().filter(|seen| **seen).count() as u64
    }
}

impl<P: Protocol> Watch<P> for Sizes {
    fn turned(&mut self, _: Time, _: Node, protocol: &P) {
        if let Some(seen) = self.seen.get_mut(protocol.present()) {
            *seen = true;
        }
    }
}

/// Runs until all nodes are up and count all; the seconds since `began`, or `None` if that takes longer than `patience`.
pub(super) fn all_see_all<P: Protocol, W: Watch<P>>(
    world: &mut World<'_, P, W>,
    began: Time,
    patience: Duration,
) -> Option<f64> {
    /// How often it is looked at.
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    while world.now() <= began + patience {
        let all = world.len() as usize;
        if world.up().count() == all && world.up().all(|(_, node)| node.present() == all) {
            return Some(world.now().since(began).as_secs_f64());
        }
        world.run_for(LOOK_EVERY);
    }
    None
}
