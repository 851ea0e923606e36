//! Dates as people type and read them: RFC 3339, or milliseconds since 1970 UTC.
//!
//! Only what the command line needs, in UTC; the calendar arithmetic is Howard Hinnant's `days_from_civil` and
//! `civil_from_days`.

use model::{Invalid, WallTime};

use crate::duration;

const DAY_MS: i64 = 24 * 3_600_000;

/// Reads `2031-05-04T09:30:00Z` (an offset such as `+02:00` and a fraction are allowed) or unix milliseconds.
pub(crate) fn parse(text: &str) -> Result<WallTime, Invalid> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_millis(text);
    }
    parse_rfc3339(text).map(WallTime::from_millis).ok_or_else(|| {
        Invalid::new(format!(
            "{text:?} is not a date; write 2031-05-04T09:30:00Z, 2031-05-04T09:30:00+02:00 or unix milliseconds"
        ))
    })
}

/// The date in UTC, to the millisecond.
pub(crate) fn show(date: WallTime) -> String {
    let millis = date.as_millis();
    let (year, month, day) = civil_from_days(millis.div_euclid(DAY_MS));
    let of_day = millis.rem_euclid(DAY_MS);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, fraction) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// The date seen from `now`: `in 12s`, `3m ago`.
pub(crate) fn relative(date: WallTime, now: WallTime) -> String {
    if date > now {
        format!("in {}", duration::show(date.since(now)))
    } else {
        format!("{} ago", duration::show(now.since(date)))
    }
}

fn parse_millis(text: &str) -> Result<WallTime, Invalid> {
    // Ten digits are seconds of our time and would silently mean January 1970.
    let millis = text.parse::<i64>().ok().filter(|millis| *millis >= 100_000_000_000);
    millis.map(WallTime::from_millis).ok_or_else(|| {
        Invalid::new(format!(
            "{text} is not a date in unix milliseconds, such as 1935999000000 for 2031-05-08"
        ))
    })
}

fn parse_rfc3339(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone_at);
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let of_day = (hour * 3_600 + minute * 60 + second) * 1_000 + fraction_millis(fraction)?;
    Some(days_from_civil(year, month, day) * DAY_MS + of_day - offset_millis(zone)?)
}

fn fraction_millis(digits: &str) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<3}")[..3].parse().ok()
}

fn offset_millis(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Exactly `N` groups of digits of these widths.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for (slot, width) in found.iter_mut().zip(widths) {
        let part = parts.next()?;
        if part.len() != width || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next.0, next.1, 1) - days_from_civil(year, month, 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_dates_are_read_and_shown() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2000-02-29T12:00:00.000Z", 951_825_600_000),
            ("2001-09-09T01:46:40.000Z", 1_000_000_000_000),
            ("2038-01-19T03:14:07.999Z", 2_147_483_647_999),
            ("1969-12-31T23:59:59.999Z", -1),
        ] {
            assert_eq!(parse(text), Ok(WallTime::from_millis(millis)));
            assert_eq!(show(WallTime::from_millis(millis)), text);
        }
    }

    #[test]
    fn offsets_fractions_and_plain_milliseconds_are_read() {
        let noon = parse("2000-02-29T12:00:00Z").unwrap();
        assert_eq!(parse("2000-02-29T14:00:00+02:00"), Ok(noon));
        assert_eq!(parse("2000-02-29 07:30:00-04:30"), Ok(noon));
        assert_eq!(parse("2000-02-29T12:00:00.5Z"), Ok(noon + Duration::from_millis(500)));
        assert_eq!(parse("951825600000"), Ok(noon));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "tomorrow",
            "2031-05-04",
            "2031-05-04T09:30:00",
            "2031-13-01T00:00:00Z",
            "2031-02-29T00:00:00Z",
            "2031-05-04T24:00:00Z",
            "2031-05-04T09:30:00.Z",
            "2031-05-04T09:30:00+2:00",
            "-1",
            "1000000000",
            "2031-05-04T09:30:00é",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn relative_dates_look_both_ways() {
        let now = WallTime::from_millis(1_000_000);
        assert_eq!(relative(now + Duration::from_secs(80), now), "in 1m 20s");
        assert_eq!(relative(now - Duration::from_secs(3), now), "3s ago");
    }
}
