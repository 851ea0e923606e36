//! The wire form from outside, and drivers that speak to each other over loopback.

mod cluster;
mod flood;
mod fuzz;
mod generate;
mod golden;
mod keys;
mod relay;
mod round_trip;
mod support;
