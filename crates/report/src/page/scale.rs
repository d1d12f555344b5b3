//! Positions on a time axis, as percentages: a picture stretches with the page, its text does not.

use std::time::Duration;

/// The time range of a picture.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    begin: Duration,
    end: Duration,
}

/// Steps between marks in seconds, in addition to those by tens.
const STEPS: [f64; 13] = [
    60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0,
    86_400.0, 172_800.0,
];
/// Maximum number of marks on an axis.
const MARKS: f64 = 5.0;

impl Scale {
    /// Makes a scale from `begin` to `end`, which is later.
    pub fn new(begin: Duration, end: Duration) -> Scale {
        Scale { begin, end: end.max(begin + Duration::from_micros(1)) }
    }

    /// Returns the position of a time, 0 to 100.
    pub fn at(self, time: Duration) -> f64 {
        let all = (self.end - self.begin).as_secs_f64();
        let part = time.saturating_sub(self.begin).as_secs_f64() / all;
        (part * 100.0).clamp(0.0, 100.0)
    }

    /// Returns the marks with their labels; zero is at the time `zero`.
    pub fn marks(self, zero: Duration) -> Vec<(f64, String)> {
        let (zero, begin) = (zero.as_secs_f64(), self.begin.as_secs_f64());
        let all = (self.end - self.begin).as_secs_f64();
        let step = step(all / MARKS);
        let first = ((begin - zero) / step).ceil();
        let marks = (0..=MARKS as u32 + 1).map(|mark| (first + f64::from(mark)) * step);
        let place = |seconds: f64| (seconds + zero - begin) / all * 100.0;
        let marks = marks.map(|seconds| (place(seconds), words(seconds, step)));
        marks.filter(|(place, _)| *place <= 100.0).collect()
    }
}

/// Returns the shortest convenient step of at least `least` seconds.
fn step(least: f64) -> f64 {
    let by_tens = |least: f64| {
        let ten = 10f64.powf(least.log10().floor());
        let found = [1.0, 2.0, 5.0, 10.0].map(|part| part * ten).into_iter();
        found.into_iter().find(|step| *step >= least * 0.999).unwrap_or(ten * 10.0)
    };
    match least {
        ..=30.0 => by_tens(least.max(1e-6)),
        _ => STEPS
            .into_iter()
            .find(|step| *step >= least)
            .unwrap_or_else(|| by_tens(least / 86_400.0) * 86_400.0),
    }
}

/// Formats a time at a mark, as short as the step allows.
fn words(seconds: f64, step: f64) -> String {
    let (unit, name) = match step {
        ..0.001 => (1e-6, "\u{b5}s"),
        ..1.0 => (0.001, "ms"),
        ..60.0 => (1.0, "s"),
        ..3600.0 => (60.0, "min"),
        ..86_400.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    };
    let number = (seconds / unit * 1000.0).round() / 1000.0 + 0.0; // avoids -0
    if number == 0.0 { "0".to_owned() } else { format!("{number} {name}") }
}

/// Returns the anchor of a mark's text that keeps it on the page.
pub const fn anchor(place: f64) -> &'static str {
    match place {
        ..4.0 => "start",
        94.0.. => "end",
        _ => "middle",
    }
}

/// Formats a share as a percentage for an attribute.
pub fn percent(share: f64) -> String {
    format!("{share:.3}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(begin: f64, end: f64, zero: f64) -> Vec<String> {
        let at = Duration::from_secs_f64;
        let marks = Scale::new(at(begin), at(end)).marks(at(zero));
        assert!(marks.iter().all(|(place, _)| (0.0..=100.0).contains(place)), "{marks:?}");
        marks.into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(marks(0.0, 10.0, 0.0), ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]);
        assert_eq!(marks(0.0, 0.042, 0.0), ["0", "10 ms", "20 ms", "30 ms", "40 ms"]);
        assert_eq!(marks(0.0, 7000.0, 0.0), ["0", "30 min", "60 min", "90 min"]);
        assert_eq!(marks(0.0, 90_000.0, 0.0), ["0", "8 h", "16 h", "24 h"]);
        assert_eq!(marks(0.0, 2e6, 0.0), ["0", "5 d", "10 d", "15 d", "20 d"]);
        assert_eq!(marks(2.9, 4.1, 3.0), ["0", "500 ms", "1000 ms"]);
        assert_eq!(marks(0.0, 0.0, 0.0), ["0", "1 \u{b5}s"], "nothing took no time");
    }

    #[test]
    fn places_stay_on_the_line() {
        let at = Duration::from_secs;
        let scale = Scale::new(at(10), at(20));
        assert_eq!([5, 10, 15, 99].map(|second| scale.at(at(second))), [0.0, 0.0, 50.0, 100.0]);
        assert_eq!(percent(33.333_33), "33.333%");
    }
}
