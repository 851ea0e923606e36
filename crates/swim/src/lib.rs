//! Who is in the cluster and who is alive, as seen by one node.
//!
//! Every node runs one [`Machine`]. It probes one other each period, asks helpers and observers when there is no answer,
//! spreads what it hears, and compares its view with others'. What it says is evidence: whether a node may still act, and
//! who owns what, is decided elsewhere.
//!
//! ```text
//!            direct probe unanswered          observers agree (L)              observers agree (H)
//!   Alive ─────────────────────────► ProbeFailed ─────────────────► Suspected ─────────────────► Dead
//!     ▲                                   │                             │                          │
//!     └───────────────────────────────────┴── an answer, or a higher incarnation ──────────────────┘
//! ```
//!
//! No clock, no socket, no global randomness: `handle(now, input)`, `next_deadline()`, `handle_deadline(now)`,
//! `poll_output()`; drain outputs until `None` after every input.

mod classic;
mod config;
mod flaps;
mod health;
mod identity;
mod io;
mod machine;
mod message;
mod mutation;
mod node;
mod order;
mod queue;
mod table;
#[cfg(test)]
mod tests;
mod timers;

pub use config::{Config, Gossip, Opinions, Profile, Suspicion, Sync};
pub use identity::{Epoch, Identity, Incarnation, Info, NodeId, SharedInfo};
pub use io::{Event, Input, Member, Output, Reason, State, Ticket};
pub use machine::{Counts, Machine};
pub use message::{
    META_BYTES_MAX, Mark, Message, PACKET_BYTES_MAX, Packet, Request, Response, Status, UPDATE_BYTES_MAX,
    Update, View,
};
pub use mutation::Mutation;
