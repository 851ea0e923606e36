//! Sizes of memory as people type and read them: `64MiB`, `1GiB`.

use model::Invalid;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

/// Unit and bytes in it; the largest first.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a whole number with a unit.
pub(crate) fn parse(text: &str) -> Result<u64, Invalid> {
    let wrong = |why: &str| Invalid::new(format!("{text:?} {why}; write 512MiB or 2GiB"));
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(wrong("is not a size"));
    }
    let Some((_, bytes)) = UNITS.iter().find(|(word, _)| word.eq_ignore_ascii_case(unit)) else {
        return Err(wrong(if unit.is_empty() { "has no unit" } else { "is not a size" }));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*bytes))
        .ok_or_else(|| wrong("is too large"))
}

/// Reads one from a settings file.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parse(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// The size in the largest unit of which there is one: `17B`, `1.5KiB`, `64.0MiB`.
pub(crate) fn show(bytes: u64) -> String {
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((word, unit)) if *unit > 1 => format!("{:.1}{word}", bytes as f64 / *unit as f64),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_read_and_shown() {
        for (text, bytes, shown) in [
            ("0B", 0, "0B"),
            ("17B", 17, "17B"),
            ("3KiB", 3_072, "3.0KiB"),
            ("64mib", 64 << 20, "64.0MiB"),
            ("1536MiB", 1536 << 20, "1.5GiB"),
            ("2GiB", 2 << 30, "2.0GiB"),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(show(bytes), shown);
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "GiB",
            "12",
            "-1GiB",
            "1.5GiB",
            "1GB",
            "1 GiB",
            "99999999999999999999GiB",
            "18446744073709551615KiB",
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.0.contains("write 512MiB or 2GiB"), "{refused:?}");
        }
    }
}
