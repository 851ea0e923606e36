//! The five steps on a fixed tick, without rumours: every node finds out alone.
//!
//! ```text
//!            no answer for 5 s              no helper had one within 3 s           for 10 s
//!   Alive ────────────────────► ProbeFailed ────────────────────────────► Suspected ──────► Dead
//!     ▲                              │                                                       │
//!     └──── a helper had an answer ──┘◄─────────── it speaks again ──────────────────────────┘
//! ```
//!
//! Each step of the tick looks at what is pending: direct probes, indirect probes, suspicions; then it counts whether most
//! others are gone, and if so fences this node; then it probes the next one that is alive, round-robin. Each node has an order
//! and a phase of its own: in step, a node would be probed by all at one moment and then by nobody for a whole round. Those
//! who are `ProbeFailed` or `Suspected` are not probed, or their time would never be over. Timeouts are kept to the moment and
//! not to the tick: from a probe to the verdict it is 5 + 3 + 10 = 18 s.
//!
//! The dead, and seeds whom we do not see, are asked at a low rate for ever, and lists of members are compared with one after
//! the other: only who is there, never who is not. When one of the dead speaks the next one is asked at
//! the next tick, so two halves of a network are one again after about as many ticks as a half has nodes.
//!
//! What is not in it, on purpose: verdicts are not spread, a suspect cannot contradict, and who speaks again after its death
//! is alive again under its old identity. Where the description leaves a gap it is closed: with nobody to help, the direct
//! evidence is enough.

mod answers;
mod machine;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use self::machine::Classic;
