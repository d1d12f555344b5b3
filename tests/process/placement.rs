//! Failure domains that the user defines: a rack of two nodes is lost at once, and the sum is
//! right.

use std::path::PathBuf;

use super::support::jacobi::{self, SMALL};
use super::support::{Job, Outcome, Sweep};

const RACKS: &str = "[rack]\nleft = ['node[0-1]']\nright = ['node[2-3]']\n";

/// A file with this text, removed when dropped.
struct Text(PathBuf);

impl Text {
    fn new(name: &str, text: &str) -> Text {
        let name = format!("{}-{name}.toml", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("a file for the test");
        Text(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("plain names")
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(racks: &Text, line: &str) -> Outcome {
    let job = Job::line(line).env("SHMEM_FT_DOMAINS", racks.path());
    jacobi::job(job.args(&["--nodes", "4", "--verbose"]), SMALL).run()
}

#[test]
fn a_whole_rack_is_lost_at_once() {
    let racks = Text::new("racks", RACKS);
    for (rules, resumed) in [
        // The count of a barrier is lost with PE 0: before one, not after.
        ("--kill-node 0@3:before --kill-node 1@3:before", 2),
        ("--kill-node 2@3:before --kill-node 3@3:before", 2),
        ("--kill-node 2@3:copy --kill-node 3@3:copy", 3),
    ] {
        Sweep::of([format!("-n {{4|8}} --mode {{raid5|rs}} {rules}")]).each(|cell| {
            let outcome = run(&racks, &cell.line);
            outcome.right_sum(SMALL).says("and of any one node or rack");
            outcome.check(outcome.count("was lost with PE") == 2, "two nodes were to be lost");
            outcome.says(&format!("all PEs resume from checkpoint {resumed} "));
        });
    }
}

/// The substitutes of a lost rack keep away from their groups, so that another node can be lost.
#[test]
fn after_a_rack_a_node_is_lost() {
    let racks = Text::new("again", RACKS);
    for node in [2, 3] {
        let rules = format!("--kill-node 0@3 --kill-node 1@3 --kill-node {node}@6");
        run(&racks, &format!("--mode raid5 {rules}")).right_sum(SMALL);
    }
}

/// Without the file such a loss is one too many.
#[test]
fn unnamed_racks_are_not_survived() {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]).kill_node(&["0@3", "1@3:verify"]);
    let outcome = jacobi::job(job, SMALL).run();
    outcome.check(outcome.same_verdict().contains("lost PEs 0,1, parity 1"), "both PEs");
}

#[test]
fn a_topology_too_small_for_the_parity_is_refused_or_reported() {
    let racks = Text::new("strict", RACKS);
    let job = |strict: &str| {
        let job = Job::new(4).mode("raid5").env("SHMEM_FT_DOMAINS", racks.path());
        let job = job.env("SHMEM_FT_GROUP_SIZE", "4").env("SHMEM_FT_PLACEMENT", strict);
        jacobi::job(job.args(&["--nodes", "4"]), SMALL)
    };
    let words = "and of any one node, not of a whole rack: group 0 has 2 members in rack left";
    job("strict").run().status(2).says(words).says("SHMEM_FT_PLACEMENT=strict");
    job("spread").run().right_sum(SMALL).says(words);
}

#[test]
fn a_file_that_is_wrong_is_one_line_before_anything_starts() {
    let long = "[rack]\nleft = ['node[0-2]']\n";
    for (name, text, parts) in [
        ("syntax", "[rack\n", [":1: ", "expected tables"]),
        ("unknown", long, [":1: host node3 of this job is in no rack", "expected a host"]),
        (
            "twice",
            &format!("{long}right = ['node[2-3]']\n"),
            [":3: host node2", "one for each host"],
        ),
    ] {
        let file = Text::new(name, text);
        let job = Job::of(&["-n", "4", "--nodes", "4", "true"]);
        let outcome = job.env("SHMEM_FT_DOMAINS", file.path()).run();
        outcome.status(2).says(&format!("oshrun: SHMEM_FT_DOMAINS: {}", file.path()));
        for part in parts {
            outcome.says(part);
        }
        outcome.check(outcome.err.lines().count() == 1, "one line was expected");
    }
    let missing = Job::of(&["-n", "4", "true"]).env("SHMEM_FT_DOMAINS", "no-such-file").run();
    missing.status(2).says("SHMEM_FT_DOMAINS=no-such-file: No such file");
    let endless = Job::of(&["-n", "4", "true"]).env("SHMEM_FT_DOMAINS", "/dev/zero").run();
    endless.status(2).says("SHMEM_FT_DOMAINS=/dev/zero: file too large");
}
