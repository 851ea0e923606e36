//! When a failed job is tried again. The one place where the formula lives; stores call it from inside their
//! statements.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Invalid;
use crate::id::Fence;
use crate::splitmix;

/// How the delay grows from one attempt to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Doubles each time: base, 2·base, 4·base, …
    Exponential,
    /// Always the base.
    Fixed,
    /// base, 4·base, 9·base, …
    Quadratic,
}

/// A retry policy. Its text form, `exponential:1000:3600000`, is what stores keep and people type
/// (growth, base and maximum in milliseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How the delay grows.
    pub growth: Growth,
    /// The first delay.
    pub base: Duration,
    /// No delay is longer than this, jitter aside.
    pub delay_max: Duration,
}

impl RetryPolicy {
    /// Spread of the delays: ±20 %, so that jobs that failed together do not come back together.
    pub const JITTER_PERCENT: i64 = 20;
    /// The longest delay a policy may ask for.
    pub const DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

    /// The delay before the next try after `tries` tries (at least 1). The jitter is drawn from the fence of the
    /// claim that just ended, so every store computes the same delay for the same claim.
    pub fn delay(&self, tries: u32, fence: Fence) -> Duration {
        let base = self.base.as_millis().min(u128::from(u64::MAX)) as u64;
        let tries = u64::from(tries.max(1));
        let grown = match self.growth {
            Growth::Exponential => {
                base.saturating_mul(1u64.checked_shl(tries as u32 - 1).unwrap_or(u64::MAX))
            }
            Growth::Fixed => base,
            Growth::Quadratic => base.saturating_mul(tries.saturating_mul(tries)),
        };
        let capped = grown.min(self.delay_max.as_millis().min(u128::from(u64::MAX)) as u64) as i64;
        let percent = 100 + jitter_percent(fence);
        Duration::from_millis((capped / 100 * percent + capped % 100 * percent / 100) as u64)
    }

    /// Refuses a policy whose numbers make no sense.
    pub fn check(self) -> Result<Self, Invalid> {
        if self.base.is_zero() || self.base > self.delay_max || self.delay_max > Self::DELAY_MAX {
            return Err(Invalid::new(format!(
                "retry policy {self} is out of range; the base must be at least 1 ms and at most the maximum, which is at most {:?}",
                Self::DELAY_MAX
            )));
        }
        Ok(self)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            growth: Growth::Exponential,
            base: Duration::from_secs(1),
            delay_max: Duration::from_secs(3600),
        }
    }
}

/// A number in −20..=20, evenly spread over fences.
fn jitter_percent(fence: Fence) -> i64 {
    (splitmix::hash(fence.get() as u64) % (2 * RetryPolicy::JITTER_PERCENT as u64 + 1)) as i64
        - RetryPolicy::JITTER_PERCENT
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let growth = match self.growth {
            Growth::Exponential => "exponential",
            Growth::Fixed => "fixed",
            Growth::Quadratic => "quadratic",
        };
        write!(f, "{growth}:{}:{}", self.base.as_millis(), self.delay_max.as_millis())
    }
}

impl FromStr for RetryPolicy {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            Invalid::new(format!(
                "retry policy {text:?} is not of the form GROWTH[:BASE_MS[:MAX_MS]] with growth exponential, fixed or quadratic"
            ))
        };
        let mut parts = text.split(':');
        let growth = match parts.next() {
            Some("exponential") => Growth::Exponential,
            Some("fixed") => Growth::Fixed,
            Some("quadratic") => Growth::Quadratic,
            _ => return Err(wrong()),
        };
        let mut millis = |default: Duration| match parts.next() {
            None => Ok(default),
            Some(number) => number.parse().map(Duration::from_millis).map_err(|_| wrong()),
        };
        let defaults = RetryPolicy::default();
        let base = millis(defaults.base)?;
        let delay_max = millis(defaults.delay_max.max(base))?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        RetryPolicy { growth, base, delay_max }.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(policy: &str, tries: u32) -> u64 {
        // The fence only moves the delay by the jitter, so the middle of many is the plain delay.
        let policy: RetryPolicy = policy.parse().unwrap();
        let (mut low, mut high) = (u64::MAX, 0);
        for fence in 1..2_000 {
            let delay = policy.delay(tries, Fence::new(fence)).as_millis() as u64;
            low = low.min(delay);
            high = high.max(delay);
        }
        assert_eq!(low * 120, high * 80, "the spread is ±20 %");
        (low + high) / 2
    }

    #[test]
    fn delays_grow_as_named_and_stop_at_the_maximum() {
        let series = |policy| [1, 2, 3, 10, 40, 200].map(|tries| plain(policy, tries));
        assert_eq!(series("exponential:1000:3600000"), [1_000, 2_000, 4_000, 512_000, 3_600_000, 3_600_000]);
        assert_eq!(series("quadratic:1000:3600000"), [1_000, 4_000, 9_000, 100_000, 1_600_000, 3_600_000]);
        assert_eq!(series("fixed:500:500"), [500; 6]);
    }

    #[test]
    fn text_form_round_trips() {
        for text in ["exponential:1000:3600000", "fixed:250:250", "quadratic:10:1000"] {
            assert_eq!(text.parse::<RetryPolicy>().unwrap().to_string(), text);
        }
        assert_eq!("exponential".parse(), Ok(RetryPolicy::default()));
        for bad in ["", "linear:1", "fixed:x", "fixed:0", "fixed:2000:1000", "fixed:1:2:3", "fixed:-1"] {
            assert!(bad.parse::<RetryPolicy>().is_err(), "{bad:?} must be refused");
        }
    }
}
