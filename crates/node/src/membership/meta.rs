//! What a server tells the others about itself: where its API is, its name, its version. Small, and readable by versions
//! that know more or less.
//!
//! ```text
//! 1 │ length, API address │ length, name │ length, version │ whatever later versions add
//! ```

use bytes::Bytes;
use swim::META_BYTES_MAX;

/// The first byte. Another one means: nothing of what follows can be relied on.
const VERSION: u8 = 1;
/// Longest of each text, in bytes; three of them with their lengths fit. A longer one is cut.
const TEXT_BYTES_MAX: usize = 80;

const _: () = assert!(3 * (1 + TEXT_BYTES_MAX) < META_BYTES_MAX, "with the version they fit");

/// What a node tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) api_address: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Meta {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        for text in [&self.api_address, &self.name, &self.version] {
            let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.into()
    }

    /// What can be read of it; the rest is empty.
    pub(crate) fn decode(bytes: &[u8]) -> Meta {
        let Some((&VERSION, mut rest)) = bytes.split_first() else { return Meta::default() };
        let mut text = || {
            let (&length, after) = rest.split_first()?;
            let (text, after) = after.split_at_checked(usize::from(length))?;
            rest = after;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let mut next = || text().unwrap_or_default();
        Meta { api_address: next(), name: next(), version: next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> Meta {
        Meta {
            api_address: "http://10.0.0.5:7117".to_owned(),
            name: "käthe".to_owned(),
            version: "0.1.0".to_owned(),
        }
    }

    #[test]
    fn what_is_told_is_read() {
        assert_eq!(Meta::decode(&meta().encode()), meta());
        let mut more = meta().encode().to_vec();
        more.extend_from_slice(b"\x03new");
        assert_eq!(Meta::decode(&more), meta(), "later versions may add to it");
    }

    #[test]
    fn nonsense_is_nothing_and_never_a_panic() {
        let whole = meta().encode();
        for length in 0..whole.len() {
            let part = Meta::decode(&whole[..length]);
            assert!(whole.len() > length && part != meta(), "{length} bytes are not all");
        }
        assert_eq!(Meta::decode(&[2, 1, b'x']), Meta::default(), "another version");
        assert_eq!(Meta::decode(&[1, 255, b'x']), Meta::default(), "a length beyond the end");
    }

    #[test]
    fn long_texts_are_cut_between_letters_and_fit() {
        let long = "ä".repeat(300);
        let bytes = Meta { api_address: long.clone(), name: long.clone(), version: long }.encode();
        assert!(bytes.len() <= META_BYTES_MAX);
        assert_eq!(Meta::decode(&bytes).name, "ä".repeat(TEXT_BYTES_MAX / 2));
    }
}
