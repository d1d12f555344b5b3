//! The example program as a test: whatever dies, its checksum is that of plain loops.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;

use super::{Job, Outcome, program};

/// Nine tiles per PE on four PEs: more than one tile per chunk. 11 checkpoints: the first before
/// there is data, the second with it, the last with the result.
pub const SMALL: &[&str] = &["--bytes", "1M", "--sweeps", "256", "--halo", "32"];
/// One tile per PE, 7 checkpoints: for many runs.
pub const TINY: &[&str] = &["--bytes", "32K", "--sweeps", "32", "--halo", "8"];

/// Returns the sum of plain loops.
pub fn serial(args: &[&str]) -> String {
    static SUMS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut sums = SUMS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let compute = || {
        let mut command = Command::new(program("jacobi"));
        command.arg("--serial").args(args).env_remove("LD_LIBRARY_PATH");
        let output = command.output().expect("jacobi runs");
        assert!(output.status.success(), "jacobi --serial {args:?}");
        sum(&String::from_utf8_lossy(&output.stdout)).expect("it prints a sum").to_owned()
    };
    sums.entry(args.join(" ")).or_insert_with(compute).clone()
}

/// Returns the sum in a run's output, if it got that far.
pub fn sum(out: &str) -> Option<&str> {
    let (_, rest) = out.split_once("jacobi checksum=")?;
    rest.split_whitespace().next()
}

/// Returns `job` with the program at its end.
pub fn job(job: Job, args: &[&str]) -> Job {
    job.program(&program("jacobi"), args)
}

impl Outcome {
    /// Fails the test unless the job succeeded with the right sum, printed once.
    #[track_caller]
    pub fn right_sum(&self, args: &[&str]) -> &Self {
        self.status(0);
        let lines = self.out.lines().filter(|line| sum(line).is_some()).count();
        self.check(lines == 1, "one line with a sum was expected");
        let serial = serial(args);
        self.check(sum(&self.out) == Some(&serial), &format!("the sum {serial} was expected"));
        self
    }

    /// Fails the test unless the job ended with status 3 and one verdict, which it returns: every
    /// PE reaches the same one, and the launcher reports differences.
    #[track_caller]
    pub fn same_verdict(&self) -> &str {
        self.status(3);
        self.check(sum(&self.out).is_none(), "no sum was expected");
        let words = self.lines("oshrun: ").find(|line| line.starts_with("unrecoverable: "));
        let Some(words) = words else { panic!("oshrun gives no verdict\n{self}") };
        self.check(self.count("unrecoverable: ") == 1, "one verdict was expected");
        words
    }
}
