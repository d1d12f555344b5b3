//! What is told of a program: its points of synchronisation, and what is wrong.
//!
//! Left out: how it looks (`text`, `json`, `sarif`, `html`).

use crate::ir::SourceLine;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The program goes wrong after a loss.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something about one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where.
    pub place: SourceLine,
    /// How bad.
    pub level: Level,
    /// What kind: one of `RULES`.
    pub rule: &'static str,
    /// What, in a sentence.
    pub message: String,
    /// Another line that it speaks of.
    pub related: Option<SourceLine>,
}

/// Kinds of findings, and what each means.
pub const RULES: &[(&str, &str)] = &[
    ("private-state", "Private memory changes from checkpoint to checkpoint and is in none."),
    ("excluded-live", "Memory that is left out of checkpoints is read after a restart."),
    ("skipped-checkpoint", "Some PEs may not come to a checkpoint that is for all."),
    ("restart-elsewhere", "A restart does not come to where the program went on before."),
    ("private-pointer", "Checkpoints hold a pointer to memory that a substitute has elsewhere."),
    ("skipped-protect", "A substitute protects other private memory than the first process."),
    ("not-quiet", "A context may have transfers under way at a safe point."),
    ("not-safe", "A call synchronises, but is no safe point."),
];

/// Memory, as people know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its name; of memory from a heap, those of the variables that point to it.
    pub name: String,
    /// `static`, or the routine that allocates it.
    pub storage: String,
    /// Its declaration or allocation.
    pub place: SourceLine,
    /// Bytes on each PE, where they are known.
    pub bytes: Option<u64>,
}

/// A call that synchronises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub place: SourceLine,
    /// The function that it stands in.
    pub function: String,
    /// What is called.
    pub routine: String,
    /// It saves a checkpoint.
    pub checkpoint: bool,
    /// All PEs are there, and no transfer is under way.
    pub safe: bool,
    /// It may be run more than once.
    pub repeats: bool,
    /// Symmetric memory that may be read later before it is written.
    pub live: Vec<Item>,
    /// Symmetric memory that is there, and is written before it is read, or never read.
    pub dead: Vec<Item>,
    /// Private memory that would have to be in a checkpoint here, and is not.
    pub private: Vec<Item>,
    /// Variables of contexts not known to be quiet.
    pub pending: Vec<String>,
    /// Its place among those for a checkpoint, from 1; None: it is none.
    pub rank: Option<usize>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of files and lines.
    pub points: Vec<Point>,
    /// In the order of files and lines.
    pub findings: Vec<Finding>,
    /// Functions whose code was not given, taken to read and write all that they can reach.
    pub unknown: Vec<String>,
}

impl Report {
    /// How many findings are warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Warning).count()
    }
}

/// Bytes of items, and how many of them have no known size.
#[must_use]
pub fn bytes(items: &[Item]) -> (u64, usize) {
    let known = items.iter().filter_map(|item| item.bytes).sum();
    (known, items.iter().filter(|item| item.bytes.is_none()).count())
}

/// Orders places for a checkpoint: in a loop first, then little private memory to protect, then few
/// live bytes.
pub(crate) fn rank(points: &mut [Point]) {
    let fits = |point: &Point| {
        let once = ["shmem_init", "shmem_init_thread", "start_pes", "shmem_finalize"];
        point.safe && !once.contains(&point.routine.as_str())
    };
    let mut order: Vec<usize> = (0..points.len()).filter(|at| fits(&points[*at])).collect();
    order.sort_by_key(|at| {
        let point = &points[*at];
        let (known, unknown) = bytes(&point.live);
        (!point.repeats, point.private.len(), unknown, known, *at)
    });
    for (rank, at) in order.into_iter().enumerate() {
        points[at].rank = Some(rank + 1);
    }
}
