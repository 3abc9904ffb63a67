//! How values are written for people.

use std::time::{Duration, UNIX_EPOCH};

use actix_web::http::header::HttpDate;
use maud::{Markup, html};

use crate::status::{StatusValue, Unit};

/// The most characters of a text.
const LONGEST: usize = 400;

/// A text, cut where it is too long.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value in its unit.
pub(super) fn value(value: &StatusValue, unit: Unit) -> Markup {
    match (value, unit) {
        (StatusValue::Flag(true), _) => html! { "yes" },
        (StatusValue::Flag(false), _) => html! { "no" },
        (StatusValue::Text(text), _) => html! { (clipped(text)) },
        (StatusValue::Count(count), Unit::UnixMilliseconds) => moment(*count),
        (StatusValue::Count(count), Unit::None) => html! { (grouped(*count)) },
        (StatusValue::Count(_) | StatusValue::Number(_), unit) => {
            html! { (number(value.as_f64().unwrap_or(f64::NAN), unit)) }
        }
    }
}

/// A number in its unit, short.
pub(super) fn number(number: f64, unit: Unit) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    match unit {
        Unit::Bytes => scaled(number, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB"]),
        Unit::Seconds => seconds(number),
        Unit::PerSecond => format!("{} a second", plain(number)),
        Unit::None | Unit::UnixMilliseconds => plain(number),
    }
}

/// A moment of this or any other day.
pub(super) fn moment(unix_ms: u64) -> Markup {
    let Some(at) = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms)) else {
        return html! { "–" };
    };
    // HTTP's dates end with the year 9999.
    if unix_ms >= 253_402_300_800_000 {
        return html! { "–" };
    }
    // Mon, 30 Nov 2026 14:00:17 GMT
    let date = HttpDate::from(at).to_string();
    let time = date.get(17..25).unwrap_or(&date);
    html! {
        time datetime=(format!("{time}.{:03}", unix_ms % 1_000)) title=(date) {
            (time) span.unit { " UTC" }
        }
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn plain(number: f64) -> String {
    let size = number.abs();
    if size >= 1e15 {
        format!("{number:.3e}")
    } else if size >= 100.0 || number.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 0 and below 10^15"
        )]
        let whole = grouped(size.round() as u64);
        format!("{}{whole}", if number < 0.0 { "−" } else { "" })
    } else {
        format!("{number:.2}")
    }
}

fn scaled(number: f64, step: f64, units: [&str; 5]) -> String {
    let mut number = number;
    let mut place = 0;
    while number.abs() >= step && place + 1 < units.len() {
        number /= step;
        place += 1;
    }
    if place == 0 {
        format!("{} {}", plain(number), units[0])
    } else {
        format!("{number:.1} {}", units[place])
    }
}

fn seconds(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 {
        "0 s".to_owned()
    } else if size < 0.001 {
        format!("{:.0} µs", number * 1e6)
    } else if size < 1.0 {
        format!("{:.0} ms", number * 1e3)
    } else if size < 120.0 {
        format!("{number:.1} s")
    } else if size < 7_200.0 {
        format!("{:.0} min", number / 60.0)
    } else {
        format!("{:.1} h", number / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_say_their_unit() {
        for (number, unit, text) in [
            (1_234_567.0, Unit::None, "1\u{202f}234\u{202f}567"),
            (-1_000.0, Unit::None, "−1\u{202f}000"),
            (0.126, Unit::None, "0.13"),
            (1e20, Unit::None, "1.000e20"),
            (f64::NAN, Unit::Bytes, "–"),
            (1_023.0, Unit::Bytes, "1\u{202f}023 B"),
            (1_536.0, Unit::Bytes, "1.5 KiB"),
            (0.000_05, Unit::Seconds, "50 µs"),
            (0.25, Unit::Seconds, "250 ms"),
            (90.0, Unit::Seconds, "90.0 s"),
            (600.0, Unit::Seconds, "10 min"),
            (7_200.0, Unit::Seconds, "2.0 h"),
            (12.5, Unit::PerSecond, "12.50 a second"),
        ] {
            assert_eq!(super::number(number, unit), text);
        }
    }

    #[test]
    fn a_moment_is_a_time_of_day_and_none_is_too_late() {
        let text = moment(1_796_047_217_123).into_string();
        assert!(text.contains("datetime=\"14:00:17.123\""), "{text}");
        assert!(text.contains("Mon, 30 Nov 2026"), "{text}");
        for late in [253_402_300_800_000, u64::MAX] {
            assert_eq!(moment(late).into_string(), "–");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ü".repeat(LONGEST + 1);
        assert_eq!(clipped(&text).chars().count(), LONGEST + 1);
        assert!(clipped(&text).ends_with('…'));
        assert_eq!(clipped("short"), "short");
    }
}
