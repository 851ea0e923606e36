//! What others wrote, made harmless for a terminal. Everything that this binary prints to one comes through here.
//!
//! A terminal obeys control characters: they move the cursor, change its title, type for the reader. Characters that set the
//! direction of writing show a text in another order than it has. Neither belongs in a result, an error or a key.

use std::borrow::Cow;

/// Stands for a character that changes the direction of writing.
const REPLACEMENT: char = '\u{fffd}';

/// Which control characters stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// None: it is one line.
    Nothing,
    /// Line ends.
    LineEnds,
    /// Line ends and tabs.
    Layout,
}

/// Text without what a terminal would obey. Control characters become spaces.
pub(crate) fn clean(text: &str, keep: Keep) -> String {
    let is_kept = |c: char| match keep {
        Keep::Nothing => false,
        Keep::LineEnds => c == '\n',
        Keep::Layout => matches!(c, '\n' | '\t'),
    };
    let shown = |c: char| match c {
        c if is_kept(c) => c,
        c if turns(c) => REPLACEMENT,
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// Data that was meant for programs, as a terminal may have it. What is no text shows as replacement characters.
pub(crate) fn clean_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(|c: char| turns(c) || (c.is_control() && !matches!(c, '\n' | '\t'))) => {
            Cow::Borrowed(bytes)
        }
        _ => Cow::Owned(clean(&String::from_utf8_lossy(bytes), Keep::Layout).into_bytes()),
    }
}

/// JSON that means the same, with such characters escaped: they stand only inside strings.
pub(crate) fn escape_json(json: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| turns(c) || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    if !json.contains(is_unsafe) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            c if is_unsafe(c) => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Whether the character changes the direction of writing.
const fn turns(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A line of a log whose writer has escaped control characters, since its colours are made of them.
pub(crate) fn clean_log_line(line: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(line) {
        Ok(text) if text.contains(turns) => {
            Cow::Owned(text.replace(turns, &REPLACEMENT.to_string()).into_bytes())
        }
        _ => Cow::Borrowed(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\x1b[31mb\x1b]0;pwned\x07c\u{9b}2Jd\u{202e}e\u{2066}f\u{200f}g\u{61c}h\x7f\r\n\ti";

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        for keep in [Keep::Nothing, Keep::LineEnds, Keep::Layout] {
            let text = clean(EVIL, keep);
            assert!(
                text.chars().all(|c| !turns(c) && (!c.is_control() || matches!(c, '\n' | '\t'))),
                "{text:?}"
            );
            assert!(
                text.starts_with("a [31mb ]0;pwned c 2Jd\u{fffd}e\u{fffd}f\u{fffd}g\u{fffd}h "),
                "{text:?}"
            );
        }
        assert!(clean(EVIL, Keep::Nothing).ends_with("   i"));
        assert!(clean(EVIL, Keep::LineEnds).ends_with(" \n i"));
        assert!(clean(EVIL, Keep::Layout).ends_with(" \n\ti"));
        assert_eq!(clean("ä 日本 😀 e\u{301}", Keep::Nothing), "ä 日本 😀 e\u{301}", "other text stays");
    }

    #[test]
    fn data_for_a_terminal_is_cleaned_and_other_data_is_not_copied() {
        assert_eq!(clean_bytes(EVIL.as_bytes()), clean(EVIL, Keep::Layout).into_bytes());
        assert!(matches!(clean_bytes(b"plain\ttext\n"), Cow::Borrowed(_)));
        assert_eq!(clean_bytes(b"\xff\x1b[2J"), "\u{fffd} [2J".as_bytes());
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let value = serde_json::json!({"error": EVIL});
        let json = serde_json::to_string(&value).unwrap();
        let escaped = escape_json(&json);
        assert!(escaped.chars().all(|c| !turns(c) && !c.is_control()), "{escaped:?}");
        assert!(escaped.contains("\\u202e") && escaped.contains("\\u009b"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(matches!(escape_json("{\"a\": \"ä\"}\n"), Cow::Borrowed(_)));
    }
}
