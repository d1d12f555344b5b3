//! Capabilities in company: each pair of choices that settings allow is in some job, in which a
//! process or a node is lost.
//!
//! A job takes one choice of each factor. The jobs are a covering array: every pair of choices of
//! two factors that some valid job has. The library itself says which settings are valid; [`End`]
//! says how a job ends. The program compares all of its memory after each checkpoint and restart.

use std::collections::BTreeSet;

use raidshmem_core::settings::{BackupMode, Settings, Substitute};

use super::support::random::Random;
use super::support::{Job, networks, program, sample_long, skip};

/// The choices of each factor: options and settings, and arguments of the program after a colon.
const FACTORS: [&[&str]; 19] = [
    &[
        "",
        "--nodes 4",
        "--nodes 4 --fabric ucx",
        "--nodes 2 --fabric ucx",
        "--nodes 4 --fabric ofi",
    ],
    &[
        ": process 2 4",
        ": process 0 7",
        ": node 1 3",
        "--kill 1@3:encode : none 0 0",
        "--kill-node 1@4:copied : none 0 0",
        "--kill 0@6:copy : process 2 3",
        "--kill 2@3:settle : process 1 3",
        ": process 3 0",
    ],
    &["--mode raid5", "--mode rs", "--mode raid4", "--mode double", "--mode single"],
    &["", "SHMEM_FT_ROLLBACK=local"],
    &["", "SHMEM_FT_SNAPSHOTS=2"],
    &["", "SHMEM_FT_BACKGROUND=auto", "SHMEM_FT_BACKGROUND=on"],
    &["", "SHMEM_FT_DELTA=on", "SHMEM_FT_DELTA=off"],
    &["", "SHMEM_FT_TRACK=pages", "SHMEM_FT_TRACK=digests"],
    &["", ": readonly"],
    &["", ": private"],
    &["", ": excluded"],
    &[
        "",
        "SHMEM_FT_STORE=sets SHMEM_FT_STORE_EVERY=1",
        "SHMEM_FT_STORE=sets SHMEM_FT_STORE_EVERY=2 SHMEM_FT_STORE_LAYOUT=local",
    ],
    &["", "SHMEM_FT_INTERVAL=0.001"],
    &["", "SHMEM_FT_SCRUB=off", "SHMEM_FT_SCRUB=1G"],
    &["", "SHMEM_FT_ADOPT=0"],
    &["", "--spares 2 SHMEM_FT_SUBSTITUTE=spare", "--spares 2"],
    &["", "SHMEM_FT_THREADS=2"],
    &["", "SHMEM_FT_AFFINITY=0 SHMEM_FT_BIND=none"],
    &["", "SHMEM_FT_GROUP_SIZE=2 SHMEM_FT_COLLECTIVES=doubling"],
];

/// The choice of each factor.
type Row = [usize; FACTORS.len()];

/// A job's end.
#[derive(PartialEq, Eq)]
enum End {
    /// With the right memory.
    Right,
    /// With one verdict, since more is lost than the mode covers.
    Verdict,
    /// With one or the other, depending on when processes notice a loss.
    Either,
}

/// Returns all choices of a row as one line, and the arguments of the program.
fn line(row: &Row) -> [String; 2] {
    let choices = FACTORS.iter().zip(row).map(|(all, &nth)| all[nth]);
    let (options, words): (Vec<&str>, Vec<&str>) =
        choices.map(|choice| choice.split_once(": ").unwrap_or((choice, ""))).unzip();
    [options, words].map(|all| all.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the settings of a line; None if the library refuses them.
fn settings(line: &str) -> Option<Settings> {
    let mut words = line.split_whitespace();
    let mut vars = Vec::new();
    while let Some(word) = words.next() {
        if word == "--mode" {
            vars.push(("SHMEM_FT_BACKUP_MODE".to_owned(), words.next()?.to_owned()));
        } else if let Some((name, value)) = word.split_once('=') {
            vars.push((name.to_owned(), value.to_owned()));
        }
    }
    Settings::from_env(vars.into_iter()).ok()
}

/// Returns true if the library accepts the settings of a row, and its job means something.
fn is_valid(row: &Row) -> bool {
    let [line, words] = line(row);
    let Some(settings) = settings(&line) else { return false };
    let has_parity = settings.group_size.is_none_or(|size| size > settings.parity);
    let has_nodes = line.contains("--nodes") || !loses_node(&line, &words);
    has_parity && has_nodes
}

fn loses_node(line: &str, words: &str) -> bool {
    words.starts_with("node") || line.contains("--kill-node")
}

/// Returns the end of a job, which may have said at its start that it does not survive the loss of
/// a whole node.
fn end(line: &str, words: &str, not_of_a_node: bool) -> End {
    let settings = settings(line).expect("a valid row");
    let mode = settings.backup_mode;
    let is_node = loses_node(line, words);
    // The memory of a process is lost with it unless a substitute on its node adopts it.
    let is_memory = is_node || !settings.adopt || settings.substitute == Substitute::Spare;
    match mode {
        _ if words.starts_with("process 3 0") => End::Verdict,
        _ if is_node && not_of_a_node => End::Verdict,
        BackupMode::Single if is_memory || line.contains("@") => End::Either,
        // Two at once.
        _ if line.contains(":settle") && is_memory && settings.parity < 2 => End::Either,
        BackupMode::Double if is_memory && line.contains("encode") => End::Either,
        _ => End::Right,
    }
}

/// Returns every pair of choices of a row.
fn pairs(row: &Row) -> impl Iterator<Item = [(usize, usize); 2]> {
    let row = *row;
    let all = (0..row.len()).flat_map(move |a| (a + 1..row.len()).map(move |b| [a, b]));
    all.map(move |both| both.map(|factor| (factor, row[factor])))
}

/// Returns a valid row with these choices, the others drawn; None after many attempts.
fn drawn(random: &mut Random, fixed: &[(usize, usize)]) -> Option<Row> {
    let mut attempt = || {
        let mut row: Row = FACTORS.map(|all| random.below(all.len()));
        fixed.iter().for_each(|&(factor, choice)| row[factor] = choice);
        row
    };
    (0..300).map(|_| attempt()).find(is_valid)
}

/// Returns rows that have every pair of choices that a valid row has.
fn covering(random: &mut Random) -> Vec<Row> {
    let all = (0..FACTORS.len()).flat_map(|a| (a + 1..FACTORS.len()).map(move |b| (a, b)));
    let choices = all.flat_map(|(a, b)| {
        let each = move |x| (0..FACTORS[b].len()).map(move |y| [(a, x), (b, y)]);
        (0..FACTORS[a].len()).flat_map(each)
    });
    let mut open: BTreeSet<_> = choices.collect();
    let mut rows = Vec::new();
    while let Some(pair) = open.iter().next().copied() {
        let candidates: Vec<Row> = (0..40).filter_map(|_| drawn(random, &pair)).collect();
        let fresh = |row: &Row| pairs(row).filter(|pair| open.contains(pair)).count();
        match candidates.into_iter().max_by_key(fresh) {
            Some(row) => {
                pairs(&row).for_each(|pair| _ = open.remove(&pair));
                rows.push(row);
            }
            None => _ = open.remove(&pair), // the choices contradict each other
        }
    }
    rows
}

#[test]
fn each_pair_of_choices_works_in_company() {
    run_all(sample_long(covering(&mut Random::new(1)), 16, 100));
}

/// Runs jobs of drawn rows for as long as the soak lasts.
#[test]
fn any_choices_work_in_company_when_soaking() {
    if std::env::var_os("RAIDSHMEM_SOAK").is_none() {
        return skip("soak", "RAIDSHMEM_SOAK is not set");
    }
    let mut random = Random::new(std::process::id().into());
    let rows = std::iter::repeat_with(|| drawn(&mut random, &[])).flatten();
    run_all(rows.take(600));
}

fn run_all(rows: impl IntoIterator<Item = Row>) {
    let networks = networks();
    for row in rows {
        let [line, words] = line(&row);
        let mut needed = ["ucx", "ofi"].into_iter().filter(|net| line.contains(net));
        if needed.all(|net| networks.contains(&net)) {
            run(&line, &words);
        }
    }
}

fn run(line: &str, words: &str) {
    let args: Vec<&str> = words.split(' ').collect();
    let mut job = Job::line(&format!("-n 4 {line}")).env("SHMEM_SYMMETRIC_SIZE", "4M");
    if line.contains("SHMEM_FT_STORE") {
        job = job.leaves("sets");
    }
    let outcome = job.with_orphans().program(&program("capabilities"), &args).run();
    let is_verdict = outcome.status == 3 && outcome.count("unrecoverable: ") == 1;
    let not_of_a_node = outcome.count("not of a whole node") > 0;
    match end(line, words, not_of_a_node) {
        End::Verdict => outcome.check(is_verdict, "a verdict was expected"),
        End::Either if is_verdict => {}
        End::Either | End::Right => {
            outcome.status(0).prints("capabilities: as they should be");
        }
    }
}
