//! Jobs of the program `stall`, in which some PEs wait for long, and the messages about it.

use rustix::process::Signal;

use super::{Job, Outcome, Running, processes};

/// Returns lines about waits.
pub fn lines(outcome: &Outcome) -> Vec<&str> {
    outcome.lines("oshrun: ").filter(|line| line.contains(" in shmem_")).collect()
}

/// Checks that the job continues once `late` is released, after a single line with this beginning
/// and end.
#[track_caller]
pub fn goes_on(job: Job, begin: &str, end: &str) {
    let mut run = job.after("mkfifo go").leaves("go").until("ready");
    run.wait_for(&format!("oshrun: {begin}"));
    let outcome = let_end(run);
    let lines = lines(outcome.status(0));
    let same = lines.len() == 1 && lines[0].starts_with(begin) && lines[0].ends_with(end);
    outcome.check(same, &format!("one line about waits was expected: `{begin} ..{end}`"));
    let ends = outcome.out.lines().filter(|line| line.ends_with(" is at the end")).count();
    outcome.check(ends == 4, "every PE should finish");
}

/// Checks a job whose PE 3 is late for the barrier of all, and is stopped meanwhile.
#[track_caller]
pub fn tells_of_a_stopped_pe(job: Job) {
    let mut run = job.after("mkfifo go").leaves("go").until("ready");
    run.wait_for("PE 3 does not (it computes)");
    let late = run.pid_of(3);
    processes::signal(late, Signal::STOP);
    run.wait_for("PEs 0-2 wait in shmem_barrier_all for ");
    run.wait_for(" s; PE 3 does not (it is stopped)");
    processes::signal(late, Signal::CONT);
    let outcome = let_end(run);
    outcome.status(0).check(lines(&outcome).len() == 2, "two lines were expected");
}

/// Resumes the PE that stopped itself, after `meanwhile`.
pub fn at_its_stop(job: &mut Running, meanwhile: impl FnOnce()) {
    job.wait_until("no PE stops itself", |all| all.iter().any(|process| process.state == 'T'));
    meanwhile();
    let all = job.processes();
    let stopped = all.iter().filter(|process| process.state == 'T');
    stopped.for_each(|process| processes::signal(process.pid, Signal::CONT));
}

/// Releases the PE that computes until then.
pub fn let_on(run: &Running) {
    std::fs::write(run.folder().join("go"), "go\n").expect("its fifo");
}

/// Releases the PE that computes until then, and waits for the end of the job.
#[track_caller]
pub fn let_end(run: Running) -> Outcome {
    let_on(&run);
    run.finish()
}

/// Checks that the job ends with that line, printed once.
#[track_caller]
pub fn never_ends(outcome: &Outcome, line: &str) {
    outcome.status(3);
    let (before, after) = line.split_once("..").expect("what lasts how long");
    let verdicts: Vec<&str> = outcome.lines("oshrun: unrecoverable: ").collect();
    let same = |found: &str| found.starts_with(before) && found.ends_with(after);
    outcome.check(verdicts.len() == 1 && same(verdicts[0]), &format!("`{line}` was expected"));
}
