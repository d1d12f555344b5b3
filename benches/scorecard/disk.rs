//! Checkpoints on disk: their bandwidth, with and without parity, compared with `dd` of the same
//! bytes with the same flags; their cost to a program; the time to resume a job from them, compared
//! with reading the files.
//!
//! The written data was just produced in memory and goes to the disk of the target folder. Without
//! the privilege to drop the page cache, files are read from it on both sides.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::figure::Figure;
use super::programs::{Bench, Trouble, output, value};

const PES: usize = 4;
const RAID5: (&str, &str) = ("SHMEM_FT_BACKUP_MODE", "raid5");

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("benches/flush.c")?;
    let store = Store(bench.target().join("scorecard").join("store"));
    let (mut shared, mut local, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds() {
        store.clear();
        local.push(flush(bench, &program, &store, "local")?);
        store.clear();
        shared.push(flush(bench, &program, &store, "shared")?);
        resumed.push(resume(bench, &program, &store)?);
    }
    store.clear();
    let peer = "dd conv=fsync of the same files";
    let mut figures = vec![
        Figure::at_least("set on disk, bandwidth / dd", 0.9, &shared, peer),
        Figure::at_least("set with parity files, bandwidth / dd", 0.9, &local, peer),
        Figure::at_most("resume from disk / reading the files", 1.2, &resumed, "cat"),
    ];
    figures.push(jacobi(bench, &store)?);
    Ok(figures)
}

/// The folder of checkpoint sets.
struct Store(PathBuf);

impl Store {
    fn text(&self) -> String {
        self.0.display().to_string()
    }

    fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }

    /// Returns the files of all sets in it.
    fn files(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.0.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

fn mib(bench: &Bench) -> &'static str {
    if bench.quick { "64" } else { "256" }
}

/// Returns the bandwidth of a set of all PEs relative to that of `dd`.
fn flush(bench: &Bench, program: &Path, store: &Store, layout: &str) -> Result<f64, Trouble> {
    let (folder, nodes) = match layout {
        "local" => (store.0.join("node-0"), "4"),
        _ => (store.0.clone(), "1"),
    };
    let settings = [
        RAID5,
        ("SHMEM_SYMMETRIC_SIZE", "512M"),
        ("SHMEM_FT_STORE", &store.text()),
        ("SHMEM_FT_STORE_EVERY", "1"),
        ("SHMEM_FT_STORE_LAYOUT", layout),
    ];
    let manifest = folder.join("set-1/manifest").display().to_string();
    let words = [mib(bench), &manifest];
    let text = bench.job(PES, &settings, &["--nodes", nodes], program, &words)?;
    let ours = value(&text, "flush_ms")?;
    let copy = store.0.join("copy").display().to_string();
    let begun = Instant::now();
    for file in store.files() {
        let (from, to) = (format!("if={}", file.display()), format!("of={copy}"));
        output(Command::new("dd").args([&from, &to, "bs=64K", "conv=fsync", "status=none"]))?;
    }
    let theirs = begun.elapsed().as_secs_f64() * 1e3;
    std::fs::remove_file(&copy).map_err(Trouble::new)?;
    Ok(theirs / ours)
}

/// Returns the time to resume from the set, without that of an empty job, relative to reading its
/// files. The job also populates fresh memory, 2.7 times the size of the files: snapshots, live
/// memory, and two slots of parity. If the host reclaims free pages, this dominates (`notes.md`).
fn resume(bench: &Bench, program: &Path, store: &Store) -> Result<f64, Trouble> {
    let empty = Store(store.0.with_extension("empty"));
    let written = |store: &Store, mib: &str| {
        let (folder, manifest) = (store.text(), store.0.join("set-1/manifest"));
        let settings = [
            RAID5,
            ("SHMEM_SYMMETRIC_SIZE", "512M"),
            ("SHMEM_FT_STORE", &folder),
            ("SHMEM_FT_STORE_EVERY", "1"),
        ];
        let words = [mib, &manifest.display().to_string()];
        bench.job(PES, &settings, &[], program, &words)
    };
    written(&empty, "1")?;
    let resumed = |store: &Store| {
        cold();
        let begun = Instant::now();
        bench.job(PES, &[RAID5], &["--resume", &store.text()], program, &["0", "none"])?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let took = resumed(store)? - resumed(&empty)?;
    empty.clear();
    cold();
    let begun = Instant::now();
    output(Command::new("cat").args(store.files()).stdout(std::process::Stdio::null()))?;
    Ok(took / begun.elapsed().as_secs_f64())
}

/// Drops the page cache, if permitted.
fn cold() {
    rustix::fs::sync();
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
}

/// Returns the seconds of Jacobi on two PEs with a set of 1 GiB every ten seconds, relative to a
/// run without.
fn jacobi(bench: &Bench, store: &Store) -> Result<Figure, Trouble> {
    let program = bench.compile("examples/jacobi.c")?;
    let (bytes, sweeps) = if bench.quick { ("128M", "512") } else { ("512M", "512") };
    let words = ["--bytes", bytes, "--sweeps", sweeps, "--halo", "16"];
    let mut slowed = Vec::new();
    for _ in 0..bench.rounds() {
        let run = |more: &[(&str, &str)]| {
            let all = [&[RAID5, ("SHMEM_SYMMETRIC_SIZE", "2G")], more].concat();
            let text = bench.job(2, &all, &[], &program, &words)?;
            let word = text.split_whitespace().find_map(|word| word.strip_prefix("seconds="));
            let word = word.ok_or(Trouble::new(format!("jacobi printed {text:?}")))?;
            word.parse::<f64>().map_err(Trouble::new)
        };
        let plain = run(&[])?;
        let folder = store.text();
        slowed.push(run(&[("SHMEM_FT_STORE", &folder), ("SHMEM_FT_STORE_EVERY", "10s")])? / plain);
        store.clear();
    }
    let name = format!("Jacobi of {bytes}, a set every 10 s / none");
    Ok(Figure::at_most(&name, 1.03, &slowed, "raid5 without a disk"))
}
