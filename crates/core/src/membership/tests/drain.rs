//! Planned losses: a node is drained of its PEs after a checkpoint.

use super::super::DrainRefusal;
use super::*;
use crate::settings::Rollback;
use crate::view::MoveRequest;

fn raid5() -> Settings {
    settings(BackupMode::Raid5)
}

/// Six PEs on three nodes, two on each, in two groups; a node with spares.
fn six(spares: usize) -> Cluster {
    let (node_of, spares) = (vec![0, 0, 1, 1, 2, 2], vec![3; spares]);
    let shape = Shape { node_of, nodes: 4, spares, fabric: Fabric::Shm };
    Cluster::new(&shape, &raid5(), vec![0, 1, 0, 1, 0, 1])
}

/// Requests a drain; returns the request as PEs see it.
fn ask(cluster: &mut Cluster, node: u32) -> MoveRequest {
    cluster.event(MembershipEvent::Drain { node });
    known(cluster).expect("it was not refused")
}

/// Returns the request that PEs of node 0 know.
fn known(cluster: &Cluster) -> Option<MoveRequest> {
    let sent = cluster.sent.iter().rev().find_map(|(_, message)| match message {
        Down::Drain(request) => Some(Some(*request)),
        Down::DrainOver { .. } => Some(None),
        _ => None,
    });
    sent.flatten()
}

pub(super) fn waits(cluster: &mut Cluster, pe: u32, request: MoveRequest) {
    let (view, checkpoint) = (cluster.machine.view().number, CheckpointNumber(7));
    cluster.says(pe, PeMessage::Drained { request, view, checkpoint });
}

pub(super) fn resume(cluster: &mut Cluster) {
    let (checkpoint, took) = (CheckpointNumber(7), Duration::ZERO);
    let view = cluster.machine.view().number;
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
}

fn has(cluster: &Cluster, line: &str) -> bool {
    cluster.log.iter().any(|found| found == line)
}

/// Returns the nodes to which PEs have moved, and true if some compute again, of the last drain.
fn moved(cluster: &Cluster) -> Option<String> {
    let last = cluster.log.iter().rfind(|line| line.starts_with("Drained"))?;
    last.split_once("to: ").map(|(_, rest)| rest.trim_end_matches(" }").to_owned())
}

/// Drains a node whose PEs wait, up to its end.
fn leave(cluster: &mut Cluster, node: u32, pes: &[u32]) {
    let request = ask(cluster, node);
    for &pe in pes {
        assert!(!has(cluster, &format!("kill {node}")), "PE {pe} computes");
        waits(cluster, pe, request);
    }
    assert!(has(cluster, &format!("kill {node}")), "{:?}", cluster.log);
    let before = cluster.sent.len();
    cluster.event(MembershipEvent::NodeLost { node });
    assert_eq!(known(cluster), None);
    let sent = cluster.sent[before..].iter().map(|(_, message)| message);
    let order = sent.filter(|message| matches!(message, Down::Show(_) | Down::DrainOver { .. }));
    let first = order.into_iter().next();
    assert!(matches!(first, Some(Down::Show(_))), "PEs that wait see the loss first: {first:?}");
}

#[test]
fn a_node_is_killed_once_all_its_pes_wait() {
    let mut cluster = six(2);
    leave(&mut cluster, 1, &[2, 3]);
    assert!(has(&cluster, "node 1 leaves the job after checkpoint 7, and PEs 2,3 move"));
    assert_eq!(cluster.machine.drained_node(), Some(1), "its PEs are on their way");
    resume(&mut cluster);
    assert_eq!(moved(&cluster).as_deref(), Some("[3, 3], repeats: false"));
    assert_eq!((cluster.machine.drained_node(), known(&cluster)), (None, None));
}

#[test]
fn nodes_are_drained_one_after_another_without_spares() {
    let mut cluster = Cluster::four(&raid5(), 0);
    for (node, left) in [(1, 3), (3, 2)] {
        let pes: Vec<u32> = (0..4).filter(|&pe| cluster.member(pe as usize).node == node).collect();
        if let Some(DrainRefusal::Fatal { .. }) = cluster.machine.refuses_move(Some(node)) {
            continue; // it has taken over a PE of its group
        }
        leave(&mut cluster, node, &pes);
        resume(&mut cluster);
        assert_eq!(cluster.machine.nodes.all().count(), left);
        assert!(cluster.machine.view().whole());
    }
}

#[test]
fn a_node_without_pes_leaves_at_once() {
    let mut cluster = six(2);
    cluster.event(MembershipEvent::Drain { node: 3 });
    assert!(has(&cluster, "kill 3"));
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    assert!(has(&cluster, "node 3 leaves the job"));
    assert_eq!(moved(&cluster).as_deref(), Some("[], repeats: false"));
    assert!(cluster.machine.view().whole() && cluster.machine.spares(None) == 0);
}

#[test]
fn a_request_that_cannot_be_met_is_refused() {
    let spare = Settings { substitute: Substitute::Spare, ..raid5() };
    let shrinks = Settings {
        substitute: Substitute::Shrink,
        rollback: Rollback::None,
        ..settings(BackupMode::Raid5)
    };
    let refused = |settings: &Settings, groups: Vec<usize>, node: u32| {
        let (node_of, spares) = (vec![0, 1, 2, 3], Vec::new());
        let shape = Shape { node_of, nodes: 4, spares, fabric: Fabric::Shm };
        let mut cluster = Cluster::new(&shape, settings, groups);
        let why = cluster.machine.refuses_move(Some(node)).expect("it is refused").to_string();
        let sent = cluster.sent.len();
        cluster.event(MembershipEvent::Drain { node });
        assert!(cluster.sent.len() == sent && cluster.machine.drained_node().is_none());
        why
    };
    let line = refused(&raid5(), vec![0; 4], 9);
    assert_eq!(line, "node 9 is not in the job: expected one of 0,1,2,3");
    assert!(refused(&settings(BackupMode::None), vec![0; 4], 1).starts_with("SHMEM_FT_BACKUP_"));
    assert!(refused(&shrinks, vec![0; 4], 1).starts_with("SHMEM_FT_ROLLBACK=none "));
    let line = refused(&settings(BackupMode::Single), vec![0; 4], 1);
    assert!(line.starts_with("the job does not survive the loss of node 1 now; "), "{line}");
    assert_eq!(refused(&spare, vec![0; 4], 1), "no place is left for PE 1");
}

#[test]
fn a_job_drains_one_node_at_a_time_and_none_at_its_ends() {
    let mut cluster = Cluster::four(&raid5(), 0);
    ask(&mut cluster, 2);
    assert_eq!(cluster.machine.refuses_move(Some(1)), Some(DrainRefusal::Busy { node: 2 }));
    let mut ending = Cluster::four(&raid5(), 0);
    finalizes(&mut ending, 0);
    assert_eq!(ending.machine.refuses_move(Some(1)), Some(DrainRefusal::NotRunning));
}

/// A report that a loss has overtaken is void, since that PE waits no longer.
#[test]
fn only_reports_of_the_current_view_and_request_count() {
    let mut cluster = six(0);
    let request = ask(&mut cluster, 1);
    waits(&mut cluster, 2, request);
    let (view, checkpoint) = (cluster.machine.view().number, CheckpointNumber(7));
    cluster.die(5);
    cluster.says(3, PeMessage::Drained { request, view, checkpoint });
    resume(&mut cluster);
    waits(&mut cluster, 3, request);
    assert!(!has(&cluster, "kill 1"), "PE 2 does not wait in this view");
    let other = MoveRequest { serial: request.serial + 1, ..request };
    waits(&mut cluster, 2, other);
    assert!(!has(&cluster, "kill 1"), "nor for another request");
    waits(&mut cluster, 2, request);
    assert!(has(&cluster, "kill 1"));
}

#[test]
fn a_node_that_dies_before_it_is_drained_is_an_ordinary_loss() {
    let mut cluster = six(2);
    let request = ask(&mut cluster, 1);
    waits(&mut cluster, 2, request);
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert!(has(&cluster, "node 1 was lost with PEs 2,3") && known(&cluster).is_none());
    resume(&mut cluster);
    assert_eq!(moved(&cluster), None);
    assert_eq!(cluster.machine.refuses_move(Some(0)), None, "the request is over");
}

#[test]
fn a_substitute_keeps_away_from_a_node_that_is_being_drained() {
    let best = |drained: Option<u32>| {
        let mut cluster = six(0);
        drained.into_iter().for_each(|node| _ = ask(&mut cluster, node));
        cluster.event(MembershipEvent::NodeLost { node: 0 });
        [0, 1].map(|pe| cluster.member(pe).node)
    };
    assert_eq!(best(None), [3, 3]);
    assert_eq!(best(Some(1)), [3, 3]);
    let mut cluster = six(0);
    cluster.event(MembershipEvent::Drain { node: 3 });
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    ask(&mut cluster, 1);
    cluster.event(MembershipEvent::NodeLost { node: 0 });
    assert_eq!([0, 1].map(|pe| cluster.member(pe).node), [2, 2]);
}

/// The place that was there at the request is taken by then: the PEs go on.
#[test]
fn a_drain_that_has_become_impossible_is_withdrawn() {
    let settings = Settings { substitute: Substitute::Spare, ..raid5() };
    let mut cluster = Cluster::four(&settings, 1);
    let request = ask(&mut cluster, 1);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    resume(&mut cluster);
    let view = cluster.machine.view().number;
    waits(&mut cluster, 1, request);
    assert!(has(&cluster, "node 1 is not drained: no place is left for PE 1"));
    assert_eq!((known(&cluster), cluster.machine.view().number), (None, view));
    assert!(!has(&cluster, "kill 1") && cluster.machine.drained_node().is_none());
}

#[test]
fn survivors_that_roll_back_later_compute_again() {
    let local = Settings { rollback: Rollback::Local, ..raid5() };
    for rolls_back in [false, true] {
        let mut cluster = Cluster::four(&local, 1);
        leave(&mut cluster, 1, &[1]);
        assert!(cluster.machine.view().local);
        if rolls_back {
            cluster.says(0, PeMessage::RollAllBack { why: "PE 0: its log is full".to_owned() });
            resume(&mut cluster);
        } else {
            let (checkpoint, calls, took) = (CheckpointNumber(7), 0, Duration::ZERO);
            let report = ProgressReport::Replayed { pe: Pe(1), checkpoint, calls, took };
            cluster.says(1, PeMessage::Report(report));
        }
        assert_eq!(moved(&cluster), Some(format!("[4], repeats: {rolls_back}")));
    }
}
