//! Who owns a registry when several servers use one store: beats, and taking over from those who miss theirs.
//!
//! ```text
//!   Founding ──► Owning ── a beat every second ──► OwnedUntil, each time
//!      ▲ └─ again │  ▲└─ sees the others: one that stands still, or has resigned, is taken over
//!      └──────────┘  └── a beat that failed is tried again soon
//!         gone: disowned, and a pause
//! ```
//!
//! Why no two servers own one registry at the same time. Its owner counts on it until `O·(1−ρ)` after it *sent* the last beat
//! that it knows was committed. Whoever takes it over has seen a counter in an answer that it *received*, so the beat of that
//! number was sent before; it then waits for `O·(1+ρ)`, and takes over in one write that is refused if the counter has moved
//! since. So when that write is committed the last beat is the one that was seen, and what its owner counts on is over, by
//! whichever clock within ρ. Times are never compared between machines.
//!
//! Whom to suspect is another question, and only costs a refused write if it is answered wrongly. A counter says something
//! while answers come regularly. If the store could not be reached, or if we stood still ourselves, the others may have had no
//! better luck, and what we saw before is old: everybody has the whole time again. And the answer that convinces must be one
//! to a beat that was sent when the time was over; one that lay unread for a while tells of the past.

mod io;
mod machine;
mod mutation;
#[cfg(test)]
mod tests;
mod watch;

pub use self::io::{Input, Output, Sighting, Terms};
pub use self::machine::Ownership;
pub use self::mutation::Mutation;
