//! Tests of the default algorithm: whole small clusters on virtual time, single machines by hand, and random sequences.

mod evidence;
mod faults;
mod hand;
mod lifecycle;
mod mutations;
mod properties;
mod rules;
mod scout;
mod vouch;
mod world;
