//! The world of membership: up to ten thousand nodes that watch each other, a network of datagrams and streams, and faults.
//!
//! The world is generic over the [`Protocol`] its nodes run. [`SwimNode`] is the machine that ships; others can be put in
//! its place and measured by the same rule. A node is a number, an address is that number, and nothing is kept for every
//! pair of nodes. All trouble is a [`Change`] at a time, and whoever wants to see something is a [`Watch`].
//!
//! ```text
//!   experiments (a table each) ─┐                  ┌─ Protocol: SwimNode, or another
//!                               ├─ Watch ◄─ World ─┤
//!   laws (random faults, calm) ─┘                  └─ network, streams, processes, clocks
//! ```

mod books;
mod change;
pub mod experiments;
mod lawful;
mod laws;
mod machine;
mod mutation;
mod network;
mod node;
mod plan;
mod protocol;
mod streams;
#[cfg(test)]
mod tests;
mod watch;
pub mod wire;
mod world;

pub use self::change::{Change, Epoch, Memory, Told};
pub use self::lawful::faults;
pub use self::lawful::{Options, Report, replay, run};
pub use self::laws::LAWS;
pub use self::machine::{Message, Settings, SwimNode};
pub use self::mutation::Mutation;
pub use self::network::Delay;
pub use self::node::Sent;
pub use self::protocol::{Address, Belief, Input, Node, Output, Protocol, Start, Watch};
pub use self::watch::Stats;
pub use self::world::{Setup, World};
