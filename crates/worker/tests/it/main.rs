//! The SDK against a scripted server, over a real connection: what goes over the wire, and what handlers and observers
//! see of it.

mod desk;
mod exclusive;
mod exec;
mod fifo;
mod guarding;
mod liveness;
mod moving;
mod service;
mod session;
mod submitting;
mod support;
mod volatile;
mod worker;
