//! Texts as names are made of: most are short, and each is copied several times for every job. Short ones lie in the value itself,
//! so that a copy is a few words and touches nothing else; long ones are shared, and counted by those who share them.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// As long as fits into two words with the length.
const SHORT_MAX: usize = 15;

/// A text that does not change. Equal texts are kept alike: one that can be short is.
#[derive(Clone)]
pub(crate) enum Text {
    Short(Short),
    Long(Arc<str>),
}

/// Words rather than bytes: a copy of whole words need not wait until bytes that were just written are together.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub(crate) struct Short {
    len: u8,
    /// With zeros after them.
    bytes: [u8; SHORT_MAX],
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        if text.len() > SHORT_MAX {
            return Text::Long(text.into());
        }
        let mut bytes = [0; SHORT_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Text::Short(Short { len: text.len() as u8, bytes })
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Text::Short(..) => std::str::from_utf8(self.as_bytes()).expect("it was made of a text"),
            Text::Long(text) => text,
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Short(Short { len, bytes }) => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Text::Short(text), Text::Short(other)) => text == other,
            // Long names that are compared are mostly copies of one.
            (Text::Long(text), Text::Long(other)) => Arc::ptr_eq(text, other) || text == other,
            _ => false,
        }
    }
}

impl Eq for Text {}

/// As the texts themselves.
impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splitmix::SplitMix;

    /// Of any length around the border, of few letters, so that many are equal or begin alike.
    fn any(random: &mut SplitMix) -> String {
        let len = [0, 1, 2, SHORT_MAX - 1, SHORT_MAX, SHORT_MAX + 1, 40][random.index(7)];
        let mut text = "a".repeat(len);
        if random.percent(70) {
            text.push(['\0', 'b', 'é', '✓'][random.index(4)]);
        }
        text
    }

    fn hash(text: &Text) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn texts_compare_as_what_they_were_made_of() {
        let mut random = SplitMix::new(1);
        for _ in 0..10_000 {
            let (one, other) = (any(&mut random), any(&mut random));
            let (a, b) = (Text::new(&one), Text::new(&other));
            assert_eq!((a.as_str(), b.as_str()), (one.as_str(), other.as_str()));
            assert_eq!(a == b, one == other, "{one:?} {other:?}");
            assert_eq!(a.cmp(&b), one.cmp(&other), "{one:?} {other:?}");
            assert!(a.clone() == a && hash(&a.clone()) == hash(&a));
            assert!(a != b || hash(&a) == hash(&b), "{one:?}");
        }
    }

    #[test]
    fn a_text_takes_three_words_and_so_does_none() {
        let words = 3 * size_of::<usize>();
        assert_eq!((size_of::<Text>(), size_of::<Option<Text>>()), (words, words));
    }
}
