//! The end of a job: its status, its output, and the lines that a test expects there.

use std::time::Duration;

/// The end of a job.
pub struct Outcome {
    /// The exit status of the launcher, or 128 and the signal that killed it.
    pub status: i32,
    /// Its whole standard output.
    pub out: String,
    /// Its whole standard error.
    pub err: String,
    /// Its run time.
    pub took: Duration,
    pub(super) shown: String,
}

impl Outcome {
    /// Fails the test unless `holds`.
    #[track_caller]
    pub fn check(&self, holds: bool, what: &str) {
        assert!(holds, "{what}\n{self}");
    }

    /// Fails the test unless the job ended with `status`.
    #[track_caller]
    pub fn status(&self, status: i32) -> &Self {
        self.check(self.status == status, &format!("status {status} was expected"));
        self
    }

    /// Fails the test unless some line on standard error contains `text`.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        self.check(self.count(text) > 0, &format!("`{text}` was expected"));
        self
    }

    /// Returns how many lines on standard error contain `text`.
    pub fn count(&self, text: &str) -> usize {
        self.err.lines().filter(|line| line.contains(text)).count()
    }

    /// Fails the test unless some line on standard output contains `text`.
    #[track_caller]
    pub fn prints(&self, text: &str) -> &Self {
        self.check(self.printed(text) > 0, &format!("`{text}` was expected"));
        self
    }

    /// Fails the test unless the job succeeded, and this many lines on standard output contain
    /// `text`.
    #[track_caller]
    pub fn all_print(&self, pes: usize, text: &str) -> &Self {
        self.status(0).check(self.printed(text) == pes, &format!("{pes} lines `{text}` expected"));
        self
    }

    /// Returns how many lines on standard output contain `text`.
    pub fn printed(&self, text: &str) -> usize {
        self.out.lines().filter(|line| line.contains(text)).count()
    }

    /// Returns lines of standard error that begin with `start`, without it.
    pub fn lines<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        self.err.lines().filter_map(move |line| line.strip_prefix(start))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { status, out, err, took, shown } = self;
        let took = took.as_secs_f64();
        write!(f, "{shown}\nstatus {status} after {took:.2} s\n")?;
        write!(f, "--- stdout\n{out}--- stderr\n{err}---")
    }
}
