//! The detectors, running: mostly in virtual time, the thread in real time and waited for by what it says.

mod concurrent;
mod million;
mod monitor;
mod passive;
mod support;
mod thread;
