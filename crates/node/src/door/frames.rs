//! How often a client of HTTP/2 says what costs it nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, data without data.
//!
//! Each is allowed, and a flood of them keeps a core busy with one connection. So they are counted as they pass, by the nine
//! bytes that begin each frame: so many a second on average, with a store for bursts. Window updates and the pings by which
//! clients measure the way (gRPC for Go sends one for each frame of data, if the last was answered) follow what we send, so what
//! we send pays for them.

use std::time::{Duration, Instant};

/// Such frames that one connection may send per second, on average.
const PER_SECOND: u64 = 1_000;
/// And at once.
const BURST: u64 = 10 * PER_SECOND;
/// Bytes that we send for each ping or window update that is free: less than the smallest answer.
const BYTES_PER_FRAME: u64 = 64;
/// As many of those are kept for later.
const PAID_MAX: u64 = 10 * BURST;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// Follows what one client sends.
#[derive(Debug)]
pub(super) struct Frames {
    place: Place,
    /// Frames that cost something since `since`.
    counted: u64,
    since: Option<Instant>,
    /// Frames that are paid for.
    paid: u64,
    sent: u64,
}

#[derive(Debug)]
enum Place {
    /// In the preface, after so many bytes.
    Preface(usize),
    /// In a head, of which so many bytes are there.
    Head([u8; HEAD_BYTES], usize),
    /// In a frame, which has so many bytes left.
    Payload(usize),
    /// Not HTTP/2.
    Other,
}

/// More than anybody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flood;

impl Frames {
    pub(super) fn new() -> Self {
        Frames { place: Place::Preface(0), counted: 0, since: None, paid: 0, sent: 0 }
    }

    /// We sent this many bytes.
    pub(super) fn send(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.paid = (self.paid + self.sent / BYTES_PER_FRAME).min(PAID_MAX);
        self.sent %= BYTES_PER_FRAME;
    }

    /// The client sent these. The clock is asked only when a burst is used up.
    pub(super) fn follow(&mut self, mut bytes: &[u8], now: impl Fn() -> Instant) -> Result<(), Flood> {
        while !bytes.is_empty() {
            let used = match &mut self.place {
                Place::Other => return Ok(()),
                Place::Preface(seen) => {
                    let used = bytes.len().min(PREFACE.len() - *seen);
                    *seen += used;
                    if bytes[..used] != PREFACE[*seen - used..*seen] {
                        self.place = Place::Other;
                    } else if *seen == PREFACE.len() {
                        self.place = Place::Head([0; HEAD_BYTES], 0);
                    }
                    used
                }
                Place::Payload(left) => {
                    let used = bytes.len().min(*left);
                    *left -= used;
                    if *left == 0 {
                        self.place = Place::Head([0; HEAD_BYTES], 0);
                    }
                    used
                }
                Place::Head(head, seen) => {
                    let used = bytes.len().min(HEAD_BYTES - *seen);
                    head[*seen..*seen + used].copy_from_slice(&bytes[..used]);
                    *seen += used;
                    if *seen == HEAD_BYTES {
                        let (head, length) = (*head, u32::from_be_bytes([0, head[0], head[1], head[2]]));
                        self.place = match length {
                            0 => Place::Head([0; HEAD_BYTES], 0),
                            length => Place::Payload(length as usize),
                        };
                        self.count(head[3], length, &now)?;
                    }
                    used
                }
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn count(&mut self, kind: u8, length: u32, now: &impl Fn() -> Instant) -> Result<(), Flood> {
        match kind {
            WINDOW_UPDATE | PING if self.paid > 0 => {
                self.paid -= 1;
                return Ok(());
            }
            // Data without data is as cheap.
            DATA if length == 0 => {}
            PRIORITY | SETTINGS | PING | WINDOW_UPDATE => {}
            _ => return Ok(()),
        }
        self.counted += 1;
        if self.counted < BURST {
            return Ok(());
        }
        let now = now();
        let least = Duration::from_secs(BURST / PER_SECOND);
        let is_flood = self.since.is_some_and(|since| now.duration_since(since) < least);
        (self.since, self.counted) = (Some(now), 0);
        if is_flood { Err(Flood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let size = (length as u32).to_be_bytes();
        [&size[1..], &[kind, 0, 0, 0, 0, 0], &vec![kind; length]].concat()
    }

    /// What comes of these bytes, in chunks of `size`, at one moment.
    fn at(frames: &mut Frames, bytes: &[u8], size: usize, now: Instant) -> Result<(), Flood> {
        bytes.chunks(size).try_for_each(|chunk| frames.follow(chunk, || now))
    }

    fn started() -> Frames {
        let mut frames = Frames::new();
        frames.follow(PREFACE, Instant::now).unwrap();
        frames
    }

    #[test]
    fn a_flood_is_found_however_its_bytes_are_cut() {
        for kind in [PING, SETTINGS, PRIORITY, WINDOW_UPDATE] {
            for size in [1, 7, 9, 17, 4096] {
                let now = Instant::now();
                let mut frames = started();
                let pings = frame(kind, 8).repeat(BURST as usize - 1);
                at(&mut frames, &pings, size, now).unwrap();
                // The first burst sets the clock, the second comes too soon.
                at(&mut frames, &frame(kind, 8), size, now).unwrap();
                let again = now + Duration::from_secs(9);
                assert_eq!(at(&mut frames, &frame(kind, 8).repeat(BURST as usize), size, again), Err(Flood));
            }
        }
    }

    #[test]
    fn as_many_as_are_allowed_pass_for_ever() {
        let (mut frames, start) = (started(), Instant::now());
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            at(&mut frames, &frame(PING, 8).repeat(PER_SECOND as usize), 4096, now).unwrap();
        }
    }

    #[test]
    fn what_carries_something_is_not_counted_and_sent_bytes_pay_for_what_follows_them() {
        let (mut frames, now) = (started(), Instant::now());
        let data = [frame(DATA, 20), frame(1, 50), frame(9, 3)].concat();
        at(&mut frames, &data.repeat(2 * BURST as usize), 4096, now).unwrap();
        for _ in 0..6 * BURST {
            frames.send(BYTES_PER_FRAME as usize);
        }
        at(&mut frames, &frame(WINDOW_UPDATE, 4).repeat(3 * BURST as usize), 4096, now).unwrap();
        at(&mut frames, &frame(PING, 8).repeat(3 * BURST as usize), 4096, now).unwrap();
        assert_eq!(frames.counted, 0);
        at(&mut frames, &frame(DATA, 0).repeat(5), 3, now).unwrap();
        assert_eq!(frames.counted, 5);
    }

    #[test]
    fn other_protocols_are_let_alone() {
        let mut frames = Frames::new();
        let pings = frame(PING, 8).repeat(3 * BURST as usize);
        at(&mut frames, b"PRI * HTTP/1.1\r\n", 5, Instant::now()).unwrap();
        at(&mut frames, &pings, 4096, Instant::now()).unwrap();
        assert_eq!(frames.counted, 0);
    }
}
