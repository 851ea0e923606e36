//! Packets from and to the worker. Nothing here waits: what the worker does not take is kept until it does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use super::complaint::complain;
use crate::packet;
use crate::wire::{Event, PACKET_BYTES_MAX, Said};

/// Packets that are read before others are attended to.
const READ_BATCH: usize = 16;
/// From this size on a packet of events is sent before another is added.
const PACKET_BYTES_ENOUGH: usize = 16 << 10;

pub(super) struct Mouth {
    line: OwnedFd,
    buffer: Vec<u8>,
    /// Not said yet. No more than two for each family.
    events: VecDeque<Event>,
    is_closed: bool,
}

/// What was heard.
pub(super) struct Heard {
    pub(super) said: Said,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Mouth {
    pub(super) fn new(line: OwnedFd) -> Mouth {
        Mouth { line, buffer: vec![0; PACKET_BYTES_MAX], events: VecDeque::new(), is_closed: false }
    }

    pub(super) fn line(&self) -> &OwnedFd {
        &self.line
    }

    /// Some of what the worker has said; empty when that is all. What cannot be read is left out.
    pub(super) fn hear(&mut self) -> Vec<Heard> {
        let mut heard = Vec::new();
        for _ in 0..READ_BATCH {
            let mut descriptors = Vec::new();
            match packet::receive(&self.line, &mut self.buffer, &mut descriptors) {
                Ok(0) => {
                    self.is_closed = true;
                    break;
                }
                Ok(length) => match Said::read(&self.buffer[..length]) {
                    Some(said) => heard.push(Heard { said, descriptors }),
                    None => complain(&format!("a packet of {length} bytes makes no sense")),
                },
                Err(error) if error.kind() == io::ErrorKind::InvalidData => complain(&error.to_string()),
                Err(error) => {
                    self.is_closed |= error.kind() != io::ErrorKind::WouldBlock
                        && error.kind() != io::ErrorKind::Interrupted;
                    break;
                }
            }
        }
        heard
    }

    pub(super) fn say(&mut self, event: Event) {
        if !self.is_closed {
            self.events.push_back(event);
        }
    }

    /// Says what is to be said, as far as the worker takes it; whether something is left.
    pub(super) fn flush(&mut self) -> bool {
        while !self.events.is_empty() {
            let (mut bytes, mut count) = (Vec::new(), 0);
            for event in &self.events {
                event.write(&mut bytes);
                count += 1;
                if bytes.len() >= PACKET_BYTES_ENOUGH {
                    break;
                }
            }
            match packet::send(&self.line, &bytes, &[]) {
                Ok(()) => drop(self.events.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // Nobody listens any more.
                Err(_) => self.events.clear(),
            }
        }
        false
    }

    /// The worker has hung up. It may live all the same.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
