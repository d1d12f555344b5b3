//! Checkpoints, recoveries and their memory, by `benches/checkpoint.c`.

use std::path::PathBuf;

use super::Size;
use super::programs::{Bench, Trouble, value};
use super::table::{Keys, Tables};

/// MiB per PE if the number of PEs varies.
pub const MIDDLE: usize = 32;

/// The protection modes, and the fewest PEs that each needs.
pub const MODES: [(&str, usize); 4] = [("single", 2), ("double", 2), ("raid5", 2), ("rs", 4)];

/// Returns the settings of a mode: two parities for `rs`; the suffix `-local` means local rollback.
pub fn settings(mode: &str) -> Vec<(&'static str, String)> {
    let parity = if mode == "rs" { "2" } else { "1" };
    let (mode, rollback) = mode.split_once('-').unwrap_or((mode, "global"));
    vec![
        ("SHMEM_FT_BACKUP_MODE", mode.to_owned()),
        ("SHMEM_FT_ROLLBACK", rollback.to_owned()),
        ("SHMEM_FT_PARITY", parity.to_owned()),
        ("SHMEM_FT_REPORT", "1".to_owned()),
    ]
}

/// The study of checkpoint and recovery against heap and PEs.
pub struct Study<'a> {
    bench: &'a Bench,
    program: PathBuf,
    /// MiB per PE, and number of PEs.
    points: Vec<(usize, usize)>,
    saves: &'static str,
}

impl Study<'_> {
    pub fn new(bench: &Bench, size: Size) -> Result<Study<'_>, Trouble> {
        let program = bench.compile("benches/checkpoint.c")?;
        let (heaps, pes, saves): (&[usize], &[usize], _) = match size {
            Size::Tiny => (&[2], &[2], "1"),
            Size::Quick => (&[16, 64, 256], &[2, 4, 8, 16], "3"),
            Size::Full => (&[16, 64, 256, 1024], &[2, 4, 8, 16, 32], "7"),
        };
        let heaps = heaps.iter().map(|&mib| (mib, 4));
        let points = heaps.chain(pes.iter().map(|&pes| (MIDDLE, pes)));
        Ok(Study { bench, program, points: points.filter(fits).collect(), saves })
    }

    /// Measures every point once.
    pub fn measure(&self, tables: &mut Tables) -> Result<(), Trouble> {
        for &(mib, pes) in &self.points {
            let plain = self.save("none", mib, pes)?;
            for (mode, fewest) in MODES {
                if pes < fewest {
                    continue;
                }
                let text = self.save(mode, mib, pes)?;
                let keys = keys(&[("mode", mode)], mib, pes);
                let time = |name: &'static str| value(&text, name).map(|ms| (name, ms));
                let times = [time("checkpoint_ms")?, time("first_ms")?, time("copy_ms")?];
                tables.add("checkpoint", &keys, &times);
                let held = last_share(&text)? - last_share(&plain)?;
                let live = value(&text, "live_mib")?;
                tables.add("memory", &keys, &[("times_live", 1.0 + held / live)]);
                self.losses(mode, mib, pes, tables)?;
            }
        }
        Ok(())
    }

    fn losses(
        &self,
        mode: &str,
        mib: usize,
        pes: usize,
        tables: &mut Tables,
    ) -> Result<(), Trouble> {
        for loss in ["process", "node"] {
            if loss == "node" && mode == "single" {
                continue; // it does not survive that
            }
            let nodes = pes.to_string();
            let launch = ["--nodes", &nodes, "--kill-node", "1@2"];
            let launch: &[&str] = if loss == "node" { &launch } else { &[] };
            let text = self.job(mode, mib, pes, launch, &["lose", &mib.to_string(), loss])?;
            let took = text.lines().find_map(millis_of_recovery);
            let none = || Trouble::new(format!("{mode}, {loss}: no PE restarted: {text}"));
            let keys = keys(&[("mode", mode), ("loss", loss)], mib, pes);
            tables.add("recovery", &keys, &[("recovery_ms", took.ok_or_else(none)?)]);
        }
        Ok(())
    }

    fn save(&self, mode: &str, mib: usize, pes: usize) -> Result<String, Trouble> {
        self.job(mode, mib, pes, &[], &["save", &mib.to_string(), self.saves])
    }

    fn job(
        &self,
        mode: &str,
        mib: usize,
        pes: usize,
        launch: &[&str],
        words: &[&str],
    ) -> Result<String, Trouble> {
        let heap = format!("{}M", mib + 16);
        let settings = settings(mode);
        let mut all: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        all.push(("SHMEM_SYMMETRIC_SIZE", &heap));
        let launch = [&["--timeout", "120"], launch].concat();
        self.bench.job(pes, &all, &launch, &self.program, words)
    }
}

pub fn keys(own: &[(&'static str, &str)], mib: usize, pes: usize) -> Keys {
    let own = own.iter().map(|&(name, value)| (name, value.to_owned()));
    own.chain([("mib", mib.to_string()), ("pes", pes.to_string())]).collect()
}

/// Returns true if the machine has the memory: data, a copy of it, two copies and two slots of
/// parity.
fn fits(&(mib, pes): &(usize, usize)) -> bool {
    let available = raidshmem_sys::memory::available().unwrap_or(0) >> 20;
    let fits = 6 * mib * pes < available as usize * 8 / 10;
    if !fits {
        eprintln!("evaluation: left out for want of memory: {pes} PEs of {mib} MiB");
    }
    fits
}

/// Returns the memory of all PEs after their checkpoints, in MiB.
fn last_share(text: &str) -> Result<f64, Trouble> {
    let last = text.lines().rfind(|line| line.starts_with("pss_mib "));
    value(last.unwrap_or_default(), "pss_mib")
}

/// Parses the restart time from the launcher's line about the end of a recovery.
fn millis_of_recovery(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("PEs resume from checkpoint ")?;
    let (_, time) = rest.rsplit_once(" after ")?;
    let (_, part) = time.split_once(" (")?;
    let time = part.strip_suffix(" of it the restart)")?;
    let (figure, unit) = time.split_once(' ')?;
    let figure: f64 = figure.parse().ok()?;
    match unit {
        "ms" => Some(figure),
        "s" => Some(figure * 1e3),
        "us" => Some(figure / 1e3),
        _ => None,
    }
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let line = |after: &str| format!("oshrun: all PEs resume from checkpoint 2 {after}");
    let of = |after: &str| millis_of_recovery(&line(after));
    assert_eq!(of("(PE 1 adopted) after 99.0 ms (12.3 ms of it the restart)"), Some(12.3));
    assert_eq!(of("after 7.0 s (1.5 s of it the restart)"), Some(1500.0));
    assert_eq!(millis_of_recovery("oshrun: 2 checkpoints took 1.5 s"), None);
}
