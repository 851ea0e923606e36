//! A durable store and a volatile one as one: each job lives in one of them, and its id says in which.
//!
//! What is known of workers is the durable store's; the volatile one follows, so that who is terminal there gets nothing here
//! either. Which queues are volatile is kept by the durable store too, with their settings.

mod merge;
mod queues;
mod routes;
mod store;

pub use store::Paired;

#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod tests;
