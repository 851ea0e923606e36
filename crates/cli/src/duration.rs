//! Spans of time as people type and read them: `500ms`, `10s`, `5m`, `2h`, `7d`.

use std::time::Duration;

use model::Invalid;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

/// Unit, milliseconds in it; the longest suffix first, so that `ms` is not read as `s`.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];

/// Reads a whole number with a unit. Zero is a span; nothing negative is.
pub(crate) fn parse(text: &str) -> Result<Duration, Invalid> {
    let wrong = |why: &str| Invalid::new(format!("{text:?} {why}; write 500ms, 10s, 5m, 2h or 7d"));
    if text.starts_with('-') {
        return Err(wrong("is negative"));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(wrong("is not a duration"));
    }
    if unit.is_empty() {
        return Err(wrong("has no unit"));
    }
    let Some((_, unit_ms)) = UNITS.iter().find(|(word, _)| *word == unit) else {
        return Err(wrong("is not a duration"));
    };
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*unit_ms));
    // Dates and spans travel as signed milliseconds.
    match millis {
        Some(millis) if i64::try_from(millis).is_ok() => Ok(Duration::from_millis(millis)),
        _ => Err(wrong("is too long")),
    }
}

/// Reads one from a settings file.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    parse(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// The span in its largest two units: `350ms`, `12s`, `1m 20s`, `3d 4h`.
pub(crate) fn show(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let largest = UNITS.iter().rposition(|(_, unit_ms)| millis >= *unit_ms).unwrap_or(0);
    let (word, unit_ms) = UNITS[largest];
    let head = format!("{}{word}", millis / unit_ms);
    // Below a minute a second unit is noise.
    if largest < 2 {
        return head;
    }
    let (lower_word, lower_ms) = UNITS[largest - 1];
    match millis % unit_ms / lower_ms {
        0 => head,
        rest => format!("{head} {rest}{lower_word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_way_out() {
        for (text, why) in [
            ("-5s", "is negative"),
            ("10", "has no unit"),
            ("", "is not a duration"),
            ("s", "is not a duration"),
            ("1.5s", "is not a duration"),
            ("5 m", "is not a duration"),
            ("5w", "is not a duration"),
            ("99999999999999999999s", "is too long"),
            ("999999999999999d", "is too long"),
        ] {
            let error = parse(text).expect_err(text).0;
            assert!(error.contains(why) && error.contains("write 500ms"), "{error}");
        }
    }

    #[test]
    fn spans_are_shown_in_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (350, "350ms"),
            (1_999, "1s"),
            (60_000, "1m"),
            (80_000, "1m 20s"),
            (7_200_000, "2h"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
