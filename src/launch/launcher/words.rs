//! Numbers as people read them. Pure.

#![forbid(unsafe_code)]

use std::time::Duration;

/// `1 node`, `2 nodes`
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Bytes in MiB, in KiB where that would be less than a tenth.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => count(bytes, "byte"),
        1024..104_858 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

/// A time in seconds, in milliseconds if it is less than one.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => millis(time.as_micros() as u64),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// Microseconds in milliseconds.
pub fn millis(micros: u64) -> String {
    format!("{:.1} ms", micros as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_stay_visible() {
        let shown = [0, 1, 1023, 1024, 104_857, 104_858, 1 << 20].map(bytes);
        let wanted =
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "102.4 KiB", "0.1 MiB", "1.0 MiB"];
        assert_eq!(shown, wanted);
        assert_eq!([0, 1, 2].map(|n| count(n, "node")), ["0 nodes", "1 node", "2 nodes"]);
        let times = [0.0, 0.0123, 1.0, 61.5].map(|seconds| time(Duration::from_secs_f64(seconds)));
        assert_eq!(times, ["0.0 ms", "12.3 ms", "1.00 s", "61.50 s"]);
    }
}
