//! A model of the cost of a checkpoint and a rebuild, and its error. Pure.
//!
//! With `L` bytes per PE, `n` PEs on `c` processors, groups of `g` with `m` parities, `k = g - m`:
//!
//! ```text
//! checkpoint = a + b n + (n / c) L (r (m + 1) + w (1 + m / k))
//! rebuild    = a + b n + L (r k + w)
//! ```
//!
//! `r` and `w` are the times to read and to write a byte, `a` and `b` the cost of synchronising:
//! every PE reads `L` bytes for each parity (its own share of the stripes) and `L` for its
//! snapshot, and writes the snapshot and `m / k` of parity; in a rebuild, one PE reads `k` chunks
//! for each one written. The four coefficients minimise the squares of the relative errors,
//! separately for each equation.
//!
//! Groups are independent, so beyond one machine only the cost of synchronising grows, with the
//! logarithm of the number of nodes: [`Fit::expected`]. Bytes over a link: each PE receives `m L`
//! for a checkpoint and `L k` for a rebuild, and the link's rate replaces `1 / r` if it is lower.

#![forbid(unsafe_code)]

use std::fmt;

/// A measured point; times are in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// MiB that each PE saves.
    pub mib: f64,
    /// PEs, all on this machine.
    pub pes: usize,
    /// PEs of a parity group.
    pub group: usize,
    /// Parities of a stripe.
    pub parity: usize,
    /// The time of a checkpoint.
    pub save: f64,
    /// The time of rebuilding one PE.
    pub rebuild: f64,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { mib, pes, group, parity, .. } = self;
        write!(f, "{mib} MiB x {pes} PEs, groups of {group}, parity {parity}")
    }
}

/// Coefficients of one equation: a, b, r, w.
type Line = [f64; 4];

/// The model with its coefficients.
pub struct Fit {
    processors: f64,
    save: Line,
    rebuild: Line,
    /// Median and largest relative error of each equation.
    errors: [(f64, f64); 2],
}

fn save_terms(point: &Point, processors: f64) -> Line {
    let (m, k) = (point.parity as f64, (point.group - point.parity) as f64);
    let share = (point.pes as f64 / processors).max(1.0) * point.mib;
    [1.0, point.pes as f64, share * (m + 1.0), share * (1.0 + m / k)]
}

fn rebuild_terms(point: &Point) -> Line {
    let k = (point.group - point.parity) as f64;
    [1.0, point.pes as f64, point.mib * k, point.mib]
}

fn sum(line: &Line, terms: &Line) -> f64 {
    line.iter().zip(terms).map(|(a, b)| a * b).sum()
}

impl Fit {
    /// Fits both equations to `points`.
    pub fn of(points: &[Point], processors: usize) -> Fit {
        let processors = processors as f64;
        let saves: Vec<(Line, f64)> =
            points.iter().map(|p| (save_terms(p, processors), p.save)).collect();
        let rebuilds: Vec<(Line, f64)> =
            points.iter().map(|p| (rebuild_terms(p), p.rebuild)).collect();
        let (save, rebuild) = (least_squares(&saves), least_squares(&rebuilds));
        let errors = [errors(&save, &saves), errors(&rebuild, &rebuilds)];
        Fit { processors, save, rebuild, errors }
    }

    /// Returns the milliseconds that the model predicts for a checkpoint and for a rebuild.
    pub fn at(&self, point: &Point) -> (f64, f64) {
        let save = sum(&self.save, &save_terms(point, self.processors));
        (save, sum(&self.rebuild, &rebuild_terms(point)))
    }

    /// Predicts the milliseconds of a checkpoint of `point` on each of `nodes` machines like this
    /// one, joined by links of `link` GB/s and `hop` milliseconds.
    pub fn expected(&self, point: &Point, nodes: f64, link: f64, hop: f64) -> f64 {
        let (here, _) = self.at(point);
        let incoming = point.pes as f64 * point.parity as f64 * point.mib * 1.048_576 / link;
        // Three synchronisations, each of logarithmically many rounds.
        here.max(incoming) + 3.0 * hop * nodes.log2().ceil()
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |per_mib: f64| if per_mib > 0.0 { 1.048_576 / per_mib } else { f64::INFINITY };
        let lines = [("checkpoint", &self.save), ("rebuild", &self.rebuild)];
        for ((what, [a, b, r, w]), (middle, most)) in lines.into_iter().zip(self.errors) {
            writeln!(
                f,
                "{what}: {a:.3} ms + {b:.4} ms a PE, reads at {:.1} GB/s, writes at {:.1} GB/s; \
                 relative error {:.0} % in the middle, {:.0} % at most",
                rate(*r),
                rate(*w),
                100.0 * middle,
                100.0 * most
            )?;
        }
        let point = Point { mib: 1024.0, pes: 2, group: 8, parity: 1, save: 0.0, rebuild: 0.0 };
        for nodes in [1_000.0, 50_000.0] {
            let millis = self.expected(&point, nodes, 12.5, 0.01);
            let pes = nodes * point.pes as f64;
            writeln!(
                f,
                "expected, {pes} PEs of 1 GiB on {nodes} nodes, 100 Gbit/s: {millis:.0} ms"
            )?;
        }
        Ok(())
    }
}

/// Returns the non-negative coefficients with the least sum of squared relative errors. A
/// coefficient that would be negative is dropped and the others are fitted again.
fn least_squares(points: &[(Line, f64)]) -> Line {
    let mut used = vec![0, 1, 2, 3];
    loop {
        let solved = solve(points, &used);
        let worst = (0..used.len()).min_by(|&a, &b| solved[a].total_cmp(&solved[b]));
        match worst {
            Some(at) if solved[at] < 0.0 => drop(used.remove(at)),
            _ => {
                let mut line = [0.0; 4];
                used.iter().zip(&solved).for_each(|(&column, &value)| line[column] = value);
                return line;
            }
        }
    }
}

/// Solves the normal equations for the columns `used`, by elimination with row exchange.
fn solve(points: &[(Line, f64)], used: &[usize]) -> Vec<f64> {
    let n = used.len();
    let mut rows = vec![vec![0.0; n + 1]; n];
    for (terms, value) in points {
        for (row, &a) in rows.iter_mut().zip(used) {
            for (column, &b) in used.iter().enumerate() {
                row[column] += terms[a] * terms[b] / (value * value);
            }
            row[n] += terms[a] / value;
        }
    }
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()));
        rows.swap(at, pivot.unwrap_or(at));
        let lead = rows[at].clone();
        for (other, row) in rows.iter_mut().enumerate() {
            if other != at && lead[at] != 0.0 {
                let factor = row[at] / lead[at];
                row.iter_mut().zip(&lead).for_each(|(cell, value)| *cell -= factor * value);
            }
        }
    }
    (0..n).map(|at| if rows[at][at] == 0.0 { 0.0 } else { rows[at][n] / rows[at][at] }).collect()
}

fn errors(line: &Line, points: &[(Line, f64)]) -> (f64, f64) {
    let relative = |(terms, value): &(Line, f64)| (sum(line, terms) / value - 1.0).abs();
    let all: Vec<f64> = points.iter().map(relative).collect();
    (super::figure::median(&all), all.iter().copied().fold(0.0, f64::max))
}

/// Runs this module's checks under `cargo test`: fitting the model's own output recovers the model.
pub fn check() {
    let truth = Fit {
        processors: 2.0,
        save: [0.5, 0.1, 0.08, 0.12],
        rebuild: [0.2, 0.05, 0.07, 0.1],
        errors: [(0.0, 0.0); 2],
    };
    let mut points = Vec::new();
    for (mib, pes, group, parity) in
        [(1.0, 4, 4, 1), (64.0, 4, 4, 1), (16.0, 8, 8, 2), (16.0, 16, 8, 3), (256.0, 3, 3, 1)]
    {
        let mut point = Point { mib, pes, group, parity, save: 0.0, rebuild: 0.0 };
        (point.save, point.rebuild) = truth.at(&point);
        points.push(point);
    }
    let found = Fit::of(&points, 2);
    for (found, true_) in [(found.save, truth.save), (found.rebuild, truth.rebuild)] {
        for (a, b) in found.iter().zip(true_) {
            assert!((a - b).abs() < 1e-6, "{found:?} for {true_:?}");
        }
    }
    assert!(found.errors[0].1 < 1e-6);
}
