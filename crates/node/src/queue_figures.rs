//! What `/metrics` says of queues: each of the larger ones by its name, and all others in one line, so that the text stays one that a
//! monitoring system takes.

use std::cmp::Reverse;
use std::time::Duration;

use model::State;
use store::QueueStats;

/// Most queues that are named.
const NAMED_MAX: usize = 1_000;
/// The name of all others; no queue can have it.
const OTHER: &str = "(other)";

/// The figures of one queue, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueFigures {
    pub(crate) queue: String,
    /// Jobs by state.
    pub(crate) counts: [u64; 6],
    /// How long the oldest job that could run has waited.
    pub(crate) oldest: Duration,
}

impl QueueFigures {
    fn of(stats: &QueueStats) -> QueueFigures {
        let oldest = stats.oldest.unwrap_or_default();
        QueueFigures { queue: stats.queue.to_string(), counts: stats.counts, oldest }
    }
}

/// Those with the most jobs that have not ended are named; of equals, those that did the most.
pub(crate) fn figures(queues: &[QueueStats]) -> Vec<QueueFigures> {
    if queues.len() <= NAMED_MAX {
        return queues.iter().map(QueueFigures::of).collect();
    }
    let mut sorted: Vec<&QueueStats> = queues.iter().collect();
    sorted.sort_by_key(|stats| Reverse((live(stats), stats.counts.iter().sum::<u64>())));
    let (named, others) = sorted.split_at(NAMED_MAX);
    let mut figures: Vec<QueueFigures> = named.iter().map(|stats| QueueFigures::of(stats)).collect();
    let mut other = QueueFigures { queue: OTHER.to_owned(), counts: [0; 6], oldest: Duration::ZERO };
    for stats in others {
        for (sum, count) in other.counts.iter_mut().zip(stats.counts) {
            *sum += count;
        }
        other.oldest = other.oldest.max(stats.oldest.unwrap_or_default());
    }
    figures.push(other);
    figures
}

fn live(stats: &QueueStats) -> u64 {
    [State::Scheduled, State::Available, State::Running]
        .iter()
        .map(|state| stats.counts[*state as usize])
        .sum()
}

#[cfg(test)]
mod tests {
    use model::{QueueName, QueueSettings};

    use super::*;
    use crate::Metrics;

    fn queue(number: u64) -> QueueStats {
        let mut counts = [0; 6];
        counts[State::Available as usize] = number;
        counts[State::Dead as usize] = 1;
        QueueStats {
            queue: QueueName::new(&format!("q{number}")).expect("a name"),
            settings: QueueSettings::default(),
            counts,
            oldest: Some(Duration::from_secs(100_000 - number)),
        }
    }

    #[test]
    fn the_largest_are_named_and_the_others_summed() {
        let queues: Vec<_> = (1..=1_003).map(queue).collect();
        let figures = figures(&queues);
        assert_eq!(figures.len(), NAMED_MAX + 1);
        assert_eq!(figures[0].queue, "q1003");
        assert!(["q1", "q2", "q3"].iter().all(|small| figures.iter().all(|it| it.queue != *small)));
        let other = figures.last().expect("there are others");
        assert_eq!(other.queue, "(other)");
        assert_eq!((other.counts[State::Available as usize], other.counts[State::Dead as usize]), (6, 3));
        assert_eq!(other.oldest, Duration::from_secs(99_999));
        assert!(QueueName::new(OTHER).is_err(), "no queue is called that");
        assert_eq!(super::figures(&queues[..NAMED_MAX]).len(), NAMED_MAX, "none is left out");
    }

    #[test]
    fn the_text_for_monitoring_stays_small_however_many_queues_there_are() {
        let metrics = Metrics::new();
        let queues: Vec<_> = (1..=20_000).map(queue).collect();
        let text = metrics.render(&queues, &[], Duration::ZERO).expect("it can be written");
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
        assert!(text.contains("queue=\"q20000\"") && text.contains("queue=\"(other)\""));
    }
}
