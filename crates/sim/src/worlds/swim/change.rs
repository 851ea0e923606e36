//! What can be done to a world from outside, now or at a chosen moment: every fault, and its end.
//!
//! A fault plan is a list of these with times. Nothing here is random, so a plan can be printed and told again.

use std::time::Duration;

use super::protocol::Node;

/// What a starting node has from its last life, apart from its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: it looks for the cluster where it was told to.
    Lost,
    /// Some of the members it saw last: it looks for the cluster there too.
    Kept,
}

/// Something is done to a world.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The node's process dies; its machine goes on and refuses streams.
    Crash(Node),
    /// The node's process starts, one epoch higher. One that runs dies first.
    Start(Node, Memory),
    /// The node is asked to leave.
    Leave(Node),
    /// Nothing of the process runs for this long (SIGSTOP, SIGCONT); what arrives waits.
    Pause(Node, Duration),
    /// What the process sends and what arrives for it waits for this long, while its timers run.
    BlockIo(Node, Duration),
    /// Handling anything takes the process this long; zero is quick again.
    SlowCpu(Node, Duration),
    /// This share of what the node sends is lost.
    Egress(Node, f64),
    /// This share of what is sent to the node is lost.
    Ingress(Node, f64),
    /// This share of all packets is lost.
    Loss(f64),
    /// This share of all datagrams comes twice.
    Duplicates(f64),
    /// This share of all packets takes longer, by up to the span.
    Spikes(f64, Duration),
    /// The node is on this side of a partition. Only nodes on the same side reach each other; all begin on side 0.
    Side(Node, u16),
    /// Nothing from the first reaches the second.
    Cut(Node, Node),
    /// It does again.
    Mend(Node, Node),
    /// All trouble of the network ends: losses, sides, cuts, spikes, duplicates.
    Heal,
    /// As [`Start`](Change::Start), at an address that nobody had before.
    Move(Node, Memory),
    /// A process starts in the place of the first, in the name of the second: as a later start of it, or in its present
    /// epoch, as from a copied data directory.
    Twin(Node, Node, Epoch),
    /// The node's monotonic clock jumps ahead, as when its machine was asleep.
    Jump(Node, Duration),
    /// The node is told something by its own surroundings.
    Tell(Node, Told),
}

/// The epoch of a process in another's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// The same.
    Same,
    /// One higher.
    Later,
}

/// What a node's surroundings tell it: its driver, its operator, the layers above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its event loop was late by this much.
    Lagged(Duration),
    /// What it tells of itself is this from now on.
    Meta(u32),
    /// It has come so far in the control log: epoch and index.
    Mark(u32, u64),
    /// Others are to be found where this one is now: its name means another address.
    Seed(Node),
    /// The present start of this one is to count as gone for good.
    Expel(Node),
}
