//! Checkpoints that save only changes: a loss at every step of one, in every mode, and a second
//! loss later, so that the rebuild uses parity that was kept, carried and updated over several
//! checkpoints. The program compares all of its memory after each restart.

use super::sparse;

/// Loses a PE at every step and one later; with `SHMEM_FT_ADOPT=0` a dead process is rebuilt from
/// the parity.
fn a_loss_at_every_step_and_one_later(mode: &str) {
    sparse(
        &format!("--mode {mode} SHMEM_FT_DELTA=on SHMEM_FT_ADOPT=0"),
        &[
            "--kill {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@13",
            "--kill {1,2,3,0}@4 --kill {0,1,2,3}@8:{checkpoint} --kill {2,3,0,1}@12:copy",
        ],
    );
}

of_each_mode!(a_loss_at_every_step_and_one_later: raid4 raid5 rs);

fn memory_that_is_adopted_and_nodes(mode: &str) {
    let process = "--kill {0,1,2,3}@9:{checkpoint} --kill {1,2,3,0}@12:copy";
    let rows = match mode {
        "single" => &["--kill 1@9 --kill 2@12:copy"][..],
        "double" => &[process, "--nodes 4 --kill-node 1@13"],
        _ => &[process, "--nodes 4 --kill-node {0,1,2,3}@9:{checkpoint}"],
    };
    sparse(&format!("--mode {mode} SHMEM_FT_DELTA=on SHMEM_FT_ADOPT=1"), rows);
}

of_each_mode!(memory_that_is_adopted_and_nodes: single double raid4 raid5 rs);

#[test]
fn each_of_the_choices_is_right() {
    needs!(long);
    let begin = "--mode {double|raid5|rs} SHMEM_FT_DELTA={auto|on|off} SHMEM_FT_ADOPT=0";
    sparse(begin, &["--kill 3@11", "--kill 2@5:copied --kill 0@14"]);
}

/// If few of the many sources of a parity tile changed, the tile is updated.
fn parity_that_was_brought_up_to_date(mode: &str) {
    let (pes, row) = match mode {
        "rs" => (7, "--kill {0,1,2,3,4,5,6}@9:{checkpoint} --kill {1,2,3,4,5,6,0}@13"),
        _ => (6, "--kill {0,1,2,3,4,5}@9:{checkpoint} --kill {1,2,3,4,5,0}@13"),
    };
    sparse(&format!("-n {pes} --mode {mode} SHMEM_FT_DELTA=on SHMEM_FT_ADOPT=0"), &[row]);
}

of_each_mode!(parity_that_was_brought_up_to_date: raid4 raid5 rs);

/// The update when the old and new sources come over a network.
#[test]
fn parity_that_was_updated_remotely() {
    needs!(has_ucx);
    let row = "--kill-node 2@9:{encode|encoded|copied} --kill-node 4@13";
    sparse("-n 6 --nodes 6 --fabric ucx --mode raid5 SHMEM_FT_DELTA=on SHMEM_FT_ADOPT=1", &[row]);
}
