//! Messages of `oshrun` about a job: by default, with `-v`, with `-q`, and at the end.

use super::support::jacobi::{self, TINY};
use super::support::{Job, Outcome};

/// Runs a job of four PEs on four nodes that loses a process and then a node.
fn two_losses(options: &[&str]) -> Outcome {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]).args(options);
    let outcome = jacobi::job(job.kill(&["1@2"]).kill_node(&["2@4"]), TINY).run();
    outcome.right_sum(TINY);
    outcome
}

#[test]
fn losses_and_recoveries_are_reported_by_default_and_summarized() {
    let outcome = two_losses(&[]);
    let lines: Vec<&str> = outcome.lines("oshrun: ").collect();
    let begin = [
        "PE 1 was killed by SIGKILL",
        "all PEs resume from checkpoint 2 (PE 1 adopted) after ",
        "node 2 was lost with PE 2",
        "all PEs resume from checkpoint 4 (PE 2 rebuilt from PEs 0,1,3) after ",
        "the job now does not survive the loss of node1 (2 members of group 0 are in node1); ",
        "parity groups change from checkpoint 5 on: 2 groups of 2, parity 1: ",
        "the job now survives the loss of any one node or domain",
        "9 checkpoints took ",
        "each PE needed ",
        "lost 1 PE and 1 node: ",
    ];
    outcome.check(lines.len() == begin.len(), "ten lines were expected");
    for (line, begin) in lines.iter().zip(begin) {
        outcome.check(line.starts_with(begin), &format!("`{begin}` was expected: {line}"));
    }
    for line in [lines[1], lines[3]] {
        outcome.check(line.ends_with(" of it the restart)"), "a part of the recovery");
    }
    let parts = [" % of the ", " of memory to protect ", " of repeated work, "];
    parts.iter().for_each(|part| _ = outcome.says(part));
}

/// The line of the restart, the summary, and `recovery` in the report give the same time.
#[test]
fn a_recovery_has_one_time_wherever_it_is_reported() {
    let folder = std::env::temp_dir().join(format!("raidshmem-one-time-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let report = folder.join("run.json");
    let words = ["--report", report.to_str().expect("a plain name")];
    let job = || Job::new(4).mode("raid5").args(&["--nodes", "4"]).args(&words);
    let recovery = || {
        let text = std::fs::read_to_string(&report).expect("a report");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json["totals"]["recovery"].as_f64().expect("seconds")
    };
    let outcome = jacobi::job(job().kill(&["1@2"]), TINY).run();
    outcome.right_sum(TINY);
    let between = |begin: &str, end: &str| {
        let (_, rest) = outcome.err.split_once(begin).expect("its beginning");
        rest.split_once(end).expect("its end").0.to_owned()
    };
    let told = between("(PE 1 adopted) after ", " (");
    assert_eq!(between(" of repeated work, ", " until all PEs resumed"), told, "{}", outcome.err);
    let millis = recovery() * 1e3;
    let shown =
        if millis < 1e3 { format!("{millis:.1} ms") } else { format!("{:.2} s", millis / 1e3) };
    assert_eq!(shown, told);
    let outcome = jacobi::job(job().kill_node(&["1@2", "2@2"]), TINY).run();
    outcome.same_verdict();
    outcome.says("oshrun: lost 2 nodes: the job ended before all PEs resumed");
    assert_eq!(recovery(), 0.0);
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn each_checkpoint_has_a_line_with_the_time_if_asked() {
    let outcome = two_losses(&["-v"]);
    let lines = outcome.lines("oshrun: checkpoint ");
    let stamped = lines.filter(|line| line.contains(" at ") && line.ends_with('Z')).count();
    outcome.check(stamped == 9, "a time for each checkpoint");
    outcome.check(outcome.count("all PEs resume from checkpoint ") == 2, "each restart once");
}

#[test]
fn nothing_but_errors_is_printed_if_asked() {
    let outcome = two_losses(&["-q"]);
    outcome.check(outcome.count("oshrun: ") == 0, "nothing was expected");
    let job = Job::new(4).mode("raid5").args(&["-q", "--nodes", "4"]);
    let outcome = jacobi::job(job.kill_node(&["1@2", "2@2"]), TINY).run();
    let verdict = outcome.same_verdict();
    assert_eq!(verdict, "unrecoverable: group 0 lost PEs 1,2, parity 1");
    outcome.check(outcome.count("oshrun: ") == 1, "one line was expected");
}

/// A job without checkpoints and losses prints nothing of its own.
#[test]
fn a_job_without_news_has_no_summary() {
    let job = Job::new(2).args(&["sh", "-c", "true"]);
    let outcome = job.run();
    outcome.status(0).check(outcome.err.is_empty(), "nothing was expected");
}

#[test]
fn a_rule_that_never_triggered_is_reported() {
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4"]);
    let outcome = jacobi::job(job.kill(&["1@2", "3@77:copy"]), TINY).run();
    outcome.right_sum(TINY).says("oshrun: rule 3@77:copy never triggered: ");
    outcome.check(outcome.count(" never triggered") == 1, "the other rule triggered");
}

#[test]
fn an_impossible_group_size_is_reported() {
    let groups = |pes: usize, size: &str| {
        let job = Job::new(pes).mode("raid5").args(&["--group", size]);
        jacobi::job(job, TINY).run()
    };
    let line = "oshrun: groups of 3 were asked for; 4 PEs make groups of 4";
    groups(4, "3").right_sum(TINY).says(line);
    let outcome = groups(4, "2");
    outcome.right_sum(TINY).check(outcome.count("were asked for") == 0, "two of two");
}
