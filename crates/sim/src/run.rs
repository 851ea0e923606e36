//! Many seeds over the cores. Parallelism ends here: inside one run there is one thread.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Runs `count` seeds from `first` on over `threads` threads (as many as there are cores when `None`), and hands over
/// each result in the order of the seeds, so that what is made of them does not depend on who was faster.
pub fn seeds<R: Send>(
    first: u64,
    count: u64,
    threads: Option<NonZeroUsize>,
    run: impl Fn(u64) -> R + Sync,
    mut each: impl FnMut(u64, R),
) {
    let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let next = AtomicU64::new(0);
    let (results, inbox) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.min(usize::try_from(count).unwrap_or(usize::MAX)) {
            let (results, next, run) = (results.clone(), &next, &run);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let seed = first.wrapping_add(number);
                    // Nobody listens any more only when the caller panicked.
                    if results.send((number, run(seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (number, result) in inbox {
            early.insert(number, result);
            while let Some(result) = early.remove(&due) {
                each(first.wrapping_add(due), result);
                due += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_was_faster() {
        for threads in [1, 2, 7] {
            let mut order = Vec::new();
            let slow_first =
                |seed: u64| (0..(2_000_u64.saturating_sub(seed))).fold(seed, |sum, _| sum ^ 1) | 1;
            seeds(100, 500, NonZeroUsize::new(threads), slow_first, |seed, result| {
                order.push((seed, result));
            });
            assert_eq!(order, (100..600).map(|seed| (seed, slow_first(seed))).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_seeds_are_no_work() {
        seeds(0, 0, None, |_| unreachable!("there is nothing to run"), |_, ()| unreachable!());
    }
}
