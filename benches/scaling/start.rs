//! How long a job takes that only starts, meets in a barrier and ends, against the number of PEs.
//!
//! The PEs share the processors of this machine, so the best that can be is in proportion to their
//! number. The exponent is the slope of a line through the logarithms of number and time.

use std::fmt::Write as _;
use std::time::Instant;

use super::figure;
use super::programs::{Bench, Trouble};

/// Jobs of each size; the middle one counts.
const JOBS: usize = 3;
/// What a PE's heap takes of addresses: as much as it can be had of in large jobs.
const HEAP: &str = "1M";

/// The slope of a line through the logarithms of the points.
fn exponent(points: &[(usize, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.iter().map(|&(pes, seconds)| ((pes as f64).ln(), seconds.ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    over / logs.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

/// Measures the curve, prints it, and gives it back as a table.
pub fn curve(bench: &Bench) -> Result<String, Trouble> {
    let program = bench.compile("benches/start.c")?;
    let sizes: &[usize] = if bench.quick { &[16, 32, 64] } else { &[64, 128, 256, 512, 1024] };
    let mut points = Vec::new();
    let mut csv = String::from("pes,seconds\n");
    for &pes in sizes {
        let mut times = Vec::new();
        for _ in 0..JOBS {
            let begun = Instant::now();
            bench.job(pes, &[("SHMEM_SYMMETRIC_SIZE", HEAP)], &[], &program, &[])?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let seconds = figure::median(&times);
        println!("start   {pes:>5} PEs: {seconds:.3} s");
        let _ = writeln!(csv, "{pes},{seconds:.4}");
        points.push((pes, seconds));
    }
    println!("start   the exponent is {:.2}", exponent(&points));
    let _ = writeln!(csv, "exponent,{:.3}", exponent(&points));
    Ok(csv)
}

/// Points on a power law have its exponent.
pub fn check() {
    let points = [16, 64, 256].map(|pes| (pes, 0.002 * (pes as f64).powf(1.25)));
    assert!((exponent(&points) - 1.25).abs() < 1e-9, "{}", exponent(&points));
}
