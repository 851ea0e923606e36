//! What a volatile store is told of claims that it did not make itself: by workers that were there before this life of the
//! server, and by clients that remember what they submitted to earlier ones.
//!
//! Plain computation over what is not (or no longer) a row; the verbs that bring it together with the rows are in
//! `adopt.rs` beside this folder. All of it is bounded: adopted claims by what living workers hold, early results and ended jobs
//! by number and bytes, what is known of clients by what they have not acknowledged, and clients by a day of silence.

mod clients;
mod ended;
mod estate;
mod numbers;
mod results;

pub(super) use estate::{Inherited, Legacy};
