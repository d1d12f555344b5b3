//! One run of a program, with or without logs and a death: the times that it printed.

#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::path::PathBuf;

use super::compile;
use super::programs::{Bench, Trouble};

/// PEs of each job.
pub const PES: usize = 4;
/// The PE that dies, and the checkpoint before its death: the first one may be of an empty heap.
const DEATH: (usize, usize) = (1, 2);

/// Returns the seconds between two checkpoints.
pub fn interval(tiny: bool) -> f64 {
    if tiny { 0.1 } else { 0.3 }
}

/// The parameters of a run.
pub struct Asked {
    /// True for local rollback.
    pub logs: bool,
    /// The time of death as a fraction of an interval.
    pub death: Option<f64>,
    /// True if PEs report the size of their logs.
    pub tells: bool,
}

/// The results of a run, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    checksum: String,
    /// Time from the first checkpoint to the end.
    pub total: f64,
    /// Processor time of all processes.
    pub processor: f64,
    /// Time from the death until the lost PE has caught up; 0 without a death.
    pub caught_up: f64,
    /// True if only the lost PE rolled back.
    pub alone: bool,
    /// Mean records and bytes per PE and interval.
    pub logged: (f64, f64),
}

impl Run {
    /// Parses the output of a job; a PE died at fraction `death` of an interval of `interval`
    /// seconds.
    fn of(text: &str, death: Option<f64>, interval: f64) -> Result<Run, Trouble> {
        let first = |word: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            found.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        };
        let need = |word: &str| {
            first(word).ok_or_else(|| Trouble::new(format!("no line `{word} ..` in {text:?}")))
        };
        let mut ended =
            text.lines().filter_map(|line| line.strip_prefix("ended ")?.parse::<f64>().ok());
        let ended = ended.next_back().ok_or_else(|| Trouble::new(format!("no end in {text:?}")))?;
        let begun = need("begun")?;
        let checksum = text.split_whitespace().find_map(|word| word.strip_prefix("checksum="));
        let checksum = checksum.ok_or_else(|| Trouble::new(format!("no checksum in {text:?}")))?;
        let alone = text.contains("rolled back locally to checkpoint");
        let caught_up = match death {
            None => 0.0,
            Some(_) if alone => need("back")? + replayed(text)? - need("death")?,
            Some(fraction) => need("again")? + fraction * interval - need("death")?,
        };
        let (checksum, total) = (checksum.to_owned(), ended - begun);
        Ok(Run { checksum, total, processor: 0.0, caught_up, alone, logged: logged(text) })
    }
}

/// Parses the seconds of the replay from the launcher's line.
fn replayed(text: &str) -> Result<f64, Trouble> {
    let read = || {
        let (_, rest) = text.split_once("and has caught up after ")?;
        let mut words = rest.split([' ', ':']);
        let (figure, unit) = (words.next()?.parse::<f64>().ok()?, words.next()?);
        match unit {
            "ms" => Some(figure / 1e3),
            "s" => Some(figure),
            _ => None,
        }
    };
    read().ok_or_else(|| Trouble::new(format!("no time of a replay in {text:?}")))
}

/// Returns the means over all PEs and intervals, from lines `logged B bytes in R records up to ..`.
fn logged(text: &str) -> (f64, f64) {
    let of = |line: &str| {
        let (_, rest) = line.split_once("logged ")?;
        let mut words = rest.split(' ');
        let bytes: f64 = words.next()?.parse().ok()?;
        let records: f64 = words.nth(2)?.parse().ok()?;
        Some((records, bytes))
    };
    let all: Vec<(f64, f64)> = text.lines().filter_map(of).filter(|of| of.1 > 0.0).collect();
    let n = all.len().max(1) as f64;
    (all.iter().map(|of| of.0).sum::<f64>() / n, all.iter().map(|of| of.1).sum::<f64>() / n)
}

/// A compiled program.
pub struct Subject {
    program: PathBuf,
    words: Vec<String>,
    /// True if each PE is on a node of its own, which UCX connects.
    pub apart: bool,
    tiny: bool,
    checksum: OnceCell<String>,
}

impl Subject {
    pub fn build(
        bench: &Bench,
        name: &str,
        source: &str,
        (words, flags): (&[&str], &[&str]),
        tiny: bool,
    ) -> Result<Subject, Trouble> {
        let program = compile(bench, (name, source), flags)?;
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(Subject { program, words, apart: false, tiny, checksum: OnceCell::new() })
    }

    /// Returns the checksum of every run.
    pub fn checksum(&self) -> String {
        self.checksum.get().cloned().unwrap_or_default()
    }

    pub fn run(&self, bench: &Bench, asked: &Asked) -> Result<Run, Trouble> {
        let interval = interval(self.tiny);
        let every = interval.to_string();
        let (pe, number) = DEATH;
        let death = asked.death.map(|at| format!("{pe} {number} {:.4}", at * interval));
        let mut settings = vec![
            ("SHMEM_FT_BACKUP_MODE", "raid5"),
            ("SHMEM_SYMMETRIC_SIZE", "256M"),
            ("SHMEM_FT_INTERVAL", every.as_str()),
            ("SHMEM_FT_ROLLBACK", if asked.logs { "local" } else { "global" }),
        ];
        settings.extend(asked.logs.then_some(("SHMEM_FT_LOG_LIMIT", "192M")));
        settings.extend(death.as_deref().map(|death| ("LOCAL_DEATH", death)));
        settings.extend(asked.tells.then_some(("SHMEM_DEBUG", "1")));
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let mut launch = vec!["--verbose", "--timeout", "120"];
        if self.apart {
            launch.extend(["--nodes", "4", "--fabric", "ucx"]);
        }
        let before = processor();
        let text = bench.job(PES, &settings, &launch, &self.program, &words)?;
        let mut run = Run::of(&text, asked.death, interval)?;
        run.processor = processor() - before;
        let known = self.checksum.get_or_init(|| run.checksum.clone());
        if *known != run.checksum {
            let sums = format!("{known} and {} are not one sum", run.checksum);
            return Err(Trouble::new(format!("{:?}: {sums}", self.program)));
        }
        Ok(run)
    }
}

/// Returns the processor seconds of all ended descendants of this process.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after.split_whitespace().skip(13).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let text = "begun 10.0\ndeath 11.5\nback 11.6\noshrun: \
        PE 1 rolled back locally to checkpoint 2 \
        and has caught up after 250 ms: 9 calls from logs, no other PE rolled back\n\
        PE 0: logged 640 bytes in 4 records up to checkpoint 3\n\
        PE 1: logged 0 bytes in 0 records up to checkpoint 1\n\
        PE 1: logged 320 bytes in 2 records up to checkpoint 3\n\
        x: ok checksum=ab\nended 13.0\n";
    let run = Run::of(text, Some(0.5), 0.8).expect("a run");
    assert!((run.caught_up - 0.35).abs() < 1e-9 && run.alone, "{run:?}");
    assert_eq!((run.total, run.logged), (3.0, (3.0, 480.0)));
    let text = "begun 10.0\ndeath 11.5\nfault 11.6\nagain 11.7\nx: ok checksum=ab\nended 13.0\n";
    let run = Run::of(text, Some(0.5), 0.8).expect("a run");
    assert!((run.caught_up - 0.6).abs() < 1e-9 && !run.alone, "{run:?}");
    assert!(Run::of("begun 1.0\nended 2.0\n", None, 0.8).is_err(), "no checksum");
}
