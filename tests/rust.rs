//! Jacobi in safe Rust: the same bytes as plain loops and as the one in C, whatever dies.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;

use support::Job;
use support::jacobi::SMALL;

/// The example as `cargo test` built it, beside the binaries.
fn example() -> PathBuf {
    let oshrun = PathBuf::from(env!("CARGO_BIN_EXE_oshrun"));
    oshrun.parent().expect("a folder").join("examples").join("jacobi")
}

fn job(pes: usize) -> Job {
    Job::new(pes).mode("raid5")
}

#[test]
fn any_number_of_pes_gives_the_bytes_of_plain_loops() {
    for pes in [1, 2, 3, 5] {
        Job::new(pes).program(&example(), SMALL).run().right_sum(SMALL);
    }
}

#[test]
fn a_process_lost_at_every_step_of_a_checkpoint() {
    for point in ["before", "quiesce", "encode", "encoded", "copy", "copied", "after"] {
        let rules = [format!("1@3:{point}"), format!("0@6:{point}")];
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        job(4).kill(&rules).program(&example(), SMALL).run().right_sum(SMALL);
    }
}

#[test]
fn a_node_lost_under_way_and_a_process_in_the_last_step() {
    let nodes = job(4).args(&["--nodes", "4", "--spares", "1"]);
    nodes.kill_node(&["2@4"]).program(&example(), SMALL).run().right_sum(SMALL);
    job(4).kill(&["3@10:after"]).program(&example(), SMALL).run().right_sum(SMALL);
}
