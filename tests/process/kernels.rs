//! Whole jobs with every codec kernel that this machine can run, as on machines without its better
//! instructions.
//!
//! Left out: the bytes of each kernel, which the codec's tests compare.

use raidshmem_codec::kernel::Kernel;

use super::support::jacobi::{self, SMALL};
use super::support::{Job, program};

const KNOB: &str = "RAIDSHMEM_KERNEL";

/// Returns a job of six PEs on six nodes; two of them are lost if the parity covers two.
fn job(mode: &str) -> Job {
    let job = Job::new(6).mode(mode).args(&["--nodes", "6"]).kill_node(&["1@3:encoded"]);
    if mode == "rs" { job.kill_node(&["4@3:encoded"]) } else { job }
}

#[test]
fn lost_nodes_lose_no_byte_on_any_of_them() {
    needs!(long);
    for kernel in Kernel::available() {
        for mode in ["raid5", "rs"] {
            let job = job(mode).env(KNOB, kernel.name());
            jacobi::job(job, SMALL).run().right_sum(SMALL);
        }
    }
}

/// Process ids choose the kernels, so substitutes seldom use their predecessor's.
#[test]
fn pes_with_different_ones_rebuild_each_other() {
    let names: Vec<&str> = Kernel::available().iter().map(|kernel| kernel.name()).collect();
    let choose = format!(
        "command=\"$*\"; set -- {}; shift $(($$ % {})); export {KNOB}=$1; exec $command",
        names.join(" "),
        names.len()
    );
    let jacobi = program("jacobi");
    let jacobi = jacobi.to_str().expect("test programs have plain names");
    for mode in ["raid5", "rs"] {
        let words = [&["sh", "-c", &choose, "sh", jacobi], SMALL].concat();
        job(mode).args(&words).run().right_sum(SMALL);
    }
}
