//! The SDK against a scripted server, over a real connection: what goes over the wire, and what handlers and observers
//! see of it.

mod exclusive;
mod exec;
mod fifo;
mod guarding;
mod liveness;
mod moving;
mod service;
mod session;
mod support;
mod worker;
