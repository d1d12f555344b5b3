//! Checkpoints, rebuilds and their memory, compared with plain copies by the same PEs.

use std::path::PathBuf;

use super::figure::{Figure, median};
use super::programs::{Bench, Trouble, millis_of_rebuild, value};

const MEMCPY: &str = "memcpy by the same PEs";

struct Program<'a> {
    bench: &'a Bench,
    path: PathBuf,
    mib: String,
}

type Mode<'a> = &'a [(&'a str, &'a str)];

const NONE: Mode = &[("SHMEM_FT_BACKUP_MODE", "none")];
const RAID5: Mode = &[("SHMEM_FT_BACKUP_MODE", "raid5")];
const SMALL: Mode = &[("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_PAGES", "small")];
const TWO: Mode = &[("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_SNAPSHOTS", "2")];
const BARE: Mode = &[("SHMEM_FT_BACKUP_MODE", "raid5"), ("SHMEM_FT_CHECKSUM", "0")];
const DOUBLE: Mode = &[("SHMEM_FT_BACKUP_MODE", "double")];
const RS2: Mode = &[("SHMEM_FT_BACKUP_MODE", "rs"), ("SHMEM_FT_PARITY", "2")];

impl Program<'_> {
    /// Alternates checkpoints and copies, in rounds as the program's usage defines. Returns its
    /// output.
    fn save(&self, pes: usize, mode: Mode, rounds: &str) -> Result<String, Trouble> {
        self.job(pes, mode, &["save", &self.mib, rounds])
    }

    fn job(&self, pes: usize, mode: Mode, words: &[&str]) -> Result<String, Trouble> {
        self.bench.job(pes, &self.settings(mode), &[], &self.path, words)
    }

    fn settings<'a>(&'a self, mode: Mode<'a>) -> Vec<(&'a str, &'a str)> {
        [mode, &[("SHMEM_SYMMETRIC_SIZE", "1G"), ("SHMEM_FT_REPORT", "1")]].concat()
    }
}

/// Returns the time of checkpoints relative to the copies between them: whatever slows a job slows
/// both.
fn over_copy(text: &str) -> Result<f64, Trouble> {
    Ok(value(text, "checkpoint_ms")? / value(text, "copy_ms")?)
}

/// Returns checkpoints of a few changed blocks relative to full ones, each relative to its copies.
fn over_all(text: &str) -> Result<f64, Trouble> {
    Ok(value(text, "dirty_ms")? / value(text, "dirty_copy_ms")? / over_copy(text)?)
}

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let path = bench.compile("benches/checkpoint.c")?;
    let mib = if bench.quick { "64" } else { "256" }.to_owned();
    let program = Program { bench, path, mib };
    let mut figures = four(&program)?;
    let mut rs = Vec::new();
    for _ in 0..bench.rounds() {
        let one = over_copy(&program.save(6, RAID5, "3")?)?;
        rs.push(over_copy(&program.save(6, RS2, "3")?)? / one);
    }
    figures.push(Figure::at_most("checkpoint, rs m=2 / raid5, 6 PEs", 1.5, &rs, "raid5"));
    figures.extend(memory(&program)?);
    figures.push(shadow_table(&program)?);
    figures.extend(losses(&program)?);
    Ok(figures)
}

/// Measures raid5 on 4 PEs against memcpy; in the same rounds with two snapshots, without
/// checksums, and as full copies.
fn four(program: &Program) -> Result<Vec<Figure>, Trouble> {
    let (mut full, mut first, mut dirty) = (Vec::new(), Vec::new(), Vec::new());
    let (mut double, mut summed, mut small) = (Vec::new(), Vec::new(), Vec::new());
    let (mut two, mut two_double) = (Vec::new(), Vec::new());
    for _ in 0..program.bench.rounds() {
        let text = program.save(4, RAID5, "5+5")?;
        let one = over_copy(&text)?;
        full.push(one);
        first.push(value(&text, "first_ms")? / value(&text, "checkpoint_ms")?);
        dirty.push(over_all(&text)?);
        small.push(over_all(&program.save(4, SMALL, "5+5")?)?);
        two.push(over_copy(&program.save(4, TWO, "5")?)?);
        let copies = over_copy(&program.save(4, DOUBLE, "5")?)?;
        double.push(one / copies);
        two_double.push(two.last().expect("of this round") / copies);
        summed.push(one / over_copy(&program.save(4, BARE, "5")?)?);
    }
    let changed = |pages| format!("checkpoint, 5 % of blocks changed / all, {pages} pages");
    let name = |what: &str| format!("checkpoint, {what} / memcpy, 4 PEs x {} MiB", program.mib);
    Ok(vec![
        Figure::at_most(&name("raid5"), 1.3, &full, MEMCPY).with_limit(5.0 / 3.0),
        Figure::at_most(&name("two snapshots"), 1.3, &two, MEMCPY).with_limit(7.0 / 6.0),
        Figure::at_most("first checkpoint / later ones", 1.2, &first, "raid5"),
        Figure::at_most(&changed("huge"), 0.15, &dirty, "raid5"),
        Figure::at_most(&changed("small"), 0.15, &small, "raid5"),
        Figure::at_most("checkpoint, raid5 / double, 4 PEs", 0.75, &double, "double")
            .with_limit(5.0 / 6.0),
        Figure::at_most("checkpoint, two snapshots / double, 4 PEs", 0.75, &two_double, "double")
            .with_limit(7.0 / 12.0),
        Figure::at_most("checkpoint, checksums on / off", 1.05, &summed, "raid5 without them"),
    ])
}

/// Measures the memory held with groups of 4 and 8.
fn memory(program: &Program) -> Result<Vec<Figure>, Trouble> {
    let figure = |what: &str, (mode, pes): (Mode, usize), word: &str, limit: f64, goal: f64| {
        let name = format!("extra bytes / live bytes, {what}, groups of {pes}");
        let extra = extra(program, (mode, pes), word)?;
        Ok(Figure::at_most(&name, goal, &[extra], "the kernel").with_limit(limit))
    };
    let all = |what: &str, mode: Mode, pes: usize, snapshots: f64| {
        let limit = snapshots + 2.0 / (pes as f64 - 1.0);
        figure(what, (mode, pes), "save", limit, ((100.0 * limit).ceil() + 3.0) / 100.0)
    };
    // One slot of parity over the table, a snapshot of the rest and two slots over that.
    let table = |pes: usize, goal: f64| {
        let parity = 1.0 / (pes as f64 - 1.0);
        let limit = 0.95 * parity + 0.05 * (1.0 + 2.0 * parity);
        figure("95 % read-only", (RAID5, pes), "table", limit, goal)
    };
    Ok(vec![
        all("raid5", RAID5, 4, 1.0)?,
        all("raid5", RAID5, 8, 1.0)?,
        all("two snapshots", TWO, 4, 2.0)?,
        table(4, 0.45)?,
        table(8, 0.25)?,
    ])
}

/// Measures checkpoints of a twentieth of memory next to a read-only table, relative to those of
/// that data alone.
fn shadow_table(program: &Program) -> Result<Figure, Trouble> {
    let alone = (program.mib.parse::<usize>().map_err(Trouble::new)? / 20).to_string();
    let mut rounds = Vec::new();
    for _ in 0..program.bench.rounds() {
        let with = over_copy(&program.job(4, RAID5, &["table", &program.mib, "21"])?)?;
        rounds.push(with / over_copy(&program.job(4, RAID5, &["save", &alone, "21"])?)?);
    }
    let name = "checkpoint, 95 % read-only / the other 5 % alone";
    Ok(Figure::at_most(name, 1.1, &rounds, "raid5"))
}

/// Returns the memory that the PEs hold beyond a job without protection, relative to the live data.
fn extra(program: &Program, (mode, pes): (Mode, usize), word: &str) -> Result<f64, Trouble> {
    let of = |mode: Mode| program.job(pes, mode, &[word, &program.mib, "1"]);
    let (protected, plain) = (of(mode)?, of(NONE)?);
    Ok((last_share(&protected)? - last_share(&plain)?) / value(&protected, "live_mib")?)
}

/// Returns the memory of all PEs after their checkpoints, in MiB.
fn last_share(text: &str) -> Result<f64, Trouble> {
    let last = text.lines().rfind(|line| line.starts_with("pss_mib "));
    value(last.unwrap_or_default(), "pss_mib")
}

/// Measures a process whose memory is adopted, and a node whose PE is rebuilt, until new groups
/// protect all.
fn losses(program: &Program) -> Result<Vec<Figure>, Trouble> {
    let (mut back, mut rebuilt, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..program.bench.rounds() {
        let text = lose(program, "process", &[])?;
        back.push(value(&text, "swept_at_ms")? - value(&text, "died_at_ms")?);
        let text = lose(program, "node", &["--nodes", "4", "--kill-node", "1@2"])?;
        let took = text.lines().filter_map(millis_of_rebuild).collect::<Vec<_>>();
        if took.len() != 1 {
            return Err(Trouble::new(format!("one PE rebuilt, not {}: {text}", took.len())));
        }
        rebuilt.push(median(&took) / value(&text, "copy_ms")?);
        again.push(value(&text, "protected_at_ms")? - value(&text, "agreed_at_ms")?);
    }
    let name = format!("rebuild of a PE, {} MiB / memcpy", program.mib);
    Ok(vec![
        Figure::at_most(&name, 3.0, &rebuilt, "memcpy by one process").with_limit(1.5),
        Figure::at_most("death of a process to the first sweep, ms", 50.0, &back, "-"),
        Figure::at_most("loss of a node until any next one is survived, ms", 1000.0, &again, "-"),
    ])
}

fn lose(program: &Program, what: &str, launch: &[&str]) -> Result<String, Trouble> {
    let words = ["lose", &program.mib, what];
    let settings = program.settings(RAID5);
    program.bench.job(4, &settings, launch, &program.path, &words)
}
