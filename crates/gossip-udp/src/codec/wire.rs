//! Numbers as bytes: little-endian where all values are equally likely, otherwise seven bits at a time, lowest first.
//!
//! Every value has exactly one spelling, so whatever is read and written again is the same bytes.

use super::Malformed;

/// Longest spelling of a `u64`.
const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` in seven-bit groups.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length or count.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, count as u64);
}

/// Reads from the front of what is left. Never panics, never allocates.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for place in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            let shift = 7 * place as u32;
            if group << shift >> shift != group || (byte == 0 && place > 0) {
                return Err(Malformed::Number);
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Number)
    }

    /// A number that fits in 32 bits.
    pub(super) fn small(&mut self) -> Result<u32, Malformed> {
        self.varint()?.try_into().map_err(|_| Malformed::Number)
    }

    /// How many items follow, each of at least `each` bytes: never more than `most`, nor than there is room for. What is
    /// reserved by this number is therefore bounded by what was received.
    pub(super) fn count(&mut self, each: usize, most: usize) -> Result<usize, Malformed> {
        let claimed = self.varint()?;
        let room = (self.rest.len() / each).min(most);
        usize::try_from(claimed).ok().filter(|count| *count <= room).ok_or(Malformed::Count(claimed))
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::Trailing(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<u64, Malformed> {
        let mut reader = Reader::new(bytes);
        let value = reader.varint()?;
        reader.end()?;
        Ok(value)
    }

    #[test]
    fn numbers_come_back_from_their_only_spelling() {
        let edges = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]);
        for value in edges {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert!(bytes.len() <= VARINT_BYTES_MAX);
            assert_eq!(read(&bytes), Ok(value));
            *bytes.last_mut().expect("never empty") |= 0x80;
            bytes.push(0);
            assert_eq!(read(&bytes), Err(Malformed::Number), "{value} has a longer spelling");
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(read(&[0xff; 11]), Err(Malformed::Number));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), Err(Malformed::Number));
        assert_eq!(read(&[0x80]), Err(Malformed::Truncated));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).small(), Err(Malformed::Number));
    }

    #[test]
    fn counts_are_held_against_the_bytes_left() {
        assert_eq!(Reader::new(&[2, 0, 0, 0, 0]).count(2, 9), Ok(2));
        assert_eq!(Reader::new(&[3, 0, 0, 0, 0]).count(2, 9), Err(Malformed::Count(3)));
        assert_eq!(Reader::new(&[2, 0, 0, 0, 0]).count(2, 1), Err(Malformed::Count(2)));
    }
}
