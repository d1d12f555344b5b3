//! The report about a program: its points of synchronisation, and its mistakes.
//!
//! Left out: the presentation (`text`, `json`, `sarif`, `html`).

use crate::ir::SourceLine;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The program misbehaves after a loss.
    Warning,
    /// Worth knowing.
    Note,
}

/// A finding about one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The line.
    pub place: SourceLine,
    /// The severity.
    pub level: Level,
    /// The kind: one of `RULES`.
    pub rule: &'static str,
    /// The message.
    pub message: String,
    /// Another line that the message refers to.
    pub related: Option<SourceLine>,
}

/// The kinds of findings, and their meanings.
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

/// Memory as it is shown to users.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its name; for memory from a heap, the names of the variables that point to it.
    pub name: String,
    /// `static`, or the routine that allocates it.
    pub storage: String,
    /// Its declaration or allocation.
    pub place: SourceLine,
    /// Bytes on each PE, if known.
    pub bytes: Option<u64>,
}

/// A call that synchronises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its place in the source.
    pub place: SourceLine,
    /// The function that contains it.
    pub function: String,
    /// The called routine.
    pub routine: String,
    /// True if it saves a checkpoint.
    pub checkpoint: bool,
    /// True if all PEs are there, and no transfer is under way.
    pub safe: bool,
    /// True if it may run more than once.
    pub repeats: bool,
    /// Symmetric memory that may be read later before it is written.
    pub live: Vec<Item>,
    /// Symmetric memory that exists here, and is overwritten before it is read, or never read.
    pub dead: Vec<Item>,
    /// Private memory that a checkpoint here would need to hold, but does not.
    pub private: Vec<Item>,
    /// Variables of contexts not known to be quiet.
    pub pending: Vec<String>,
    /// Its rank among the places for a checkpoint, from 1; `None` if it is unsuitable.
    pub rank: Option<usize>,
}

/// The whole report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of files and lines.
    pub points: Vec<Point>,
    /// In the order of files and lines.
    pub findings: Vec<Finding>,
    /// Functions whose code was not given, assumed to read and write all that they can reach.
    pub unknown: Vec<String>,
}

impl Report {
    /// Returns the number of warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Warning).count()
    }
}

/// Returns the bytes of items, and the number of items whose size is unknown.
#[must_use]
pub fn bytes(items: &[Item]) -> (u64, usize) {
    let known = items.iter().filter_map(|item| item.bytes).sum();
    (known, items.iter().filter(|item| item.bytes.is_none()).count())
}

/// Ranks places for a checkpoint: in a loop first, then little private memory to protect, then few
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
