//! The task farms of `examples/` as tests: a loss costs only tasks in progress.

use super::Outcome;

/// Returns the tasks completed by the survivors and by the lost PEs.
fn tasks(outcome: &Outcome) -> u64 {
    let number = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["PE", _, "did", tasks, "tasks"] | ["PE", _, "dies", "after", tasks, "tasks"] => {
            tasks.parse::<u64>().ok()
        }
        _ => None,
    };
    outcome.out.lines().filter_map(number).sum()
}

impl Outcome {
    /// Fails the test unless the job reached that end and no task was done twice, except those
    /// during which a PE died.
    #[track_caller]
    pub fn loses_what_was_begun(&self, all: u64, end: &str) {
        self.status(0).check(self.out.contains(end), &format!("`{end}` was expected"));
        let done = tasks(self);
        self.check(done == all, &format!("{done} tasks were completed, of {all}"));
    }
}
