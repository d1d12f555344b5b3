//! One line of the table, and its arithmetic. Pure.

#![forbid(unsafe_code)]

use std::fmt;

use serde::Serialize;

/// The direction in which values improve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller is better: at most the goal.
    Min,
    /// Larger is better: at least the goal.
    Max,
}

/// One line of the scorecard.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    pub figure: String,
    pub measured: f64,
    pub goal: f64,
    pub direction: Direction,
    met: bool,
    /// The machine's limit, in the unit of `measured`, if known.
    pub limit: Option<f64>,
    /// The peer that it was compared with.
    pub peer: String,
    /// Rounds behind the median.
    pub runs: usize,
}

impl Figure {
    /// Creates a figure that should be at most `goal`.
    pub fn at_most(figure: &str, goal: f64, rounds: &[f64], peer: &str) -> Figure {
        Figure::new(figure, goal, Direction::Min, rounds, peer)
    }

    /// Creates a figure that should be at least `goal`.
    pub fn at_least(figure: &str, goal: f64, rounds: &[f64], peer: &str) -> Figure {
        Figure::new(figure, goal, Direction::Max, rounds, peer)
    }

    fn new(name: &str, goal: f64, direction: Direction, rounds: &[f64], peer: &str) -> Figure {
        let measured = median(rounds);
        let met = match direction {
            Direction::Min => measured <= goal,
            Direction::Max => measured >= goal,
        };
        let (figure, peer, runs) = (name.to_owned(), peer.to_owned(), rounds.len());
        Figure { figure, measured, goal, direction, met, limit: None, peer, runs }
    }

    /// Adds the machine's limit.
    pub fn with_limit(self, limit: f64) -> Figure {
        Figure { limit: Some(limit), ..self }
    }

    /// Restricts the goal to kernels whose name begins with `needs`: other kernels never miss it.
    pub fn for_kernels(mut self, needs: &str, kernel: &str) -> Figure {
        self.met |= !kernel.starts_with(needs);
        self.peer += &format!("; goal for {needs}");
        self
    }

    /// Returns true if the goal was reached.
    pub fn met(&self) -> bool {
        self.met
    }
}

/// Returns the heading of the table.
pub fn heading() -> String {
    format!("{:<52} | {:>8} | {:>9} | {:>7} | peer", "figure", "measured", "goal", "limit")
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.direction {
            Direction::Min => "<=",
            Direction::Max => ">=",
        };
        let limit = self.limit.map_or(String::from("-"), |limit| format!("{limit:.2}"));
        let (goal, missed) = (self.goal, if self.met { "" } else { " MISSED" });
        write!(f, "{:<52} | {:>8.3} | {sign} {goal:>6} ", self.figure, self.measured)?;
        write!(f, "| {limit:>7} | {} ({} runs){missed}", self.peer, self.runs)
    }
}

/// Returns the median; the mean of the two middle values of an even number, NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Returns the ratios, round by round.
pub fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    assert_eq!(above.len(), below.len(), "rounds are pairs");
    above.iter().zip(below).map(|(a, b)| a / b).collect()
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    assert!(Figure::at_most("f", 1.0, &[0.5, 1.0, 1.5], "p").met());
    assert!(!Figure::at_least("f", 1.1, &[0.5, 1.0, 1.5], "p").met());
    assert!(!Figure::at_most("f", 1.0, &[], "p").met(), "no runs are no result");
}
