//! The scrub between hosts: damage is repaired from PEs that are reached only over the network,
//! before the loss that needs it.

use raidshmem_core::layout::{STAMP, TILE};

use super::net::{Net, agent};
use super::support::image::{self, Image};
use super::support::program;
use super::support::stall::let_end;

const HOSTS: usize = 4;

/// One tile of each kind, on each of three PEs: the loss that follows needs them all.
#[test]
fn damage_is_repaired_over_the_network_before_the_loss_that_needs_it() {
    needs!(has_ucx);
    type Spot = (&'static str, fn(&Image) -> usize);
    let spots: [(usize, Spot); 3] = [
        (0, ("snapshot", |image| image.place(image.layout.snapshots[0], 5, 1234))),
        (2, ("parity", |image| image.place(image.layout.slots[1], 1, 99))), // of checkpoint 3
        (3, ("snapshot", |image| image.place(image.layout.snapshots[0], 7, TILE + STAMP - 1))),
    ];
    for mode in ["raid5", "rs"] {
        let net = Net::new(HOSTS);
        let job = net.job(&[1; HOSTS]).args(&["--verbose", "--fabric", "ucx"]).mode(mode);
        let job = job.env("SHMEM_FT_SCRUB", "64M").kill_node(&["1@4:before"]).with_orphans();
        let mut job = job.program(&program("pause"), &[]).until("ready");
        for (pe, (part, spot)) in spots {
            let image = image::all(agent(&job, pe).pid).pop().expect("the host has a PE");
            assert_eq!(image.pe, pe);
            let at = spot(&image);
            let before = image.read(at, 1);
            image.flip(at, 3);
            let line = job.wait_for(&format!("PE {pe}: damage in its {part} of checkpoint 3"));
            assert!(line.contains(", repaired from PEs "), "{line}");
            assert_eq!(image.read(at, 1), before, "{mode}: {line}");
        }
        let outcome = let_end(job);
        // Every PE should finish with the right bytes.
        outcome.all_print(HOSTS, " is done").says("node 1 was lost with PE 1");
        outcome.says("all PEs resume from checkpoint 3 ");
        outcome.check(outcome.count("damage in") == spots.len(), "one line about each");
    }
}
