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
}
