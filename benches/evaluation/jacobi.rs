//! Jacobi as in the thesis, with faults at the entry of a checkpoint; and with deaths at any time,
//! at several intervals between checkpoints.

use std::path::PathBuf;

use raidshmem_core::sizing::interval::{daly, stretch};
use serde::Serialize;

use super::Size;
use super::programs::{Bench, Trouble};
use super::run::Run;
use super::store::{MODES, keys, settings};
use super::table::{Keys, Tables};

/// Mean seconds between two deaths in the comparison of intervals.
const MTBF: f64 = 2.0;
/// Intervals compared, as multiples of the predicted optimum.
const MULTIPLES: [f64; 5] = [0.125, 0.35, 1.0, 2.5, 6.0];
/// Mode and PEs of the comparison of intervals.
const INTERVALS: (&str, usize) = ("raid5", 4);
/// The first checkpoint after the arrays were created and one step was done.
const FIRST: usize = 3;
/// The mode in which only the lost PE rolls back.
const LOCAL: &str = "raid5-local";
/// Number of measurements of the large heap.
const LARGE_ROUNDS: usize = 3;
/// Maximum number of warm-up runs before them.
const LARGE_WARM: usize = 6;
/// The large heap: the mode, PEs, sweeps of a run and of a step.
const LARGE: (&str, usize, usize, usize) = ("raid5", 4, 128, 64);

/// The inputs of the predicted interval, in seconds, and the results.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Predicted {
    pub checkpoint: f64,
    pub recovery: f64,
    pub mtbf: f64,
    /// The optimum by Daly's formula.
    pub best: f64,
    /// The interval with the shortest time, of those tried.
    pub measured: f64,
}

pub struct Study<'a> {
    bench: &'a Bench,
    program: PathBuf,
    pub sweeps: usize,
    pub halo: usize,
    seed: u64,
    mibs: &'static [usize],
    pes: &'static [usize],
    /// Sweeps of a run, and of a step, in the comparison of intervals.
    long: (usize, usize),
    /// The expected checksums, by MiB and sweeps.
    sums: Vec<((usize, usize), String)>,
    predicted: Predicted,
    /// Time limit of a run, in seconds.
    patience: &'static str,
}

/// The parameters of a run.
struct Asked<'a> {
    mode: &'a str,
    mib: usize,
    pes: usize,
    sweeps: usize,
    halo: usize,
    launch: &'a [String],
    settings: &'a [(&'static str, String)],
}

impl Study<'_> {
    pub fn new(bench: &Bench, size: Size, seed: u64) -> Result<Study<'_>, Trouble> {
        let program = bench.compile("benches/evaluation/jacobi.c")?;
        let (mibs, pes, sweeps, long): (&[usize], &[usize], _, _) = match size {
            Size::Tiny => (&[4], &[4], 512, (1024, 8)),
            Size::Quick => (&[64], &[2, 4, 8], 512, (3072, 8)),
            Size::Full => (&[64, 2048], &[2, 4, 8, 16], 4096, (8192, 8)),
        };
        let (sums, predicted) = (Vec::new(), Predicted::default());
        let (halo, patience) = (256, if size == Size::Full { "1800" } else { "90" });
        Ok(Study { bench, program, sweeps, halo, seed, mibs, pes, long, sums, predicted, patience })
    }

    /// Runs every mode with every number of faults once, then every interval once.
    pub fn measure(&mut self, round: usize, tables: &mut Tables) -> Result<(), Trouble> {
        let (sweeps, halo) = (self.sweeps, self.halo);
        for &mib in self.mibs {
            for &pes in self.pes {
                let plain = plain(mib, pes, sweeps, halo);
                let modes = MODES.into_iter().chain([(LOCAL, 2)]);
                for (mode, _) in modes.filter(|(_, fewest)| pes >= *fewest) {
                    self.faults(mode, &plain, tables)?;
                }
            }
        }
        self.intervals(round, tables)
    }

    /// Runs Jacobi with 0 to 3 faults in a job that has at least half of the machine's memory.
    /// Warm-up runs precede it, so that the machine lays out that memory, which otherwise delays
    /// its first user, and gathers it in large pages. They end when two of them take equally long.
    pub fn large(&mut self, tables: &mut Tables) -> Result<(), Trouble> {
        let (mode, pes, sweeps, halo) = LARGE;
        let Some(mib) = large_mib() else {
            eprintln!("evaluation: left out for want of memory: the large heap");
            return Ok(());
        };
        let plain = plain(mib, pes, sweeps, halo);
        let mut before = f64::INFINITY;
        for _ in 0..LARGE_WARM {
            let now = self.run(&Asked { mode, ..plain })?.total;
            if (now / std::mem::replace(&mut before, now) - 1.0).abs() < 0.03 {
                break;
            }
        }
        for _ in 0..LARGE_ROUNDS {
            self.faults(mode, &plain, tables)?;
        }
        Ok(())
    }

    /// Runs one mode with every number of faults, and compares it with runs without protection.
    fn faults(
        &mut self,
        mode: &str,
        plain: &Asked<'_>,
        tables: &mut Tables,
    ) -> Result<(), Trouble> {
        let &Asked { mib, pes, .. } = plain;
        let of = |mode: &str, faults: usize| {
            let mut keys = keys(&[("mode", mode)], mib, pes);
            keys.push(("faults", faults.to_string()));
            keys
        };
        // Each PE but the first dies at most once, so that the PE that prints survives. Under local
        // rollback a PE adds no calls, so the number of steps limits that of deaths.
        let steps = if mode == LOCAL { plain.sweeps / plain.halo } else { usize::MAX };
        let most = 3.min(pes - 1).min(steps);
        let before = self.run(plain)?.total;
        let runs = (0..=most).map(|faults| self.with_faults(mode, faults, plain));
        let runs = runs.collect::<Result<Vec<Run>, Trouble>>()?;
        let after = self.run(plain)?.total;
        tables.add("jacobi", &of("none", 0), &[("seconds", (before + after) / 2.0)]);
        let (whole, all) = (runs[0].total, runs.iter().map(|run| run.total).sum::<f64>());
        let mut ended = 0.0;
        for (faults, run) in runs.iter().enumerate() {
            // The speed of a shared machine varies: the time without protection at the middle of
            // this run is interpolated between the runs before and after.
            let middle = (ended + run.total / 2.0) / all;
            let none = before + middle * (after - before);
            ended += run.total;
            let predicted = none + run.overhead();
            let values = [
                ("seconds", run.total),
                ("t_b_ms", 1e3 * run.t_b()),
                ("t_r_ms", 1e3 * run.t_r()),
                ("t_s_ms", 1e3 * run.t_s()),
                ("predicted_s", predicted),
                ("error_percent", 100.0 * (predicted / run.total - 1.0)),
                ("o_ft_percent", 100.0 * run.overhead() / whole),
                ("overhead_percent", 100.0 * (run.total / none - 1.0)),
            ];
            tables.add("jacobi", &of(mode, faults), &values);
        }
        Ok(())
    }

    /// Runs with PE 1 dying at the entry of a checkpoint, PE 2 at that of the next, and so on.
    fn with_faults(
        &mut self,
        mode: &str,
        faults: usize,
        plain: &Asked<'_>,
    ) -> Result<Run, Trouble> {
        let kills = (0..faults).map(|nth| format!("{}@{}:before", nth + 1, FIRST + nth));
        let launch: Vec<String> = kills.flat_map(|k| ["--kill".to_owned(), k]).collect();
        let run = self.run(&Asked { mode, launch: &launch, ..*plain })?;
        let trouble = |what: String| Err(Trouble::new(format!("{mode}: {what}")));
        match (run.faults(), run.alone()) {
            (came, _) if came != faults => trouble(format!("{came} recoveries of {faults} faults")),
            (_, alone) if mode == LOCAL && alone != faults => {
                trouble(format!("of {faults} PEs {alone} went back alone"))
            }
            _ => Ok(run),
        }
    }

    /// Runs, and checks that the checksum equals that of all other runs.
    fn run(&mut self, asked: &Asked<'_>) -> Result<Run, Trouble> {
        let run = self.job(asked)?;
        self.same(asked, run)
    }

    fn job(&self, asked: &Asked<'_>) -> Result<Run, Trouble> {
        let Asked { mode, mib, pes, sweeps, halo, launch, .. } = *asked;
        let heap = format!("{}M", 2 * mib.div_ceil(pes) + 32);
        let mut settings = settings(mode);
        settings.push(("SHMEM_SYMMETRIC_SIZE", heap));
        settings.extend(asked.settings.iter().cloned());
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let launch: Vec<&str> = ["--timeout", self.patience]
            .into_iter()
            .chain(launch.iter().map(String::as_str))
            .collect();
        let (bytes, of, at) = (format!("{mib}M"), sweeps.to_string(), halo.to_string());
        let words = ["--bytes", &bytes, "--sweeps", &of, "--halo", &at];
        Run::of(&self.bench.job(pes, &settings, &launch, &self.program, &words)?)
    }

    fn same(&mut self, asked: &Asked<'_>, run: Run) -> Result<Run, Trouble> {
        let of = (asked.mib, asked.sweeps);
        match self.sums.iter().find(|(key, _)| *key == of) {
            Some((_, sum)) if *sum != run.checksum => {
                let (mode, pes, launch) = (asked.mode, asked.pes, asked.launch);
                let sums = format!("{sum} and {} are not one sum", run.checksum);
                Err(Trouble::new(format!("jacobi, {mode}, {pes} PEs, {launch:?}: {sums}")))
            }
            Some(_) => Ok(run),
            None => {
                self.sums.push((of, run.checksum.clone()));
                Ok(run)
            }
        }
    }

    /// Measures the time of a run with timed deaths, at each interval, relative to one without
    /// deaths and checkpoints; all intervals of a round meet the same deaths.
    fn intervals(&mut self, round: usize, tables: &mut Tables) -> Result<(), Trouble> {
        let ((mode, pes), mib, (sweeps, halo)) = (INTERVALS, self.mibs[0], self.long);
        let plain = plain(mib, pes, sweeps, halo);
        let none = self.run(&plain)?.total;
        let deaths = deaths(self.seed + round as u64, pes, 20.0 * none);
        if self.predicted.best == 0.0 {
            // From the first round, so that all rounds try the same intervals.
            let of = |value| {
                let pes = pes.to_string();
                let keys = [("mode", mode), ("pes", pes.as_str()), ("faults", "1")];
                tables.cell("jacobi", &keys, value).unwrap_or(0.0) / 1e3
            };
            let (checkpoint, recovery) = (of("t_b_ms"), of("t_r_ms"));
            let best = daly(checkpoint, MTBF);
            self.predicted = Predicted { checkpoint, recovery, mtbf: MTBF, best, measured: 0.0 };
        }
        for multiple in MULTIPLES {
            let interval = (1e3 * multiple * self.predicted.best).round().max(1.0) / 1e3;
            let began = monotonic();
            let list: Vec<String> = deaths.iter().map(|(pe, at)| format!("{pe}:{at:.4}")).collect();
            let settings = [
                ("SHMEM_FT_INTERVAL", interval.to_string()),
                ("EVALUATION_BEGAN", format!("{began:.6}")),
                ("EVALUATION_DEATHS", list.join(",")),
            ];
            let asked = Asked { mode, settings: &settings, ..plain };
            // Deaths without progress end a job, and long intervals may have too many.
            let run = match self.job(&asked) {
                Ok(run) => self.same(&asked, run)?,
                Err(trouble) => {
                    let said = trouble.to_string();
                    let last = said.rsplit_once("oshrun: ").map_or(said.as_str(), |(_, last)| last);
                    eprintln!("evaluation: interval of {interval} s left out this time: {last}");
                    continue;
                }
            };
            let keys: Keys = vec![("interval_s", interval.to_string())];
            tables.add(
                "interval",
                &keys,
                &[
                    ("measured", run.total / none),
                    ("predicted", self.stretch(interval)),
                    ("recoveries", run.faults() as f64),
                ],
            );
        }
        Ok(())
    }

    fn stretch(&self, interval: f64) -> f64 {
        let Predicted { checkpoint, recovery, mtbf, .. } = self.predicted;
        stretch(interval, checkpoint, recovery, mtbf)
    }

    /// Returns the MiB of the array that the plots show.
    pub fn mib(&self) -> usize {
        self.mibs[0]
    }

    /// Returns the predicted interval, and the one that the runs found best.
    pub fn predicted(&self, tables: &Tables) -> Predicted {
        let measured = tables.series("interval", "interval_s", "", "measured");
        let points = measured.iter().flat_map(|line| line.points.iter());
        let best = points.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |point| point.0);
        Predicted { measured: best, ..self.predicted }
    }

    /// Returns the checksum of every run.
    pub fn checksums(&self) -> Vec<(String, String)> {
        let name = |(mib, sweeps): (usize, usize)| format!("{mib} MiB, {sweeps} sweeps");
        self.sums.iter().map(|(key, sum)| (name(*key), sum.clone())).collect()
    }
}

/// Returns a run without protection and without faults.
fn plain(mib: usize, pes: usize, sweeps: usize, halo: usize) -> Asked<'static> {
    Asked { mode: "none", mib, pes, sweeps, halo, launch: &[], settings: &[] }
}

/// Returns the MiB of an array for which a job in [`LARGE`]'s mode has half of this machine's
/// memory, and at least 4 GiB of live data: two arrays, a copy of them, and two slots of parity
/// over three. `None` if that much is not free.
fn large_mib() -> Option<usize> {
    const LIVE_MIN: usize = 4096;
    let held = |live: usize| live * 8 / 3;
    let machine = (raidshmem_sys::memory::total()? >> 20) as usize;
    let free = (raidshmem_sys::memory::available()? >> 20) as usize;
    let live = LIVE_MIN.max(machine / 2 * 3 / 8 + 64);
    (held(live) < free * 8 / 10).then_some(live / 2)
}

/// Returns exponentially distributed deaths of PEs other than the first, for `seconds`, from a
/// seed.
fn deaths(seed: u64, pes: usize, seconds: f64) -> Vec<(usize, f64)> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut found, mut at) = (Vec::new(), 0.0);
    loop {
        let share = (any() >> 11) as f64 / (1u64 << 53) as f64;
        at -= MTBF * (1.0 - share).ln();
        if at > seconds {
            return found;
        }
        found.push((1 + any() as usize % (pes - 1), at));
    }
}

/// Returns the time of CLOCK_MONOTONIC in seconds.
fn monotonic() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + 1e-9 * now.tv_nsec as f64
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let (one, other) = (deaths(1, 4, 1e5), deaths(2, 4, 1e5));
    assert_eq!(one, deaths(1, 4, 1e5), "a seed repeats its deaths");
    assert_ne!(one, other);
    assert!(one.iter().all(|(pe, _)| (1..4).contains(pe)));
    let mean = 1e5 / one.len() as f64;
    assert!((mean / MTBF - 1.0).abs() < 0.05, "{mean} seconds between deaths");
}
