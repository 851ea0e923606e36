//! The real server in this process, on a real port, with a real store and a clock the test can step. Callers come over
//! the real wire.

mod bad_input;
mod beginning_anew;
mod bodies;
mod called_off;
mod clock_steps;
mod crowds;
mod curl;
mod draining;
mod exclusive;
mod foreign_keys;
mod frames;
mod gated;
mod going_away;
mod large;
mod leaving;
mod many_queues;
mod membership;
mod pings;
mod raw;
mod readiness;
mod resigning;
mod room;
mod seats;
mod several;
mod slow_store;
mod stops;
mod strangers;
mod support;
mod taking_over;
mod unknown_keys;
mod volatile;
mod watching;
mod workers;
