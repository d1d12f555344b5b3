//! Checkpoints, rebuilds and their memory, beside plain copies by the same PEs at the same time.

use std::path::PathBuf;

use super::figure::{Figure, median, ratios};
use super::programs::{Bench, Trouble, millis_of_rebuild, value};

const MEMCPY: &str = "memcpy by the same PEs";

struct Program<'a> {
    bench: &'a Bench,
    path: PathBuf,
    mib: String,
}

impl Program<'_> {
    /// Saves in turns with copies; what the program printed.
    fn save(&self, pes: usize, mode: &[(&str, &str)], rounds: usize) -> Result<String, Trouble> {
        let words = ["save", &self.mib, &rounds.to_string()];
        self.bench.job(pes, &self.settings(mode), &[], &self.path, &words)
    }

    fn settings<'a>(&'a self, mode: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        [mode, &[("SHMEM_SYMMETRIC_SIZE", "1G"), ("SHMEM_FT_REPORT", "1")]].concat()
    }

    /// The quotient of two lines, each round in a job of its own.
    fn quotient(
        &self,
        pes: usize,
        above: &[(&str, &str)],
        below: &[(&str, &str)],
    ) -> Result<Vec<f64>, Trouble> {
        let (mut over, mut under) = (Vec::new(), Vec::new());
        for _ in 0..self.bench.rounds() {
            over.push(value(&self.save(pes, above, 3)?, "checkpoint_ms")?);
            under.push(value(&self.save(pes, below, 3)?, "checkpoint_ms")?);
        }
        Ok(ratios(&over, &under))
    }
}

const NONE: &[(&str, &str)] = &[("SHMEM_FT_BACKUP_MODE", "none")];
const RAID5: &[(&str, &str)] = &[("SHMEM_FT_BACKUP_MODE", "raid5")];
const DOUBLE: &[(&str, &str)] = &[("SHMEM_FT_BACKUP_MODE", "double")];
const RS2: &[(&str, &str)] = &[("SHMEM_FT_BACKUP_MODE", "rs"), ("SHMEM_FT_PARITY", "2")];

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let path = bench.compile("benches/checkpoint.c")?;
    let mib = if bench.quick { "64" } else { "256" }.to_owned();
    let program = Program { bench, path, mib };
    let mut figures = one_mode(&program)?;
    let doubles = program.quotient(4, RAID5, DOUBLE)?;
    figures.push(Figure::at_most("checkpoint, raid5 / double, 4 PEs", 0.75, &doubles, "double"));
    let rs = program.quotient(6, RS2, RAID5)?;
    figures.push(Figure::at_most("checkpoint, rs m=2 / raid5, 6 PEs", 1.5, &rs, "raid5"));
    figures.extend(losses(&program)?);
    Ok(figures)
}

/// raid5 on 4 PEs beside memcpy, and what it costs in memory with groups of 4 and 8.
fn one_mode(program: &Program) -> Result<Vec<Figure>, Trouble> {
    let (mut full, mut first, mut dirty) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..program.bench.rounds() {
        let text = program.save(4, RAID5, 7)?;
        let of = |name: &str| value(&text, name);
        full.push(of("checkpoint_ms")? / of("copy_ms")?);
        first.push(of("first_ms")? / of("checkpoint_ms")?);
        dirty.push(of("dirty_ms")? / of("checkpoint_ms")?);
    }
    let name = format!("checkpoint, raid5 / memcpy, 4 PEs x {} MiB", program.mib);
    let rounds = 0..program.bench.rounds();
    let four = rounds.map(|_| extra(program, 4)).collect::<Result<Vec<_>, _>>()?;
    let eight = extra(program, 8)?;
    Ok(vec![
        Figure::at_most(&name, 1.3, &full, MEMCPY),
        Figure::at_most("first checkpoint / later ones", 1.2, &first, "raid5"),
        Figure::at_most("checkpoint, 5 % of blocks changed / all", 0.15, &dirty, "raid5"),
        Figure::at_most("extra bytes / live bytes, raid5, groups of 4", 1.70, &four, "the kernel")
            .with_limit(1.0 + 2.0 / 3.0),
        Figure::at_most(
            "extra bytes / live bytes, raid5, groups of 8",
            1.32,
            &[eight],
            "the kernel",
        )
        .with_limit(1.0 + 2.0 / 7.0),
    ])
}

/// What the PEs hold beyond those of a job without protection, over what is saved. The store is
/// touched as the heap grows, so a job cannot be compared with itself.
fn extra(program: &Program, pes: usize) -> Result<f64, Trouble> {
    let protected = program.save(pes, RAID5, 1)?;
    let plain = program.save(pes, NONE, 1)?;
    Ok((last_share(&protected)? - last_share(&plain)?) / value(&protected, "live_mib")?)
}

/// What all PEs held after their checkpoints, in MiB.
fn last_share(text: &str) -> Result<f64, Trouble> {
    let last = text.lines().rfind(|line| line.starts_with("pss_mib "));
    value(last.unwrap_or_default(), "pss_mib")
}

/// A process whose memory is adopted, and a node whose PE is rebuilt.
fn losses(program: &Program) -> Result<Vec<Figure>, Trouble> {
    let (mut back, mut rebuilt) = (Vec::new(), Vec::new());
    for _ in 0..program.bench.rounds() {
        let text = lose(program, "process", &[])?;
        back.push(value(&text, "swept_at_ms")? - value(&text, "died_at_ms")?);
        let text = lose(program, "node", &["--nodes", "4", "--kill-node", "1@2"])?;
        let took = text.lines().filter_map(millis_of_rebuild).collect::<Vec<_>>();
        if took.len() != 1 {
            return Err(Trouble::new(format!("one PE rebuilt, not {}: {text}", took.len())));
        }
        rebuilt.push(median(&took) / value(&text, "copy_ms")?);
    }
    let name = format!("rebuild of a PE, {} MiB / memcpy", program.mib);
    Ok(vec![
        Figure::at_most(&name, 3.0, &rebuilt, "memcpy by one process").with_limit(1.5),
        Figure::at_most("death of a process to the first sweep, ms", 50.0, &back, "-"),
    ])
}

fn lose(program: &Program, what: &str, launch: &[&str]) -> Result<String, Trouble> {
    let words = ["lose", &program.mib, what];
    let settings = program.settings(RAID5);
    program.bench.job(4, &settings, launch, &program.path, &words)
}
