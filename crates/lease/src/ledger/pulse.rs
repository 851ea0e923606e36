//! When to send a heartbeat, and which one waits for its answer.
//!
//! One heartbeat per interval, one in flight. One that is not answered when the next is due counts as lost; its answer,
//! should it still come, proves nothing. An answer may ask for the next heartbeat at once; two such requests in a row
//! are not followed, so that no server can make a worker send heartbeats as fast as it can.

use std::time::Duration;

use model::{Instant, Limits, Nonce, splitmix};

use super::alarm::Alarm;
use crate::clock_rule::heartbeat_interval;
use crate::message::LaterReason;

/// The shortest wait that a server may ask for; a shorter one is made this long, so that nobody hammers at a full door.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait that a server may ask for; a longer one is cut.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A server that says so often in a row that its store is in trouble is left for another one, which may see the store.
const TROUBLES_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Pulse {
    interval: Duration,
    /// When to send the next one.
    alarm: Alarm,
    last_number: u64,
    in_flight: Option<InFlight>,
    /// The next one follows a mismatch at once.
    is_second_try: bool,
    /// How often we were told to wait: makes each jitter another one.
    waits: u64,
    /// How often in a row the server here said that its store is in trouble.
    troubles: u32,
}

/// A heartbeat that is not answered yet.
#[derive(Debug)]
pub(super) struct InFlight {
    number: u64,
    /// Taken before the heartbeat was queued.
    pub(super) sent_at: Instant,
    /// The change counter in it.
    pub(super) change: u64,
    /// It carries everything that is held.
    pub(super) is_full: bool,
    is_second_try: bool,
}

impl Pulse {
    pub(super) fn new(lease: Duration) -> Self {
        Pulse {
            interval: interval(lease),
            alarm: Alarm::default(),
            last_number: 0,
            in_flight: None,
            is_second_try: false,
            waits: 0,
            troubles: 0,
        }
    }

    /// Five heartbeats per this lease from now on.
    pub(super) fn follow(&mut self, lease: Duration) {
        self.interval = interval(lease);
    }

    pub(super) fn beat_at_once(&mut self, now: Instant) {
        self.alarm.set(now);
    }

    /// A heartbeat goes out now. Its number.
    pub(super) fn sent(&mut self, now: Instant, change: u64, is_full: bool) -> u64 {
        self.last_number += 1;
        let is_second_try = std::mem::take(&mut self.is_second_try);
        self.in_flight =
            Some(InFlight { number: self.last_number, sent_at: now, change, is_full, is_second_try });
        self.alarm.set(now + self.interval);
        self.last_number
    }

    /// The heartbeat that was answered, if it is the one in flight.
    pub(super) fn answered(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.take_if(|beat| beat.number == number)
    }

    /// It was taken: the next one is due an interval after it, or at once if the server wants to know everything.
    pub(super) fn accepted(&mut self, now: Instant, beat: &InFlight, resync: bool) {
        self.troubles = 0;
        let is_hurried = resync && !beat.is_full;
        self.alarm.set(if is_hurried { now } else { beat.sent_at + self.interval });
    }

    /// It did not show the right token: once more at once, one time, then at the interval.
    pub(super) fn mismatched(&mut self, now: Instant, beat: &InFlight) {
        self.troubles = 0;
        if !beat.is_second_try {
            self.is_second_try = true;
            self.alarm.set(now);
        }
    }

    /// Not before this long from now, plus up to half of it, so that those who were sent away together do not come back
    /// together.
    pub(super) fn wait(&mut self, now: Instant, retry_after: Duration, nonce: Nonce) {
        let wait = retry_after.clamp(WAIT_MIN, WAIT_MAX);
        self.waits += 1;
        let dice = u128::from(splitmix::hash(nonce.get() ^ self.waits.rotate_left(32)));
        let jitter = Duration::from_nanos(((wait.as_nanos() * dice) >> 65) as u64);
        self.alarm.set(now + wait + jitter);
    }

    /// We were told to wait for this reason. Whether that has been so for long enough to look for help elsewhere.
    pub(super) fn is_in_vain(&mut self, why: LaterReason) -> bool {
        self.troubles = if why == LaterReason::StoreTrouble { self.troubles + 1 } else { 0 };
        let is_in_vain = self.troubles == TROUBLES_MAX;
        if is_in_vain {
            self.troubles = 0;
        }
        is_in_vain
    }

    /// There is no stream, or no key: nothing is sent, nothing will be answered.
    pub(super) fn rest(&mut self) {
        self.in_flight = None;
        self.troubles = 0;
        self.is_second_try = false;
        self.alarm.clear();
    }

    pub(super) fn handle_deadline(&mut self, now: Instant) {
        self.alarm.handle_deadline(now);
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.alarm.is_due(now)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.alarm.next_deadline()
    }
}

/// A worker that leaves its lease to the registry starts with the default; no registry grants less than the minimum.
fn interval(lease: Duration) -> Duration {
    let lease = if lease.is_zero() { Limits::LEASE_DEFAULT } else { lease.max(Limits::LEASE_MIN) };
    heartbeat_interval(lease)
}
