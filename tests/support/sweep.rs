//! Sweeps: jobs that differ in their settings and in the place of a loss.
//!
//! A row is a line for [`Job::line`] with choices in braces, and stands for a cell for each way to
//! choose:
//!
//! - `{raid5|rs}` takes each, the last choice of a row fastest; `{checkpoint}` and `{recovery}`
//!   take each of their steps, and `{}` repeats the last choice;
//! - `{0,1,2,3}` goes along with the last choice: its first, second and so on, in turn.
//!
//! Cells run one after another: tests of one file run at once, so processors are busy. A cell that
//! fails is named by its line.

use super::{Job, all_asked_for, note, partly};

/// Steps of a checkpoint at which a PE may be killed.
pub const STEPS: [&str; 7] = ["before", "quiesce", "encode", "encoded", "copy", "copied", "after"];
/// Steps of a recovery.
pub const RECOVERY: [&str; 7] =
    ["settle", "decided", "verify", "rebuild", "restore", "reencode", "resume"];

/// A job of a sweep.
pub struct Cell {
    /// The line of its job.
    pub line: String,
    /// The number of its last choice.
    pub nth: usize,
}

impl Cell {
    /// Returns the PEs of its job.
    pub fn pes(&self) -> usize {
        let mut words = self.line.split(' ').skip_while(|word| *word != "-n").skip(1);
        words.next().map_or(4, |pes| pes.parse().expect("a number of PEs"))
    }

    /// Returns its job.
    pub fn job(&self) -> Job {
        Job::line(&self.line)
    }
}

/// Cells to run.
pub struct Sweep(Vec<Cell>);

impl Sweep {
    /// Returns every cell of these rows.
    pub fn of<T: AsRef<str>>(rows: impl IntoIterator<Item = T>) -> Sweep {
        let mut cells = Vec::new();
        for row in rows {
            let named = row.as_ref().replace("{checkpoint}", &format!("{{{}}}", STEPS.join("|")));
            let named = named.replace("{recovery}", &format!("{{{}}}", RECOVERY.join("|")));
            fill(&named, "", 0, &mut cells);
        }
        Sweep(cells)
    }

    /// Keeps all cells if all tests were requested, otherwise about `most`.
    pub fn sample(self, most: usize) -> Sweep {
        Sweep(sample(self.0, most))
    }

    /// Keeps all cells in `make soak`, otherwise about `many` of them if all tests were requested,
    /// and `few` if not, with a notice.
    pub fn long(self, few: usize, many: usize) -> Sweep {
        Sweep(sample_long(self.0, few, many))
    }

    /// Runs each cell by `run`, which checks its outcome.
    #[track_caller]
    pub fn each(self, run: impl Fn(&Cell)) {
        assert!(!self.0.is_empty(), "no cell was chosen");
        for cell in &self.0 {
            let _named = Named(cell);
            run(cell);
        }
    }
}

/// Prints a cell if its run fails.
struct Named<'a>(&'a Cell);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            note(&format!("the cell that failed: {}", self.0.line));
        }
    }
}

/// Adds the cells of a row whose choices on the left are made: the last one is `last`, its number
/// `nth`.
fn fill(row: &str, last: &str, nth: usize, cells: &mut Vec<Cell>) {
    match choice(row, '|') {
        Some([before, choices, after]) => {
            for (nth, one) in choices.split('|').enumerate() {
                fill(&[before, one, after].concat(), one, nth, cells);
            }
        }
        None => cells.push(Cell { line: in_turn(&row.replace("{}", last), nth), nth }),
    }
}

fn in_turn(row: &str, nth: usize) -> String {
    let Some([before, choices, after]) = choice(row, ',') else {
        assert!(!row.contains('{'), "{row}: no choice is left open");
        return row.to_owned();
    };
    let all: Vec<&str> = choices.split(',').collect();
    in_turn(&[before, all[nth % all.len()], after].concat(), nth)
}

/// Returns the first braces with that sign, and the text on both sides.
fn choice(row: &str, sign: char) -> Option<[&str; 3]> {
    let mut braces = row.match_indices('{').map(|(at, _)| {
        let end = at + row[at..].find('}').expect("braces are closed");
        [&row[..at], &row[at + 1..end], &row[end + 1..]]
    });
    braces.find(|[_, choices, _]| choices.contains(sign))
}

/// Returns the cases of a matrix: all of them if all tests were requested, otherwise about `most`,
/// evenly, with a notice.
pub fn sample<T>(cases: Vec<T>, most: usize) -> Vec<T> {
    let count = cases.len();
    if all_asked_for() || count <= most {
        return cases;
    }
    partly("all", &format!("{most} of {count} cases; make test-all takes all"));
    evenly(cases, most)
}

/// Returns all cases in `make soak`, otherwise about `many` of them if all tests were requested,
/// and `few` if not, evenly, with a notice.
pub fn sample_long<T>(cases: Vec<T>, few: usize, many: usize) -> Vec<T> {
    let count = cases.len();
    if std::env::var_os("RAIDSHMEM_SOAK").is_some() || !all_asked_for() || count <= many {
        return sample(cases, few);
    }
    partly("soak", &format!("{many} of {count} cases; make soak takes all"));
    evenly(cases, many)
}

fn evenly<T>(cases: Vec<T>, most: usize) -> Vec<T> {
    let count = cases.len();
    let chosen = |&(index, _): &(usize, T)| index * most / count != (index + 1) * most / count;
    cases.into_iter().enumerate().filter(chosen).map(|(_, case)| case).collect()
}
