//! Sizes and times as people write them.

use std::time::Duration;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const TIB: u64 = 1 << 40;

/// A whole number of digits only.
pub(super) fn parse_count(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// `20m`, `3.1M`, `.5g`, `65536`: bytes, rounded up. Another suffix (`8MB`) is refused, and more
/// than 26 digits, so that the arithmetic is exact in 128 bits.
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

/// `10`, `0.5`: milliseconds. More than three decimals are refused.
pub(super) fn parse_seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    let scale = 10u64.pow(3 - fraction.len() as u32);
    let (whole, fraction) = (parse_count(whole)?, parse_count(fraction)?);
    whole.checked_mul(1000)?.checked_add(fraction * scale)
}

/// Milliseconds as seconds, with as few decimals as it takes.
pub(super) fn show_seconds(millis: u64) -> String {
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time in seconds.
pub fn show_time(time: Duration) -> String {
    show_seconds(time.as_millis() as u64)
}

/// Bytes with the largest suffix that leaves a whole number.
pub fn show_size(bytes: u64) -> String {
    for (shift, suffix) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A rate in bytes a second, of which 0 is none.
pub(super) fn show_rate(rate: u64) -> String {
    if rate == 0 { "off".to_owned() } else { show_size(rate) }
}

/// A switch as its variable says it.
pub(super) fn show_switch(on: bool) -> Option<String> {
    Some(if on { "1" } else { "0" }.to_owned())
}

/// A flag counts as soon as it is set, so one that is off must not be shown at all.
pub(super) fn show_flag(on: bool) -> Option<String> {
    on.then(|| "1".to_owned())
}
