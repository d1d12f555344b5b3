//! Tests of shrink mode.

use super::*;
use crate::quantity::ViewNumber;
use crate::settings::{Rollback, Substitute};
use crate::view::PeState;

/// Creates four PEs on nodes of their own, and a spare that is never used.
fn four() -> Cluster {
    let settings = Settings {
        substitute: Substitute::Shrink,
        rollback: Rollback::None,
        ..settings(BackupMode::None)
    };
    Cluster::four(&settings, 1)
}

fn come_to_the_end(cluster: &mut Cluster, pes: &[u32]) {
    for &pe in pes {
        cluster.says(pe, PeMessage::Finalizing { joined: ViewNumber(1), cut: false });
    }
}

fn exit(cluster: &mut Cluster, pe: u32, status: i32) {
    cluster.says(pe, PeMessage::Finalized);
    let proc = cluster.proc_of(pe);
    cluster.event(MembershipEvent::Ended { proc, how: Ended::Exited(status) });
}

fn told_to_finish(cluster: &Cluster) -> bool {
    cluster.sent.iter().any(|(_, message)| matches!(message, Down::Finish))
}

#[test]
fn a_lost_pe_leaves_a_hole_and_the_others_end_without_it() {
    let mut cluster = four();
    let started = cluster.machine.procs.next;
    cluster.die(2);
    let hole = cluster.member(2);
    assert_eq!((hole.state, hole.incarnation.0, hole.memory), (State::ProcessDead, 0, 0));
    assert_eq!((cluster.machine.view().number.0, cluster.machine.procs.next), (2, started));
    assert!(cluster.wiped().is_empty());
    assert_eq!(cluster.machine.standing()[2], PeState::Hole);

    come_to_the_end(&mut cluster, &[0, 1]);
    assert!(!told_to_finish(&cluster), "PE 3 computes");
    come_to_the_end(&mut cluster, &[3]);
    assert!(told_to_finish(&cluster));
    [0, 1, 3].into_iter().for_each(|pe| exit(&mut cluster, pe, 0));
    assert_eq!(cluster.ended(), (0, ""));
    let line = "PE 2 was lost, and the remaining PEs finished";
    assert!(cluster.log.iter().any(|said| said == line), "{:?}", cluster.log);
}

#[test]
fn the_last_that_is_waited_for_at_the_end_may_be_lost() {
    let mut cluster = four();
    come_to_the_end(&mut cluster, &[0, 1, 2]);
    assert!(!told_to_finish(&cluster));
    cluster.die(3);
    assert!(told_to_finish(&cluster));
}

#[test]
fn the_status_is_the_first_of_the_living_that_is_not_0() {
    let mut cluster = four();
    let proc = cluster.proc_of(0);
    cluster.event(MembershipEvent::Ended { proc, how: Ended::Exited(9) }); // without shmem_finalize
    come_to_the_end(&mut cluster, &[1, 2, 3]);
    for (pe, status) in [(1, 0), (2, 5), (3, 7)] {
        assert!(cluster.end.is_none());
        exit(&mut cluster, pe, status);
    }
    assert_eq!(cluster.ended(), (5, "PE 2 exited with status 5 after shmem_finalize"));
}

#[test]
fn nodes_are_lost_one_by_one_until_none_is_left() {
    let mut cluster = four();
    for (lost, node) in [1, 3, 0].into_iter().enumerate() {
        cluster.event(MembershipEvent::NodeLost { node });
        assert_eq!(cluster.member(node as usize).state, State::NodeDead);
        assert_eq!(cluster.machine.view().number, ViewNumber(2 + lost as u64));
        assert!(cluster.end.is_none() && cluster.wiped().is_empty());
    }
    cluster.die(2);
    assert_eq!(cluster.ended(), (UNRECOVERABLE, "unrecoverable: every PE was lost"));
}

#[test]
fn a_node_that_is_lost_after_its_pe_makes_no_second_hole() {
    let mut cluster = four();
    cluster.die(1);
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert_eq!(cluster.machine.view().number, ViewNumber(2));
    assert!(cluster.log.iter().any(|line| line == "node 1 was lost; it carried no PE"));
}
