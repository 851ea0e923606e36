//! Copies of what came in a message. A piece of a message keeps all of it in memory for as long as it is kept itself.

use bytes::Bytes;

/// Small pieces that came together are copied together, up to so many bytes: so much at most is kept for the least of them.
const TOGETHER_MAX: usize = 1 << 12;

/// Makes a piece of a message a copy.
pub(super) fn own(piece: &mut Bytes) {
    *piece = Bytes::copy_from_slice(piece);
}

/// Makes the pieces of a message that these things have copies.
pub(super) fn own_all<T>(mut things: &mut [T], piece_of: impl Fn(&mut T) -> Option<&mut Bytes>) {
    let bytes_of = |thing: &mut T| piece_of(thing).map_or(0, |piece| piece.len());
    while let Some((first, rest)) = things.split_first_mut() {
        let (mut count, mut bytes) = (1, bytes_of(first));
        for more in rest.iter_mut().map(bytes_of) {
            if bytes + more > TOGETHER_MAX {
                break;
            }
            (count, bytes) = (count + 1, bytes + more);
        }
        let (together, rest) = things.split_at_mut(count);
        let mut copy = Vec::with_capacity(bytes);
        together.iter_mut().filter_map(&piece_of).for_each(|piece| copy.extend_from_slice(piece));
        // A clone is known to be shared, so that its parts are not asked each time.
        let mut copy = Bytes::from(copy).clone();
        together.iter_mut().filter_map(&piece_of).for_each(|piece| match piece.len() {
            // Most results are, and nothing need be counted for them.
            0 => *piece = Bytes::new(),
            length => *piece = copy.split_to(length),
        });
        things = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies pieces of one message, of these lengths.
    fn copied(lengths: &[usize]) -> Vec<Bytes> {
        let message: Bytes = (0..lengths.iter().sum::<usize>()).map(|number| number as u8).collect();
        let mut left = message.clone();
        let pieces: Vec<Bytes> = lengths.iter().map(|length| left.split_to(*length)).collect();
        let mut copies = pieces.clone();
        own_all(&mut copies, |copy| Some(copy));
        assert_eq!(copies, pieces);
        let is_of_it = |copy: &&Bytes| message.as_ptr_range().contains(&copy.as_ptr());
        assert_eq!(copies.iter().filter(is_of_it).count(), 0);
        copies
    }

    /// How many of these are one copy: they lie side by side.
    fn together(copies: &[Bytes]) -> Vec<usize> {
        copies
            .chunk_by(|one, next| one.as_ptr_range().end == next.as_ptr())
            .map(|chunk| chunk.iter().map(Bytes::len).sum())
            .collect()
    }

    #[test]
    fn small_ones_are_copied_together_and_never_too_many() {
        let copies = copied(&[100; 95]);
        let largest = together(&copies).into_iter().max();
        assert!(
            largest.is_some_and(|bytes| (TOGETHER_MAX - 100..=TOGETHER_MAX).contains(&bytes)),
            "{largest:?}"
        );
    }

    #[test]
    fn large_one_is_copied_alone() {
        let mut copies = copied(&[1, TOGETHER_MAX + 1, 1, 0, TOGETHER_MAX - 1, 1]);
        let large = copies.remove(1);
        assert!(large.is_unique(), "nothing else keeps it in memory, and it keeps nothing else");
        assert_eq!(copied(&[]), [] as [Bytes; 0]);
    }
}
