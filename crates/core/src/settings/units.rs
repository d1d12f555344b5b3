//! Sizes and times in the notation of settings.

use std::time::Duration;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const TIB: u64 = 1 << 40;

/// Parses a whole number of digits only.
pub(super) fn parse_count(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Parses `20m`, `3.1M`, `.5g` or `65536` as bytes, rounded up. Rejects other suffixes (`8MB`), and
/// more than 26 digits, so that the arithmetic is exact in 128 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let scale = match suffix {
        "" => 1,
        "K" | "k" => KIB,
        "M" | "m" => KIB << 10,
        "G" | "g" => KIB << 20,
        "T" | "t" => TIB,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.len() > 26 {
        return None;
    }
    let scaled = digits.parse::<u128>().ok()? * u128::from(scale);
    u64::try_from(scaled.div_ceil(10u128.pow(u32::try_from(fraction.len()).ok()?))).ok()
}

/// Parses `10` or `0.5` seconds as milliseconds. Rejects more than three decimals.
pub(super) fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    let scale = 10u64.pow(3 - fraction.len() as u32);
    let (whole, fraction) = (parse_count(whole)?, parse_count(fraction)?);
    whole.checked_mul(1000)?.checked_add(fraction * scale)
}

/// Formats milliseconds as seconds, with as few decimals as possible.
pub(super) fn show_seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a time in seconds.
pub fn show_time(time: Duration) -> String {
    show_seconds(time.as_millis() as u64)
}

/// Formats bytes with the largest suffix that leaves a whole number.
pub fn show_size(bytes: u64) -> String {
    for (shift, suffix) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Formats a rate in bytes per second; 0 is `off`.
pub(super) fn show_rate(rate: u64) -> String {
    if rate == 0 { "off".to_owned() } else { show_size(rate) }
}
