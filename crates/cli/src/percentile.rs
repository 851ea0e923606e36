//! Percentiles of the figures that `bench` and `demo` print.

/// The value at this percentile by nearest rank; `None` of nothing.
pub(crate) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).collect();
        let at = |percent| percentile(&sorted, percent);
        assert_eq!((at(1), at(50), at(99), at(100)), (Some(2), Some(100), Some(198), Some(200)));
        assert_eq!(percentile(&[7], 99), Some(7));
        assert_eq!(percentile::<u64>(&[], 50), None);
    }
}
