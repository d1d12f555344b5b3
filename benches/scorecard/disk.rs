//! Checkpoints on disk: their bandwidth, with and without parity, compared with `dd` of the same
//! bytes with the same flags; their cost to a program; the time to resume a job from them, compared
//! with reading the files, and with reading them into fresh memory.
//!
//! The written data was just produced in memory and goes to the disk of the target folder. Without
//! the privilege to drop the page cache, files are only read from it, on both sides.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::figure::Figure;
use super::programs::{Bench, Trouble, output, value};

const PES: usize = 4;
const RAID5: (&str, &str) = ("SHMEM_FT_BACKUP_MODE", "raid5");

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let program = bench.compile("benches/flush.c")?;
    let store = Store(bench.target().join("scorecard").join("store"));
    let empty = Store(store.0.with_extension("empty"));
    let (mut shared, mut local) = (Vec::new(), Vec::new());
    let (mut read, mut cached, mut uncached) = (Vec::new(), Vec::new(), Vec::new());
    empty.clear();
    written(bench, &program, &empty, "1")?;
    for _ in 0..bench.rounds() {
        store.clear();
        local.push(flush(bench, &program, &store, "local")?);
        store.clear();
        shared.push(flush(bench, &program, &store, "shared")?);
        let resume = Resume { bench, program: &program, store: &store, empty: &empty };
        cached.push(resume.measure(Cache::Warm)?.into_memory);
        if cold() {
            let cold = resume.measure(Cache::Cold)?;
            uncached.push(cold.into_memory);
            read.push(cold.only_read);
        }
    }
    store.clear();
    empty.clear();
    let peer = "dd conv=fsync of the same files";
    let mut figures = vec![
        Figure::at_least("set on disk, bandwidth / dd", 0.9, &shared, peer),
        Figure::at_least("set with parity files, bandwidth / dd", 0.9, &local, peer),
    ];
    if !read.is_empty() {
        figures.push(Figure::at_most("resume from disk / reading the files", 1.2, &read, "cat"));
        let name = "resume / cat to fresh memory, not cached";
        figures.push(Figure::at_most(name, 1.5, &uncached, "cat, one a PE, to a tmpfs"));
    }
    let name = "resume / cat to fresh memory, cached";
    figures.push(Figure::at_most(name, 1.5, &cached, "cat, one a PE, to a tmpfs"));
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
    if bench.quick { "32" } else { "64" }
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

/// Makes a set of a job with `mib` MiB of data on each PE.
fn written(bench: &Bench, program: &Path, store: &Store, mib: &str) -> Result<(), Trouble> {
    let (folder, manifest) = (store.text(), store.0.join("set-1/manifest"));
    let settings = [
        RAID5,
        ("SHMEM_SYMMETRIC_SIZE", "512M"),
        ("SHMEM_FT_STORE", &folder),
        ("SHMEM_FT_STORE_EVERY", "1"),
    ];
    bench.job(PES, &settings, &[], program, &[mib, &manifest.display().to_string()]).map(|_| ())
}

/// The state of the page cache before each side.
#[derive(Clone, Copy)]
enum Cache {
    Warm,
    Cold,
}

/// The time to resume, relative to that of two peers.
struct Ratios {
    into_memory: f64,
    only_read: f64,
}

/// Jobs that resume from a set and from one of next to nothing.
struct Resume<'a> {
    bench: &'a Bench,
    program: &'a Path,
    store: &'a Store,
    empty: &'a Store,
}

impl Resume<'_> {
    /// Returns the time to resume from the set, without that of an empty job, relative to that of
    /// `cat` of its files, one for each PE at once, to fresh memory, and of one `cat` of all to
    /// nowhere. The job populates fresh memory, 2.7 times the size of the files: snapshots, live
    /// memory, and parity. A host that reclaims free pages takes longer to give them than to read
    /// the files (`notes.md`), so each side follows a job that has just freed as many.
    fn measure(&self, cache: Cache) -> Result<Ratios, Trouble> {
        let job = |store: &Store| {
            self.prepare(cache)?;
            let (begun, given) = (Instant::now(), ["--resume", &store.text()]);
            self.bench.job(PES, &[RAID5], &given, self.program, &["0", "none"])?;
            Ok(begun.elapsed().as_secs_f64())
        };
        job(self.store)?;
        let whole = job(self.store)?;
        let took = whole - job(self.empty)?;
        self.prepare(cache)?;
        let begun = Instant::now();
        let copies = self.copies();
        let done: Vec<_> = copies.into_iter().map(|it| it.and_then(|mut cat| cat.wait())).collect();
        let into_memory = begun.elapsed().as_secs_f64();
        (0..PES).for_each(|pe| _ = std::fs::remove_file(copy_of(pe)));
        if !done.iter().all(|it| it.as_ref().is_ok_and(|status| status.success())) {
            return Err(Trouble::new("cat to /dev/shm failed"));
        }
        self.prepare(cache)?;
        let begun = Instant::now();
        output(Command::new("cat").args(self.store.files()).stdout(Stdio::null()))?;
        let only_read = begun.elapsed().as_secs_f64();
        Ok(Ratios { into_memory: took / into_memory, only_read: took / only_read })
    }

    /// Starts to copy the file of each PE to memory.
    fn copies(&self) -> Vec<std::io::Result<Child>> {
        let copy = |pe: usize| {
            let file = self.store.0.join(format!("set-1/pe-{pe}"));
            Command::new("cat").arg(file).stdout(File::create(copy_of(pe))?).spawn()
        };
        (0..PES).map(copy).collect()
    }

    /// Brings the page cache into a state.
    fn prepare(&self, cache: Cache) -> Result<(), Trouble> {
        match cache {
            Cache::Cold => _ = cold(),
            Cache::Warm => {
                output(Command::new("cat").args(self.store.files()).stdout(Stdio::null()))?;
            }
        }
        Ok(())
    }
}

/// Returns the path of the copy of a PE's file in memory.
fn copy_of(pe: usize) -> PathBuf {
    PathBuf::from(format!("/dev/shm/raidshmem-scorecard-{}-{pe}", std::process::id()))
}

/// Drops the page cache; returns false if that is not permitted.
fn cold() -> bool {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// Returns the seconds of Jacobi on two PEs with a set of 256 MiB every 2.5 seconds, relative to a
/// run without. Checkpoints are as far apart, so that a disk of 100 MiB a second can follow.
fn jacobi(bench: &Bench, store: &Store) -> Result<Figure, Trouble> {
    let program = bench.compile("examples/jacobi.c")?;
    let words = ["--bytes", "128M", "--sweeps", "512", "--halo", "16"];
    let given = [RAID5, ("SHMEM_SYMMETRIC_SIZE", "512M"), ("SHMEM_FT_INTERVAL", "2.5")];
    let mut slowed = Vec::new();
    for _ in 0..bench.rounds() {
        let run = |more: &[(&str, &str)]| {
            let text = bench.job(2, &[&given, more].concat(), &[], &program, &words)?;
            let word = text.split_whitespace().find_map(|word| word.strip_prefix("seconds="));
            let word = word.ok_or(Trouble::new(format!("jacobi printed {text:?}")))?;
            word.parse::<f64>().map_err(Trouble::new)
        };
        let plain = run(&[])?;
        let folder = store.text();
        slowed.push(run(&[("SHMEM_FT_STORE", &folder), ("SHMEM_FT_STORE_EVERY", "2.5s")])? / plain);
        if !store.files().iter().any(|file| file.ends_with("manifest")) {
            return Err(Trouble::new("Jacobi ended before a set was on disk"));
        }
        store.clear();
    }
    let name = "Jacobi of 128M, a set every 2.5 s / none";
    Ok(Figure::at_most(name, 1.03, &slowed, "raid5 without a disk"))
}
