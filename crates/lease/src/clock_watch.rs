//! At what rate a worker's clock runs beside ours, by the stamps of its heartbeats: what is certain of it, and nothing else.
//!
//! ```text
//!   worker:   sent ────────────────────────── answered          by its clock
//!                  ╲                         ╱
//!   server:         ╲────── taken at ───────╱                    by ours
//! ```
//!
//! The moment at which we took a heartbeat lies, by the worker's clock, between its being sent and its answer's being heard; the
//! worker says both with the next one. Of two such moments it is certain how much of our time is between them, and between
//! which two spans of the worker's time that is. However long messages took, the true rate lies in between; the longer the
//! span, the less does it matter. A clock that stood still, as that of a paused virtual machine may, is a slow one.

use std::time::Duration;

use model::Instant;

use crate::clock_rule::RateError;

/// Rates are those over the last half of this to all of it: short enough to be of today, long enough to be exact.
const WINDOW: Duration = Duration::from_secs(120);
/// A million, for rates in parts of it.
const MILLION: i128 = 1_000_000;

/// How much faster than ours a clock runs, in parts per million: at least, and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRate {
    /// At least.
    pub ppm_min: i64,
    /// At most.
    pub ppm_max: i64,
    /// It certainly runs slower or faster than two clocks may that are both off by no more than assumed.
    pub is_off: bool,
}

/// What the stamps of one worker add up to.
#[derive(Debug, Default)]
pub struct ClockWatch {
    /// The heartbeat that was taken last: when by our clock, and when it was sent by the worker's.
    last: Option<(Instant, Instant)>,
    /// The rate is that since then.
    from: Option<Moment>,
    /// What it will be measured from next.
    next: Option<Moment>,
    rate: Option<ClockRate>,
}

/// A moment by our clock, and between which two times it was by the worker's.
#[derive(Clone, Copy, Debug)]
struct Moment {
    ours: Instant,
    theirs_min: Instant,
    theirs_max: Instant,
}

impl ClockWatch {
    /// A heartbeat was taken now, which was sent at `sent_at`. The answer to the one before was heard at `answered_at`.
    pub fn taken(
        &mut self,
        now: Instant,
        sent_at: Option<Instant>,
        answered_at: Option<Instant>,
        error: RateError,
    ) {
        let before = std::mem::replace(&mut self.last, sent_at.map(|sent_at| (now, sent_at)));
        let (Some((ours, theirs_min)), Some(theirs_max), Some(sent_at)) = (before, answered_at, sent_at)
        else {
            return;
        };
        // Otherwise that is the answer to an earlier one.
        if theirs_min <= theirs_max && theirs_max <= sent_at {
            self.measure(Moment { ours, theirs_min, theirs_max }, error);
        }
    }

    /// The rate, once it was measured.
    pub fn rate(&self) -> Option<ClockRate> {
        self.rate
    }

    /// The latest that it can have been by our clock when it was `theirs` by the worker's. Where the rate was not measured both
    /// clocks are taken to be as exact as assumed.
    pub fn at_the_latest(&self, theirs: Instant, error: RateError) -> Option<Instant> {
        let (ours, sent_at) = self.last?;
        let span = theirs.since(sent_at);
        let assumed = error.longer(error.longer(span));
        let ppm_min = self.rate.map_or(0, |rate| rate.ppm_min).min(0);
        let slowest = u128::try_from(MILLION + i128::from(ppm_min)).unwrap_or(0).max(1);
        let measured = span.as_nanos().saturating_mul(MILLION as u128) / slowest;
        let measured = Duration::from_nanos(u64::try_from(measured).unwrap_or(u64::MAX / 2));
        Some(ours + measured.max(assumed))
    }

    fn measure(&mut self, moment: Moment, error: RateError) {
        let Some(from) = self.from else {
            self.from = Some(moment);
            return;
        };
        self.rate = rate(from, moment, error).or(self.rate);
        let span = moment.ours.since(from.ours);
        if span >= WINDOW {
            self.from = Some(self.next.take().unwrap_or(moment));
        }
        if span >= WINDOW / 2 {
            self.next.get_or_insert(moment);
        }
    }
}

/// What is certain of the rate between two moments.
fn rate(from: Moment, to: Moment, error: RateError) -> Option<ClockRate> {
    let ours = to.ours.since(from.ours);
    if ours.is_zero() {
        return None;
    }
    let (least, most) = (to.theirs_min.since(from.theirs_max), to.theirs_max.since(from.theirs_min));
    let ppm = |theirs: Duration| {
        let (theirs, ours) = (theirs.as_nanos() as i128, ours.as_nanos() as i128);
        i64::try_from((theirs - ours) * MILLION / ours).unwrap_or(i64::MAX)
    };
    // Each of the two clocks may be off by as much as assumed, in either direction.
    let is_slow = error.longer(error.longer(most)) < ours;
    let is_fast = error.longer(error.longer(ours)) < least;
    Some(ClockRate { ppm_min: ppm(least), ppm_max: ppm(most), is_off: is_slow || is_fast })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: RateError = RateError::DEFAULT;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// A worker whose clock runs at this rate, by parts per million, and beats every four seconds of true time; its messages
    /// take as long as `delays` says, there and back, in milliseconds.
    fn watch(ppm: i64, beats: u64, delays: impl Fn(u64) -> (u64, u64)) -> ClockWatch {
        let theirs =
            |true_nanos: u64| at((true_nanos as i128 * (1_000_000 + i128::from(ppm)) / 1_000_000) as u64);
        let (mut watch, mut answered_at) = (ClockWatch::default(), None);
        for beat in 0..beats {
            let sent = 1_000_000_000 + beat * 4_000_000_000;
            let (there, back) = delays(beat);
            let taken = sent + there * 1_000_000;
            watch.taken(at(taken), Some(theirs(sent)), answered_at, ERROR);
            answered_at = Some(theirs(taken + back * 1_000_000));
        }
        watch
    }

    #[test]
    fn a_clock_that_leaves_the_bound_is_noticed_and_no_other() {
        for (ppm, beats, is_off) in [
            (0, 40, false),
            (1_000, 40, false),
            (-1_900, 40, false),
            (-2_500, 40, true),
            (2_500, 40, true),
            (-100_000, 3, true),
            (100_000, 3, true),
        ] {
            let rate = watch(ppm, beats, |_| (2, 3)).rate().expect("it was measured");
            assert_eq!(rate.is_off, is_off, "{ppm} ppm: {rate:?}");
            assert!((rate.ppm_min..=rate.ppm_max).contains(&ppm), "{ppm} ppm: {rate:?}");
        }
    }

    /// Messages that take up to two seconds, one way or the other, never make a right clock a wrong one.
    #[test]
    fn slow_messages_prove_nothing() {
        for seed in 0..200 {
            let dice = |beat: u64, salt: u64| model::splitmix::hash(seed * 1_000 + beat * 2 + salt) % 2_000;
            for ppm in [-1_000, 0, 1_000] {
                let rate = watch(ppm, 60, |beat| (dice(beat, 0), dice(beat, 1))).rate().expect("measured");
                assert!(!rate.is_off && (rate.ppm_min..=rate.ppm_max).contains(&ppm), "{rate:?}");
            }
        }
    }

    #[test]
    fn nothing_is_known_without_stamps_or_with_the_wrong_ones() {
        let mut watch = ClockWatch::default();
        for beat in 1..10 {
            watch.taken(at(beat * 1_000), None, None, ERROR);
        }
        assert_eq!((watch.rate(), watch.at_the_latest(at(5), ERROR)), (None, None));
        // The answer that was heard is that to an earlier heartbeat.
        for beat in 1..10 {
            watch.taken(at(beat * 1_000), Some(at(beat * 1_000)), Some(at(1)), ERROR);
        }
        assert_eq!(watch.rate(), None);
    }

    /// A clock that stood still for a while is a slow one, and is forgiven when that is long past.
    #[test]
    fn a_clock_that_stood_still_is_noticed_and_forgiven() {
        let (mut watch, mut answered_at, mut stood) = (ClockWatch::default(), None, 0);
        let mut offs = Vec::new();
        for beat in 1..200_u64 {
            if beat == 60 {
                stood = 10_000_000_000;
            }
            let ours = beat * 4_000_000_000 + stood;
            watch.taken(at(ours), Some(at(ours - stood)), answered_at, ERROR);
            answered_at = Some(at(ours - stood + 1_000_000));
            offs.push(watch.rate().is_some_and(|rate| rate.is_off));
        }
        assert!(!offs[57] && offs[60], "it is noticed at once");
        assert!(!offs[140..].contains(&true), "and forgiven");
    }

    #[test]
    fn a_moment_of_the_workers_is_placed_by_the_measured_rate() {
        let slow = watch(-100_000, 10, |_| (1, 1));
        let (ours, sent_at) = slow.last.expect("it was heard");
        let placed = slow.at_the_latest(sent_at + Duration::from_secs(9), ERROR).expect("it was heard");
        let after = placed.since(ours);
        assert!(after >= Duration::from_secs(10) && after < Duration::from_millis(10_100), "{after:?}");
        let right = watch(0, 10, |_| (1, 1));
        let (ours, sent_at) = right.last.expect("it was heard");
        let placed = right.at_the_latest(sent_at + Duration::from_secs(10), ERROR).expect("it was heard");
        let after = placed.since(ours);
        assert!(after >= Duration::from_secs(10) && after < Duration::from_millis(10_030), "{after:?}");
        // What was before it was sent was before we took it.
        assert_eq!(right.at_the_latest(at(0), ERROR), Some(ours));
    }
}
