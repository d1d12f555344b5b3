//! The thesis' kernel: 64 MB, 4096 sweeps, halo 256, a checkpoint every 256 sweeps. A quick run
//! does 1024 sweeps, so that the start, when the store's pages are fresh, weighs four times as
//! much.

use std::path::Path;

use super::figure::Figure;
use super::programs::{Bench, Trouble};

const PES: usize = 4;
const HALO: usize = 256;

fn sweeps(bench: &Bench) -> usize {
    if bench.quick { 1024 } else { 4096 }
}

/// Returns the seconds of one run, as the program itself measured them, and its checksum.
fn run(
    bench: &Bench,
    program: &Path,
    mode: &str,
    launch: &[&str],
) -> Result<(f64, String), Trouble> {
    let (sweeps, halo) = (sweeps(bench).to_string(), HALO.to_string());
    let words = ["--bytes", "64M", "--sweeps", &sweeps, "--halo", &halo];
    let settings = [("SHMEM_FT_BACKUP_MODE", mode)];
    let text = bench.job(PES, &settings, launch, program, &words)?;
    let field = |name: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(name));
        word.ok_or(Trouble::new(format!("jacobi printed {text:?}")))
    };
    let seconds = field("seconds=")?.parse().map_err(Trouble::new)?;
    Ok((seconds, field("checksum=")?.to_owned()))
}

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("examples/jacobi.c")?;
    // The death follows the completion of a checkpoint: at most one interval is computed twice, and
    // that share of the time is subtracted.
    let (checkpoints, lost) = ((sweeps(bench) / HALO) as f64, 1.0);
    let (mut protected, mut faulty) = (Vec::new(), Vec::new());
    // Each of a round's three runs takes many seconds.
    for _ in 0..bench.rounds().min(5) {
        let (plain, sum) = run(bench, &program, "none", &[])?;
        let (raid5, same) = run(bench, &program, "raid5", &[])?;
        let kill = ["--kill", "1@3:before"];
        let (fault, again) = run(bench, &program, "raid5", &kill)?;
        if sum != same || sum != again {
            return Err(Trouble::new(format!("jacobi: {sum}, {same} and {again} are not one sum")));
        }
        protected.push(raid5 / plain);
        faulty.push(fault * checkpoints / (checkpoints + lost) / raid5);
    }
    Ok(vec![
        Figure::at_most("Jacobi, raid5 / none, no fault", 1.01, &protected, "mode none"),
        Figure::at_most("Jacobi, 1 fault / no fault, net", 1.02, &faulty, "raid5 without a fault"),
    ])
}
