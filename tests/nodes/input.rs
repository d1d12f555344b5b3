//! The standard input of a job whose PE 0 is on another host.

use super::net::Net;
use super::support::{Job, program};

/// Returns a job whose PE 0 is on the second of two hosts.
fn far(net: &Net, script: &str) -> Job {
    net.job(&[0, 2]).args(&["--fabric", "shm", "sh", "-c", script])
}

#[test]
fn pe_0_reads_it_to_its_end_and_the_others_have_none() {
    let net = Net::new(2);
    let outcome = far(&net, "cat; echo end").input("one\ntwo\0three").run();
    outcome.status(0);
    let mut lines: Vec<&str> = outcome.out.lines().collect();
    lines.sort_unstable();
    outcome.check(lines == ["end", "one", "two\0threeend"], "its two lines, and two ends");
    let outcome = far(&net, "cat; echo end").input("").run();
    outcome.status(0).check(outcome.out == "end\nend\n", "an end at once");
}

#[test]
fn many_mebibytes_arrive_whole() {
    let net = Net::new(2);
    let make = "seq 1 20000000 | head -c 33554432 > big; exec < big";
    let outcome = far(&net, "sha256sum").after(make).leaves("big").run();
    let sums: Vec<&str> = outcome.status(0).out.lines().collect();
    let wanted = "0e313fb3822916a438487cba6298a34fd5b05890ca3845a8f3909c2f3f8df64c";
    outcome.check(sums.iter().any(|sum| sum.starts_with(wanted)), "the sum of all bytes");
}

/// Input that the program does not read is not read from the writer either, apart from buffers.
#[test]
fn a_program_that_reads_nothing_delays_only_the_writer() {
    let net = Net::new(2);
    let endless = "mkfifo full; (seq 100000000; echo all > written) > full & exec < full";
    let outcome = far(&net, "echo done").after(endless).leaves("full").with_orphans().run();
    outcome.status(0).check(outcome.out == "done\ndone\n", "the end of both");
}

#[test]
fn stdin_none_is_empty_on_every_pe() {
    let net = Net::new(2);
    let job = net.job(&[0, 2]).args(&["--stdin", "none", "--fabric", "shm", "cat"]);
    let outcome = job.input("not read\n").run();
    outcome.status(0).check(outcome.out.is_empty(), "nothing is read");
}

#[test]
fn a_substitute_continues_reading_where_the_lost_pe_stopped() {
    needs!(has_ucx);
    let net = Net::new(3);
    let lines: String = (1..=8).map(|line| format!("{line}\n")).collect();
    let job = |words: &[&str]| {
        let job = net.job(&[1, 1, 1]).args(&["--fabric", "ucx"]).mode("raid5").args(words);
        job.program(&program("input"), &[]).input(&lines).run()
    };
    for words in [&[][..], &["--kill", "0@4:after"]] {
        let outcome = job(words);
        outcome.status(0).check(outcome.out == "sum 36\n", "the sum of all lines was expected");
    }
    // Data in the pipe of a lost node is lost with it.
    let outcome = job(&["--kill-node", "0@4:after"]);
    outcome.status(0).check(outcome.out.starts_with("sum "), "an end was expected");
}
