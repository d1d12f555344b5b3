//! One run of Jacobi, by the lines of `jacobi.c`, and the thesis' model of such runs. Pure.
//!
//! ```text
//! T_b   time of a checkpoint, from call to return: the mean, without the first checkpoint
//! T_s   time of a step, from the end of a checkpoint to the next call: the median; with local
//!       rollback, only the steps of the PE that rolls back
//! T_r   time of a recovery, from the failed call until all PEs compute again: the mean; with local
//!       rollback, until the lost PE computes again
//! T_ft  first + s T_b + f (T_r + T_s)     time spent on fault tolerance
//! O_ft  T_ft divided by the time of a run without faults
//! ```
//!
//! This follows the thesis, except for the first checkpoint, which takes its memory from the kernel
//! and is counted separately: in the thesis, that memory was allocated from the start. The model's
//! time of a run is that of one without protection, plus T_ft. Deaths occur at the entry of a
//! checkpoint, so that a whole step is repeated. The loop of the thesis takes a checkpoint right
//! after a restart; it is part of the recovery. With local rollback the other PEs wait in that
//! checkpoint, so it does not count in `s`: meanwhile the lost PE is restored and repeats its step,
//! on processors that the other PEs leave idle.

#![forbid(unsafe_code)]

use super::figure::median;
use super::programs::Trouble;

/// The times measured in one run, in seconds.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub checksum: String,
    /// The whole run, as the program itself measured it.
    pub total: f64,
    /// The first checkpoint that holds the arrays.
    first: f64,
    /// The checkpoints after it.
    checkpoints: Vec<f64>,
    /// Computing time between two calls, without the setup before and the sum after.
    steps: Vec<f64>,
    recoveries: Vec<f64>,
    /// Recoveries of a PE with local rollback.
    alone: Vec<f64>,
    /// Its repeated step, and the checkpoint in which the other PEs waited for it.
    again: Vec<f64>,
}

impl Run {
    /// Parses the program's output.
    pub fn of(text: &str) -> Result<Run, Trouble> {
        let field = |name: &str| {
            let word = text.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.ok_or_else(|| Trouble::new(format!("jacobi printed {text:?}")))
        };
        let total = field("seconds=")?.parse().map_err(Trouble::new)?;
        let mut run = Run { checksum: field("checksum=")?.to_owned(), total, ..Run::default() };
        let (mut since, mut failed) = (None, None);
        let backs: Vec<f64> =
            text.lines().filter_map(event).filter(|e| e.0 == "back").map(|e| e.1).collect();
        for (what, begun, ended) in text.lines().filter_map(event).filter(|e| e.0 != "back") {
            run.steps.extend(since.map(|since| begun - since));
            since = (what == "checkpoint").then_some(ended);
            match (what, failed) {
                ("fault", None) => failed = Some(begun),
                ("checkpoint", None) => {
                    match backs.iter().find(|back| (begun..ended).contains(back)) {
                        Some(back) => {
                            run.alone.push(back - begun);
                            run.again.push(ended - back);
                        }
                        None => run.checkpoints.push(ended - begun),
                    }
                }
                ("checkpoint", Some(begun)) => {
                    run.recoveries.push(ended - begun);
                    failed = None;
                }
                _ => {}
            }
        }
        // The first checkpoint holds nothing yet, and the second is the first of the arrays.
        if run.checkpoints.len() > 2 && run.steps.len() > 2 {
            run.first = run.checkpoints[1];
            run.checkpoints.drain(..2);
            run.steps.remove(0);
            run.steps.pop();
        }
        Ok(run)
    }

    pub fn t_b(&self) -> f64 {
        mean(&self.checkpoints)
    }

    /// Returns T_s; under local rollback, that of the lost PE only.
    pub fn t_s(&self) -> f64 {
        if self.again.is_empty() {
            return median(&self.steps);
        }
        (mean(&self.again) - self.t_b()).max(0.0)
    }

    pub fn t_r(&self) -> f64 {
        mean(&[&self.recoveries[..], &self.alone].concat())
    }

    /// Returns the number of timed recoveries: the faults of the run, if each occurred alone.
    pub fn faults(&self) -> usize {
        self.recoveries.len() + self.alone.len()
    }

    /// Returns the number of recoveries by local rollback.
    pub fn alone(&self) -> usize {
        self.alone.len()
    }

    /// Returns T_ft.
    pub fn overhead(&self) -> f64 {
        let saved = self.first + self.checkpoints.iter().sum::<f64>();
        let met = self.alone() as f64 * self.t_b();
        saved + met + self.faults() as f64 * (self.t_r() + self.t_s())
    }
}

fn event(line: &str) -> Option<(&str, f64, f64)> {
    let mut words = line.split(' ');
    let what = words.next().filter(|w| ["checkpoint", "fault", "restart", "back"].contains(w))?;
    Some((what, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let text = "checkpoint 0.0 0.1\ncheckpoint 1.0 1.3\nfault 2.3 2.4\nrestart 2.4 2.5\n\
        checkpoint 2.6 2.8\ncheckpoint 3.8 4.0\ncheckpoint 5.0 5.4\ncheckpoint 5.5 5.6\n\
        jacobi checksum=ab seconds=5.000000\n";
    let run = Run::of(text).expect("a run");
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} for {b}: {run:?}");
    assert_eq!((run.checksum.as_str(), run.faults()), ("ab", 1));
    near(run.t_b(), (0.2 + 0.4 + 0.1) / 3.0);
    near(run.t_s(), 1.0);
    near(run.t_r(), 0.5);
    near(run.overhead(), 0.3 + 0.7 + 0.5 + 1.0);
    let text = "checkpoint 0.0 0.1\ncheckpoint 1.0 1.3\nback 2.7 2.7\ncheckpoint 2.3 3.6\n\
        checkpoint 4.6 4.8\ncheckpoint 5.8 6.0\njacobi checksum=ab seconds=6.000000\n";
    let run = Run::of(text).expect("a run");
    assert_eq!((run.faults(), run.alone()), (1, 1));
    near(run.t_r(), 0.4);
    near(run.t_s(), 0.9 - 0.2);
    near(run.overhead(), 0.3 + 0.4 + 0.2 + 0.4 + 0.7);
    assert!(Run::of("jacobi checksum=ab").is_err(), "a run that does not say its time");
}
