//! Jobs that go on with fewer: two copies beside one, a displaced ring before and after a loss, and
//! the last checkpoint of a lost PE beside its rebuild.

use std::path::Path;

use super::figure::{Figure, median};
use super::programs::{Bench, Trouble, millis_of_rebuild, value};

const ON: [(&str, &str); 3] = [
    ("SHMEM_FT_SUBSTITUTE", "shrink"),
    ("SHMEM_FT_ROLLBACK", "none"),
    ("SHMEM_SYMMETRIC_SIZE", "1G"),
];
const RAID5: [(&str, &str); 2] =
    [("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_SYMMETRIC_SIZE", "1G")];

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("benches/fewer.c")?;
    let mut figures = twice(bench, &program)?;
    figures.extend(rings(bench, &program)?);
    figures.push(read(bench, &program)?);
    Ok(figures)
}

/// The update of two copies over a put and quiet to one, which take turns.
fn twice(bench: &Bench, program: &Path) -> Result<Vec<Figure>, Trouble> {
    let round = |_| bench.job(3, &ON, &[], program, &["twice"]);
    let rounds: Vec<String> = (0..bench.rounds()).map(round).collect::<Result<_, _>>()?;
    let figure = |(name, line): (&str, &str)| {
        let ratio = |text: &String| {
            Ok(value(text, &format!("put2_{line}_ns"))? / value(text, &format!("put_{line}_ns"))?)
        };
        let ratios = rounds.iter().map(ratio).collect::<Result<Vec<f64>, Trouble>>()?;
        let name = format!("{name} update of two copies / put and quiet");
        Ok(Figure::at_most(&name, 2.2, &ratios, "a put to one of them").with_limit(2.0))
    };
    [("8-byte", "8"), ("1 MiB", "1M")].into_iter().map(figure).collect()
}

/// Latencies in a ring after a loss over those before it, of a job of so many PEs.
fn rings(bench: &Bench, program: &Path) -> Result<Vec<Figure>, Trouble> {
    let sizes: &[usize] = if bench.quick { &[8] } else { &[8, 16, 32] };
    let mut figures = Vec::new();
    for &pes in sizes {
        let settings = [&ON[..2], &[("SHMEM_SYMMETRIC_SIZE", "4M")]].concat();
        let round = |_| bench.job(pes, &settings, &[], program, &["ring", "500"]);
        let rounds: Vec<String> = (0..bench.rounds()).map(round).collect::<Result<_, _>>()?;
        for (name, line) in [("put", "put"), ("get", "get"), ("accumulate", "acc")] {
            for (size, bytes) in [("8-byte", "8"), ("1 MiB", "1M")] {
                let ratio = |text: &String| {
                    let of = |when: &str| value(text, &format!("{when}_{line}_{bytes}_ns"));
                    Ok(of("fault")? / of("whole")?)
                };
                let ratios = rounds.iter().map(ratio).collect::<Result<Vec<f64>, Trouble>>()?;
                let name = format!("{size} {name} in a ring of {pes}, one fault / none");
                figures.push(Figure::at_most(&name, 1.1, &ratios, "the same before the loss"));
            }
        }
    }
    Ok(figures)
}

/// Bandwidth of the read over that of a rebuild of as many bytes.
fn read(bench: &Bench, program: &Path) -> Result<Figure, Trouble> {
    let mib = if bench.quick { "64" } else { "256" };
    let rebuilder = bench.compile("benches/checkpoint.c")?;
    let settings = [&ON[..], &RAID5[..1]].concat();
    let mut ratios = Vec::new();
    for _ in 0..bench.rounds() {
        let text = bench.job(4, &settings, &[], program, &["read", mib])?;
        let launch = ["--nodes", "4", "--kill-node", "1@2"];
        let told = [&RAID5[..], &[("SHMEM_FT_REPORT", "1")]].concat(); // with its time
        let lost = bench.job(4, &told, &launch, &rebuilder, &["lose", mib, "node"])?;
        let took: Vec<f64> = lost.lines().filter_map(millis_of_rebuild).collect();
        if took.is_empty() {
            return Err(Trouble::new(format!("no PE was rebuilt: {lost}")));
        }
        ratios.push(median(&took) / value(&text, "read_ms")?);
    }
    let name = format!("degraded read of {mib} MiB, bandwidth / rebuild");
    Ok(Figure::at_least(&name, 0.5, &ratios, "a rebuild of the same bytes"))
}
