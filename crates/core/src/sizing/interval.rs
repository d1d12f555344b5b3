//! Checkpoint intervals after Young and after Daly, and their cost.
//!
//! Losses are random, `mtbf` seconds apart on average; a checkpoint takes `cost` seconds and a
//! recovery `recovery` seconds, and a further loss restarts the recovery. All times in seconds.
//! Pure.
//!
//! Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM
//! 17(9), 1974; J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
//! dumps", FGCS 22(3), 2006, equations 20 and 37.

/// Returns the seconds of work between two checkpoints after Young: the first-order formula,
/// accurate while `cost` is much smaller than `mtbf`.
pub fn young(cost: f64, mtbf: f64) -> f64 {
    (2.0 * cost * mtbf).sqrt()
}

/// Returns the seconds of work between two checkpoints after Daly; `mtbf` if a checkpoint takes
/// half of that or more.
pub fn daly(cost: f64, mtbf: f64) -> f64 {
    if cost >= mtbf / 2.0 {
        return mtbf;
    }
    let ratio = cost / (2.0 * mtbf);
    young(cost, mtbf) * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost
}

/// Returns the expected time of a run relative to its time without checkpoints and losses, with a
/// checkpoint after every `interval` seconds of work. Exact for memoryless losses.
pub fn stretch(interval: f64, cost: f64, recovery: f64, mtbf: f64) -> f64 {
    mtbf / interval * (recovery / mtbf).exp() * ((interval + cost) / mtbf).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn daly_is_young_for_cheap_checkpoints() {
        let (cost, mtbf) = (0.01, 1e6);
        assert!((daly(cost, mtbf) / young(cost, mtbf) - 1.0).abs() < 1e-3);
        assert_eq!(daly(60.0, 100.0), 100.0);
    }

    #[test]
    fn no_interval_is_much_better_than_that_of_daly() {
        for (cost, mtbf) in [(1.0, 1e5), (10.0, 3600.0), (60.0, 1800.0), (300.0, 6000.0)] {
            let at = |interval: f64| stretch(interval, cost, 2.0 * cost, mtbf);
            let daly = at(daly(cost, mtbf));
            let best = (1..2000).map(|step| at(mtbf * f64::from(step) / 1000.0));
            let best = best.fold(f64::INFINITY, f64::min);
            assert!(daly <= best * 1.003, "{cost} {mtbf}: {daly} and {best}");
        }
    }

    /// Without losses only the checkpoints cost time.
    #[test]
    fn reliable_machines_pay_for_checkpoints_only() {
        assert!((stretch(90.0, 10.0, 100.0, 1e12) - 100.0 / 90.0).abs() < 1e-6);
    }

    /// Runs a job repeatedly, with random losses.
    #[test]
    fn the_expectation_is_what_runs_take() {
        for (interval, cost, recovery, mtbf) in
            [(100.0, 10.0, 20.0, 400.0), (50.0, 5.0, 100.0, 150.0), (300.0, 1.0, 1.0, 5000.0)]
        {
            let mut random = Random::new(7);
            let (mut time, segments) = (0.0, 200_000);
            for _ in 0..segments {
                loop {
                    let loss = random.exponential(mtbf);
                    if loss >= interval + cost {
                        time += interval + cost;
                        break;
                    }
                    time += loss;
                    loop {
                        let again = random.exponential(mtbf);
                        time += again.min(recovery);
                        if again >= recovery {
                            break;
                        }
                    }
                }
            }
            let found = time / (f64::from(segments) * interval);
            let expected = stretch(interval, cost, recovery, mtbf);
            assert!((found / expected - 1.0).abs() < 0.01, "{found} for {expected}");
        }
    }
}
