//! Numbers formatted for display.

use std::time::Duration;

/// Formats a count: `1 node`, `2 nodes`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Describes losses and planned ones: `lost 1 PE and 2 nodes, drained 1 node`; None without any.
pub fn losses(processes: u64, nodes: u64, drained: u64) -> Option<String> {
    let some = |number: u64, what| (number > 0).then(|| count(number, what));
    let lost: Vec<String> =
        [some(processes, "PE"), some(nodes, "node")].into_iter().flatten().collect();
    let lost = (!lost.is_empty()).then(|| format!("lost {}", lost.join(" and ")));
    let drained = some(drained, "node").map(|nodes| format!("drained {nodes}"));
    let all: Vec<String> = lost.into_iter().chain(drained).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Formats bytes in the largest unit of which there is at least one.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => count(bytes, "byte"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// Formats a time in seconds, or in milliseconds if it is less than one second.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => millis(time),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// Formats a running time, without digits that change too fast to read.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// Formats a time in milliseconds.
fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_micros() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_stay_visible() {
        let shown = [0, 1, 1023, 1024, 104_858, (1 << 20) - 52, 1 << 20, 3 << 29].map(bytes);
        let wanted = ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "102.4 KiB", "1023.9 KiB"];
        let wanted = [&wanted[..], &["1.0 MiB", "1.50 GiB"]].concat();
        assert_eq!(shown.as_slice(), wanted);
        let shown = [(0, 0, 0), (1, 0, 0), (2, 1, 0), (0, 1, 2), (0, 0, 1)];
        let shown = shown.map(|(processes, nodes, drained)| losses(processes, nodes, drained));
        let wanted = ["lost 1 PE", "lost 2 PEs and 1 node", "lost 1 node, drained 2 nodes"];
        assert_eq!(shown[0], None);
        assert_eq!(
            shown[1..].iter().flatten().collect::<Vec<_>>(),
            [&wanted[..], &["drained 1 node"]].concat()
        );
        assert_eq!([0, 1, 2].map(|n| count(n, "node")), ["0 nodes", "1 node", "2 nodes"]);
        let times = [0.0, 0.0123, 1.0, 61.5].map(|seconds| time(Duration::from_secs_f64(seconds)));
        assert_eq!(times, ["0.0 ms", "12.3 ms", "1.00 s", "61.50 s"]);
        let spans = [0.04, 59.94, 61.5, 7200.0].map(Duration::from_secs_f64).map(span);
        assert_eq!(spans, ["0.0 s", "59.9 s", "1m 1s", "2h"]);
    }
}
