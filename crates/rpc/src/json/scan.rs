//! Which bytes are JSON that every client can read.
//!
//! The grammar of JSON allows what common parsers refuse: nesting without end, `1e999`, half of a surrogate pair. One such
//! value in an answer would make the whole answer unreadable, for everyone who lists jobs.

use std::fmt;

/// The deepest nesting of arrays and objects that is taken as JSON.
pub const DEPTH_MAX: usize = 128;

/// The longest number that is certainly finite as long as it has no exponent.
const PLAIN_DIGITS_MAX: usize = 300;

/// Why bytes are not taken as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They are not JSON at all.
    NotJson,
    /// JSON, but nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// JSON with half of a surrogate pair, which is no text.
    LoneSurrogate,
    /// JSON with a number that no double can hold.
    NotFinite,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotJson => write!(f, "is not JSON"),
            Fault::TooDeep => {
                write!(f, "nests deeper than {DEPTH_MAX} levels, which many clients cannot read")
            }
            Fault::LoneSurrogate => {
                write!(f, "has half of a surrogate pair (\\ud800 to \\udfff), which many clients cannot read")
            }
            Fault::NotFinite => write!(f, "has a number beyond 1.8e308, which many clients cannot read"),
        }
    }
}

/// Whether the bytes are one JSON value, with white space around it at most, that every client can read.
pub fn scan(bytes: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::NotJson)?;
    let mut scanner = Scanner { text, at: 0, fault: None };
    // What is no JSON at all is text, whatever else is odd about it; so faults wait for the end.
    scanner.document().ok_or(Fault::NotJson)?;
    scanner.fault.map_or(Ok(()), Err)
}

/// One pass without recursion: the depth is the sender's choice.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    fault: Option<Fault>,
}

impl Scanner<'_> {
    /// One value and nothing after it.
    fn document(&mut self) -> Option<()> {
        let mut open = Open::default();
        'values: loop {
            self.space();
            match self.next()? {
                b'{' => {
                    open.push(true);
                    self.check_depth(open.depth);
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.key()?;
                        continue 'values;
                    }
                }
                b'[' => {
                    open.push(false);
                    self.check_depth(open.depth);
                    self.space();
                    if self.peek() != Some(b']') {
                        continue 'values;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word("rue")?,
                b'f' => self.word("alse")?,
                b'n' => self.word("ull")?,
                b'-' | b'0'..=b'9' => self.number()?,
                _ => return None,
            }
            // A value has ended, or one without members is about to.
            loop {
                self.space();
                let Some(is_object) = open.innermost() else {
                    return (self.at == self.text.len()).then_some(());
                };
                match (self.next()?, is_object) {
                    (b',', false) => continue 'values,
                    (b',', true) => {
                        self.space();
                        self.key()?;
                        continue 'values;
                    }
                    (b'}', true) | (b']', false) => open.pop(),
                    _ => return None,
                }
            }
        }
    }

    /// The name of a member, and its colon.
    fn key(&mut self) -> Option<()> {
        self.expect(b'"')?;
        self.string()?;
        self.space();
        self.expect(b':')
    }

    /// The rest of a string, whose quotation mark was read.
    fn string(&mut self) -> Option<()> {
        let mut awaits_low = false;
        loop {
            // Most of a string is plain, and most of a large payload is strings.
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().take_while(|byte| !matches!(byte, 0..0x20 | b'"' | b'\\')).count();
            self.at += plain;
            if plain > 0 && std::mem::take(&mut awaits_low) {
                self.note(Fault::LoneSurrogate);
            }
            let byte = self.next()?;
            let escape = if byte == b'\\' { Some(self.next()?) } else { None };
            let unit = if escape == Some(b'u') { Some(self.unit()?) } else { None };
            let is_low = unit.is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
            if awaits_low != is_low {
                self.note(Fault::LoneSurrogate);
            }
            awaits_low = unit.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
            match (byte, escape) {
                (b'"', None) => return Some(()),
                (0..0x20, None) => return None,
                (_, None | Some(b'u' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {}
                _ => return None,
            }
        }
    }

    /// The four digits of an escaped character.
    fn unit(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit * 16 + char::from(self.next()?).to_digit(16)?))
    }

    /// The rest of a number, whose first byte was read.
    fn number(&mut self) -> Option<()> {
        let from = self.at - 1;
        let first = self.text.as_bytes()[from];
        let leading = if first == b'-' { self.next()? } else { first };
        match leading {
            b'0' => {}
            b'1'..=b'9' => _ = self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let has_exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if has_exponent {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let number = &self.text[from..self.at];
        if (has_exponent || number.len() > PLAIN_DIGITS_MAX)
            && !number.parse::<f64>().is_ok_and(f64::is_finite)
        {
            self.note(Fault::NotFinite);
        }
        Some(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn word(&mut self, rest: &str) -> Option<()> {
        rest.bytes().try_for_each(|byte| self.expect(byte))
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn check_depth(&mut self, depth: usize) {
        if depth > DEPTH_MAX {
            self.note(Fault::TooDeep);
        }
    }

    fn note(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }
}

/// The arrays and objects that are open: true for an object. As deep as is taken they need no memory of their own.
#[derive(Default)]
struct Open {
    depth: usize,
    first: u128,
    deeper: Vec<bool>,
}

impl Open {
    fn push(&mut self, is_object: bool) {
        match u128::BITS as usize {
            bits if self.depth < bits => {
                self.first = self.first & !(1 << self.depth) | u128::from(is_object) << self.depth;
            }
            _ => self.deeper.push(is_object),
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.deeper.pop();
    }

    fn innermost(&self) -> Option<bool> {
        let place = self.depth.checked_sub(1)?;
        Some(self.deeper.last().copied().unwrap_or_else(|| (self.first >> place) & 1 == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_client_can_read_is_json() {
        let deepest = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        for text in [
            "null",
            " true ",
            "false",
            "0",
            "-0.5e-3",
            "1E+2",
            "1e308",
            "123456789012345678901234567890",
            "\"\"",
            "\"\\u00e4\\ud83d\\ude00\\n\\\"\"",
            "\"ä 😀\"",
            "[]",
            "{}",
            "[1, [2], {\"a\": {}}]",
            "{\"a\": 1, \"a\": [null]}\n",
            &deepest,
        ] {
            assert_eq!(scan(text.as_bytes()), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_from_json_that_few_can_read() {
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        let abyss = format!("{}{}", "{\"a\":[".repeat(200_000), "]}".repeat(200_000));
        let unclosed = "[".repeat(DEPTH_MAX + 1);
        let long = "9".repeat(400);
        let fraction = format!("0.{}", "3".repeat(400));
        for (text, fault) in [
            ("", Some(Fault::NotJson)),
            ("hello", Some(Fault::NotJson)),
            ("1 2", Some(Fault::NotJson)),
            ("01", Some(Fault::NotJson)),
            ("1.", Some(Fault::NotJson)),
            ("-", Some(Fault::NotJson)),
            ("1e", Some(Fault::NotJson)),
            ("[1,]", Some(Fault::NotJson)),
            ("{\"a\":1,}", Some(Fault::NotJson)),
            ("{a:1}", Some(Fault::NotJson)),
            ("{\"a\"}", Some(Fault::NotJson)),
            ("[}", Some(Fault::NotJson)),
            ("\"tab\there\"", Some(Fault::NotJson)),
            ("\"\\x\"", Some(Fault::NotJson)),
            ("\"\\u12g4\"", Some(Fault::NotJson)),
            ("\"open", Some(Fault::NotJson)),
            ("nul", Some(Fault::NotJson)),
            ("NaN", Some(Fault::NotJson)),
            (&unclosed, Some(Fault::NotJson)),
            (&deep, Some(Fault::TooDeep)),
            (&abyss, Some(Fault::TooDeep)),
            ("\"\\ud800\"", Some(Fault::LoneSurrogate)),
            ("\"\\udc00\"", Some(Fault::LoneSurrogate)),
            ("\"\\ud800\\n\"", Some(Fault::LoneSurrogate)),
            ("\"\\ud800\\ud800\\udc00\"", Some(Fault::LoneSurrogate)),
            ("{\"\\udfff\": 1}", Some(Fault::LoneSurrogate)),
            ("1e999", Some(Fault::NotFinite)),
            ("[-1e309]", Some(Fault::NotFinite)),
            (&long, Some(Fault::NotFinite)),
            (&fraction, None),
        ] {
            assert_eq!(scan(text.as_bytes()).err(), fault, "{text:.60}");
        }
        assert_eq!(scan(b"\"\xff\""), Err(Fault::NotJson));
    }

    /// A parser of its own kind agrees about texts that are nearly JSON.
    #[test]
    fn the_grammar_is_that_of_another_parser() {
        const PIECES: [&str; 22] = [
            "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\\u0041", "\\", "1", "0", "-", ".", "e5", "+",
            "true", "null", " ", "\n", "é", "\t",
        ];
        let mut seed = 0x5eed_u64;
        let mut any_json = 0;
        for round in 0..50_000 {
            let mut text = String::new();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            let mut bits = seed;
            for _ in 0..1 + seed % 9 {
                bits = bits.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                text.push_str(PIECES[(bits >> 33) as usize % PIECES.len()]);
            }
            let ours = scan(text.as_bytes()) != Err(Fault::NotJson);
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            assert_eq!(ours, theirs, "{text:?}");
            any_json += u32::from(ours);
        }
        assert!(any_json > 250, "only {any_json} of them were JSON");
    }
}
