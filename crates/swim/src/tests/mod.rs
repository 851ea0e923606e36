//! Tests of the default algorithm: whole small clusters on virtual time, single machines by hand, and random sequences.

mod evidence;
mod faults;
mod hand;
mod hold;
mod lifecycle;
mod mutations;
mod properties;
mod rules;
mod scout;
mod silence;
mod vouch;
mod world;
