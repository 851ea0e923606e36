//! The SDK against a scripted server, over a real connection: what goes over the wire, and what handlers and observers
//! see of it.

mod liveness;
mod session;
mod support;
mod worker;
