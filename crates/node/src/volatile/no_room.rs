//! How often it is said that volatile jobs have no room: when it begins, and once in a while as long as it lasts.

use std::sync::Mutex;
use std::time::Duration;

use model::Instant;

/// No two lines of the log are closer to each other.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct NoRoom {
    last: Mutex<Option<Instant>>,
}

impl NoRoom {
    /// There is none now: whether that is to be said.
    pub(crate) fn is_news(&self, now: Instant) -> bool {
        let mut last = self.last.lock().expect("no panic while holding the lock");
        let is_news = last.is_none_or(|last| now >= last + PAUSE);
        if is_news {
            *last = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_at_once_and_then_once_a_minute() {
        let (no_room, at) = (NoRoom::default(), Instant::from_millis);
        let said: Vec<u64> = [1_000, 1_001, 60_999, 61_000, 61_001, 500_000]
            .into_iter()
            .filter(|millis| no_room.is_news(at(*millis)))
            .collect();
        assert_eq!(said, [1_000, 61_000, 500_000]);
    }
}
