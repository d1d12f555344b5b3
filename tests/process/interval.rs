//! Checkpoint calls that are skipped until a checkpoint is due, and still report losses.

use super::support::{Job, Outcome, has_ucx_too, program};

/// Returns PE 0's numbers since the last restart: calls, saved ones, restarts; and the number of
/// the last checkpoint.
#[track_caller]
fn numbers(outcome: &Outcome) -> [u64; 4] {
    outcome.status(0);
    let line = outcome.out.lines().find(|line| line.starts_with("right: ")).unwrap_or_default();
    let words = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
    words.try_into().unwrap_or_else(|_| panic!("`right: ..` was expected: {}", outcome.out))
}

fn run(interval: &str, words: &str) -> Outcome {
    let words: Vec<&str> = words.split(' ').collect();
    let job = Job::new(3).mode("raid5").env("SHMEM_FT_INTERVAL", interval);
    job.program(&program("interval"), &words).run()
}

const DAY: &str = "86400";

#[test]
fn only_the_first_call_saves_where_none_is_due() {
    assert_eq!(numbers(&run(DAY, "calls 40")), [41, 1, 0, 1]);
    assert_eq!(numbers(&run(DAY, "asks 40")), [1, 1, 0, 1]);
    assert_eq!(numbers(&run("0", "calls 40")), [41, 41, 0, 41]);
    assert_eq!(numbers(&run("0", "asks 40")), [41, 41, 0, 41]);
}

/// Whichever PE dies, even PE 0, which decides for all: the next call reports it, all roll back,
/// and the first call after that saves. The counts are static, so they roll back too.
#[test]
fn a_loss_is_reported_by_a_call_that_would_have_passed() {
    for (form, calls) in [("calls", 1 + 31), ("asks", 1 + 1)] {
        for victim in 0..3 {
            let outcome = run(DAY, &format!("{form} 31 {victim} 10"));
            outcome.says(&format!("PE {victim} was killed by SIGKILL"));
            assert_eq!(numbers(&outcome), [calls, 1, 1, 2], "{form}: {}", outcome.out);
        }
    }
}

/// After the loss of PE 1 the job has saved again, and rolls back to that checkpoint.
#[test]
fn losses_in_turn() {
    let [.., number] = numbers(&run(DAY, "calls 60 1 10 2 20 0 30"));
    assert_eq!(number, 4);
    let [.., number] = numbers(&run(DAY, "asks 60 1 10 0 20 2 30"));
    assert_eq!(number, 4);
}

#[test]
fn every_mode_and_two_nodes() {
    for mode in ["single", "double", "raid4", "rs"] {
        let job = Job::new(4).mode(mode).env("SHMEM_FT_INTERVAL", DAY);
        let outcome = job.program(&program("interval"), &["calls", "31", "1", "10"]).run();
        assert_eq!(numbers(&outcome)[3], 2, "{mode}");
    }
    // Injected faults count saved checkpoints: PE 2 dies in the second one.
    let job = Job::new(3).mode("raid5").env("SHMEM_FT_INTERVAL", DAY).kill(&["2@2:copy"]);
    let outcome = job.program(&program("interval"), &["calls", "31", "1", "10"]).run();
    outcome.says("PE 2 was killed by SIGKILL");
    assert_eq!(numbers(&outcome)[2], 2);
}

/// PE 0 decides for all, even for PEs that do not map its memory; its node may be the lost one.
#[test]
fn lost_nodes_and_remote_pes() {
    let fabrics: &[&str] = if has_ucx_too() { &["shm", "ucx"] } else { &["shm"] };
    for fabric in fabrics {
        for (form, calls) in [("calls", 1 + 31), ("asks", 1 + 1)] {
            for lost in [0, 2] {
                let job = Job::new(3).mode("raid5").args(&["--nodes", "3", "--fabric", fabric]);
                let job = job.env("SHMEM_FT_INTERVAL", DAY);
                let words = [form, "31", &format!("n{lost}"), "10"];
                let outcome = job.program(&program("interval"), &words).run();
                outcome.says(&format!("node {lost} was lost with PE {lost}"));
                assert_eq!(numbers(&outcome), [calls, 1, 1, 2], "{fabric}: {}", outcome.out);
            }
        }
    }
}

/// In mode none nothing is kept, and no call is skipped.
#[test]
fn mode_none_passes_nothing() {
    let job = Job::new(3).env("SHMEM_FT_INTERVAL", DAY);
    let outcome = job.program(&program("interval"), &["calls", "5"]).run();
    assert_eq!(numbers(&outcome), [6, 6, 0, 6]);
}

/// A checkpoint costs some hundred microseconds and a step one millisecond: with one loss per
/// second it pays off about every ten steps, and with one per year never again.
#[test]
fn auto_follows_cost_and_losses() {
    let saved = |mtbf: &str| {
        let job = Job::new(3).mode("raid5").env("SHMEM_FT_INTERVAL", "auto");
        let job = job.env("SHMEM_FT_MTBF", mtbf);
        let [calls, saved, ..] =
            numbers(&job.program(&program("interval"), &["long", "400"]).run());
        assert_eq!(calls, 401);
        saved
    };
    let (often, never) = (saved("1"), saved("31536000"));
    assert!((3..300).contains(&often), "{often} of 401 calls saved");
    assert_eq!(never, 1, "a checkpoint pays every few minutes");
}

/// The substitute of PE 0, which then decides, knows of earlier losses.
#[test]
fn a_substitute_of_pe_0_counts_earlier_losses() {
    for (lost, extra) in [("0", &[][..]), ("n0", &["--nodes", "3"])] {
        let job = Job::new(3).mode("raid5").env("SHMEM_FT_INTERVAL", "auto").args(extra);
        let job = job.env("SHMEM_DEBUG", "1");
        let words = ["calls", "60", "1", "10", "2", "20", lost, "30"];
        let outcome = job.program(&program("interval"), &words).run();
        numbers(&outcome);
        for (pe, losses) in [(1, 1), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3)] {
            let said = |line: &str| {
                let line = line.split_once(&format!("PE {pe}: debug: restarted from checkpoint "));
                line.is_some_and(|(_, rest)| {
                    rest.ends_with(&format!(" after loss {losses} of the job"))
                })
            };
            let heard = outcome.err.lines().any(said);
            outcome.check(heard, &format!("PE {pe} should know of {losses} losses"));
        }
    }
}

#[test]
fn settings_in_force_are_printed() {
    let job = Job::new(3).mode("raid5").env("SHMEM_FT_INTERVAL", "2.5").env("SHMEM_INFO", "1");
    let outcome = job.program(&program("interval"), &["calls", "1"]).run();
    outcome.status(0);
    for (name, value) in [
        ("SHMEM_FT_INTERVAL", "2.5"),
        ("SHMEM_FT_BACKUP_MODE", "raid5"),
        ("SHMEM_FT_GROUP_SIZE", "3"),
        ("SHMEM_FT_FABRIC", "auto"),
        ("SHMEM_SYMMETRIC_SIZE", "16M"),
    ] {
        let mut rows = outcome.out.lines().map(|line| line.split_whitespace());
        let holds = rows.any(|mut words| words.next() == Some(name) && words.next() == Some(value));
        outcome.check(holds, &format!("{name} {value} was expected"));
    }
}
