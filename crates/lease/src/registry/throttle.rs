//! The door for new workers: so many per second, and as many at once after a quiet second. Those who are sent away get a
//! place in a line, and come back when it is their turn instead of all at once. Workers that are known never come past it.

use std::time::Duration;

use model::Instant;

/// A bucket of places, kept as one number: when it will be full again. (The generic cell rate algorithm.)
#[derive(Debug)]
pub(super) struct Throttle {
    /// What one place costs; it grows back in this time.
    interval: Duration,
    /// When all places are free.
    full_at: Instant,
    /// When it is the turn of the last one in the line; past if there is none.
    line_end: Instant,
}

impl Throttle {
    /// A full bucket grows back in this time.
    const BURST: Duration = Duration::from_secs(1);

    /// Nobody is sent away for longer; a longer line is told this.
    const LINE_MAX: Duration = Duration::from_secs(60);

    /// So many places per second; at least one.
    pub(super) fn new(per_second: u32) -> Self {
        Throttle {
            interval: Self::BURST / per_second.max(1),
            full_at: Instant::ZERO,
            line_end: Instant::ZERO,
        }
    }

    /// Takes a place, or says how long until it is the turn of whoever asks.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + self.interval;
        let wait = full_at.since(now).saturating_sub(Self::BURST);
        if wait > Duration::ZERO {
            let turn = (now + wait).max(self.line_end + self.interval);
            self.line_end = turn.min(now + Self::LINE_MAX);
            return Err(self.line_end.since(now));
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    fn taken(throttle: &mut Throttle, now: Instant) -> usize {
        std::iter::from_fn(|| throttle.take(now).ok()).count()
    }

    #[test]
    fn as_many_at_once_as_per_second_and_then_one_by_one() {
        for per_second in [1, 3, 7, 1_000] {
            let mut throttle = Throttle::new(per_second);
            let start = Instant::from_millis(5_000);
            (0..per_second).for_each(|_| assert_eq!(throttle.take(start), Ok(()), "{per_second}"));
            let wait = throttle.take(start).expect_err("the bucket is empty");
            assert_eq!(taken(&mut throttle, start + wait - Duration::from_nanos(1)), 0, "{per_second}");
            assert_eq!(taken(&mut throttle, start + wait), 1, "{per_second}");
            assert_eq!(taken(&mut throttle, start + Duration::from_secs(3_600)), per_second as usize);
        }
    }

    #[test]
    fn everybody_in_the_line_has_a_turn_of_his_own() {
        let mut throttle = Throttle::new(10);
        let start = Instant::from_millis(5_000);
        (0..10).for_each(|_| assert_eq!(throttle.take(start), Ok(())));
        for place in 1..=600 {
            assert_eq!(throttle.take(start), Err(Duration::from_millis(100) * place));
        }
        assert_eq!(throttle.take(start), Err(Throttle::LINE_MAX), "the line is as long as it gets");
        // Whoever comes when it is his turn finds a place; the line behind him stays.
        for place in 1..=50 {
            assert_eq!(throttle.take(start + Duration::from_millis(100) * place), Ok(()));
        }
        let later = start + Duration::from_secs(5);
        assert_eq!(throttle.take(later), Err(Duration::from_millis(55_100)));
        let much_later = start + Duration::from_secs(3_600);
        assert_eq!(taken(&mut throttle, much_later), 10, "turns that are past are forgotten");
        assert_eq!(throttle.take(much_later), Err(Duration::from_millis(200)), "one is in the line already");
    }

    /// All come at once, and whoever is sent away comes back when told, or up to half of that later: how often they came,
    /// and when the last was in.
    fn stampede(workers: u64, per_second: u32) -> (u64, Duration) {
        let (mut throttle, mut came, mut now) = (Throttle::new(per_second), 0, Instant::ZERO);
        let mut line: BinaryHeap<_> = (0..workers).map(|worker| Reverse((now, worker))).collect();
        while let Some(Reverse((at, worker))) = line.pop() {
            (now, came) = (at, came + 1);
            if let Err(wait) = throttle.take(now) {
                let wait = wait.max(Duration::from_millis(100));
                let dice = (worker + came).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                let jitter = Duration::from_nanos(((wait.as_nanos() * u128::from(dice)) >> 33) as u64);
                line.push(Reverse((now + wait + jitter, worker)));
            }
        }
        (came, now.since(Instant::ZERO))
    }

    #[test]
    fn ten_thousand_at_once_are_let_in_without_a_storm() {
        for per_second in [100, 200, 500, 1_000, 5_000] {
            let (came, took) = stampede(10_000, per_second);
            assert!(came < 4 * 10_000, "{came} first heartbeats at {per_second} per second");
            let expected = Duration::from_secs(10_000) / per_second + Throttle::LINE_MAX;
            assert!(took < expected, "{took:?} at {per_second} per second");
        }
    }

    #[test]
    fn odd_rates_neither_divide_by_zero_nor_throttle_without_need() {
        assert_eq!(taken(&mut Throttle::new(0), Instant::ZERO), 1);
        let mut fast = Throttle::new(u32::MAX);
        (0..10_000).for_each(|_| assert_eq!(fast.take(Instant::ZERO), Ok(())));
    }
}
