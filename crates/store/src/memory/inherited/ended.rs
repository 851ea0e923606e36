//! Ended jobs that nobody comes back for, in the order in which they ended. They are kept for people, as long as there is room.

use std::collections::VecDeque;

use model::JobId;

/// Most of them; the oldest go first.
const ENDED_MAX: usize = 10_000;

/// Some of those named here may have been offered again or removed since.
pub(in super::super) struct Ended {
    order: VecDeque<(JobId, usize)>,
    bytes: usize,
    /// Most bytes of payloads and results that they have together; the oldest go first.
    bytes_max: usize,
}

impl Ended {
    pub(super) fn new(bytes_max: usize) -> Self {
        Ended { order: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// This one, of so many bytes, has ended.
    pub(in super::super) fn push(&mut self, id: JobId, bytes: usize) {
        self.order.push_back((id, bytes));
        self.bytes += bytes;
    }

    /// One that must go because there are too many.
    pub(in super::super) fn pop_surplus(&mut self) -> Option<JobId> {
        if self.order.len() <= ENDED_MAX && self.bytes <= self.bytes_max {
            return None;
        }
        self.pop()
    }

    /// The oldest.
    pub(in super::super) fn pop(&mut self) -> Option<JobId> {
        let (id, bytes) = self.order.pop_front()?;
        self.bytes -= bytes;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use model::{ClientId, WallTime};

    use super::*;

    #[test]
    fn oldest_go_when_there_are_too_many_or_they_are_too_large() {
        let client = ClientId::unattended(WallTime::from_millis(1), 1);
        let bytes_max = 1 << 20;
        let mut ended = Ended::new(bytes_max);
        (0..ENDED_MAX as u64 + 2).for_each(|number| ended.push(client.job(number), 1));
        assert_eq!(ended.pop_surplus(), Some(client.job(0)));
        assert_eq!(ended.pop_surplus(), Some(client.job(1)));
        assert_eq!(ended.pop_surplus(), None);
        ended.push(client.job(7), bytes_max);
        let gone = std::iter::from_fn(|| ended.pop_surplus()).count();
        assert_eq!((gone, ended.order.len(), ended.bytes), (ENDED_MAX, 1, bytes_max));
    }
}
