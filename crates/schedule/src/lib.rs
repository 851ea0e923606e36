//! What runs next: two machines that decide and never act.
//!
//! * [`dispatch::Dispatcher`]: demand meets ready work. Says which worker session asks the store, and for how much.
//! * [`upkeep::Upkeep`]: the server's own duties. Says when to promote, rescue, purge and forgive.
//!
//! Both take `now` as an argument, name their next deadline and hand out plain values to act on. They know nothing of
//! each other; the node's loop feeds both and drains both. Neither reads a store, a clock or a socket.

pub mod dispatch;
pub mod upkeep;
