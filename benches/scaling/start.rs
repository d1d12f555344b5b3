//! The time of a job that only starts, meets in a barrier and ends, against the number of PEs.
//!
//! The PEs share the processors of this machine, so at best the time is proportional to their
//! number. The exponent is the slope of a line through the logarithms of number and time.
//!
//! The program is also measured under Open MPI's OpenSHMEM, built with its wrapper, size by size,
//! up to the first size that it does not complete within [`PATIENCE`]; a message gives the reason.
//! If Open MPI is not installed, the column is empty.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use super::figure;
use super::peer::Peer;
use super::programs::{Bench, Trouble, output};

const SOURCE: &str = "benches/start.c";
/// Jobs of each size; the median counts.
const JOBS: usize = 3;
/// Address space of a PE's heap: as much as large jobs can get.
const HEAP: &str = "1M";
/// Time limit of an Open MPI job, in seconds.
const PATIENCE: &str = "120";

/// Returns the median time of `job`, in seconds.
fn seconds(mut job: impl FnMut() -> Result<String, Trouble>) -> Result<f64, Trouble> {
    let mut times = Vec::new();
    for _ in 0..JOBS {
        let begun = Instant::now();
        job()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(figure::median(&times))
}

/// Returns the slope of a line through the logarithms of the points.
fn exponent(points: &[(usize, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.iter().map(|&(pes, seconds)| ((pes as f64).ln(), seconds.ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let over: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    over / logs.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

/// Returns Open MPI and the program that it runs.
fn peer(bench: &Bench) -> Result<(Peer, PathBuf), Trouble> {
    let peer = Peer::find()?;
    let program = peer.compile(bench, SOURCE, "start_peer")?;
    Ok((peer, program))
}

/// Measures the curves, prints them, and returns them as a table.
pub fn curve(bench: &Bench) -> Result<String, Trouble> {
    let program = bench.compile(SOURCE)?;
    let mut peer = peer(bench).map_err(|why| println!("start   Open MPI: {why}")).ok();
    let sizes: &[usize] = if bench.quick { &[16, 32, 64] } else { &[64, 128, 256, 512, 1024] };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut csv = String::from("pes,seconds,open_mpi_seconds\n");
    for &pes in sizes {
        let settings = [("SHMEM_SYMMETRIC_SIZE", HEAP)];
        let own = seconds(|| bench.job(pes, &settings, &[], &program, &[]))?;
        println!("start   {pes:>5} PEs: {own:.3} s");
        ours.push((pes, own));
        let _ = write!(csv, "{pes},{own:.4},");
        if let Some((launcher, program)) = &peer {
            let before = ["timeout", "-s", "KILL", PATIENCE];
            let job = || launcher.job(&before, pes, program);
            match seconds(|| output(job().env("SHMEM_SYMMETRIC_SIZE", HEAP))) {
                Ok(other) => {
                    println!("start   {pes:>5} PEs, Open MPI: {other:.3} s");
                    theirs.push((pes, other));
                    let _ = write!(csv, "{other:.4}");
                }
                Err(why) => {
                    println!("start   {pes:>5} PEs, Open MPI: {why}");
                    peer = None;
                }
            }
        }
        csv.push('\n');
    }
    let slope = |points: &[(usize, f64)]| match points.len() {
        0 | 1 => String::new(),
        _ => format!("{:.3}", exponent(points)),
    };
    println!("start   the exponent is {}, Open MPI's {}", slope(&ours), slope(&theirs));
    let _ = writeln!(csv, "exponent,{},{}", slope(&ours), slope(&theirs));
    Ok(csv)
}

/// Checks that points on a power law have its exponent.
pub fn check() {
    let points = [16, 64, 256].map(|pes| (pes, 0.002 * (pes as f64).powf(1.25)));
    assert!((exponent(&points) - 1.25).abs() < 1e-9, "{}", exponent(&points));
}
