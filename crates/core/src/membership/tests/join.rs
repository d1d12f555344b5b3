//! Planned moves to a node that has joined.

use super::super::DrainRefusal;
use super::drain::{resume, waits};
use super::*;
use crate::view::MoveRequest;

/// Four PEs on nodes 0, 1 and 3, after the loss of node 2, in groups of two.
fn three_nodes() -> Cluster {
    let (node_of, spares) = (vec![0, 1, 1, 3], Vec::new());
    let shape = Shape { node_of, nodes: 4, spares, fabric: Fabric::Shm };
    Cluster::new(&shape, &settings(BackupMode::Raid5), vec![0, 0, 1, 1])
}

fn join(cluster: &mut Cluster, room: Option<usize>) -> Option<MoveRequest> {
    let before = cluster.sent.len();
    cluster.event(MembershipEvent::Joined { node: 4, room });
    let sent = cluster.sent[before..].iter();
    sent.rev().find_map(|(_, message)| match message {
        Down::Drain(request) => Some(*request),
        _ => None,
    })
}

/// Returns the processes that were ordered to be killed.
fn killed(cluster: &Cluster) -> Vec<ProcId> {
    let killed = cluster.sent.iter().filter_map(|(_, message)| match message {
        Down::Kill { proc } => Some(*proc),
        _ => None,
    });
    killed.collect()
}

fn has(cluster: &Cluster, text: &str) -> bool {
    cluster.log.iter().any(|line| line.contains(text))
}

#[test]
fn a_pe_moves_once_it_waits_after_a_checkpoint() {
    let mut cluster = three_nodes();
    let request = join(&mut cluster, None).expect("a PE shares its node");
    assert!(has(&cluster, "node 4 has joined, and PE 1 moves there after the next checkpoint"));
    waits(&mut cluster, 0, request);
    assert!(killed(&cluster).is_empty(), "the PE that moves computes");
    let proc = cluster.proc_of(1);
    waits(&mut cluster, 1, request);
    assert_eq!(killed(&cluster), [proc]);
    cluster.event(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
    assert!(has(&cluster, "PE 1 moves to node 4 after checkpoint 7"));
    assert_eq!(cluster.member(1).node, 4);
    resume(&mut cluster);
    assert!(has(&cluster, "Moved { node: 4, checkpoint: 7, pes: [1], to: [4], repeats: false }"));
    assert_eq!(cluster.machine.refuses_move(None), None, "the request is over");
}

#[test]
fn a_node_without_room_takes_none() {
    let mut cluster = three_nodes();
    assert_eq!(join(&mut cluster, Some(0)), None);
    assert!(has(&cluster, "node 4 has joined, and may take PEs after a loss"));
    assert!(cluster.machine.nodes.lives(4));
}

#[test]
fn one_request_at_a_time() {
    let mut cluster = three_nodes();
    join(&mut cluster, None);
    assert_eq!(cluster.machine.refuses_move(Some(1)), Some(DrainRefusal::Filling { node: 4 }));
    assert_eq!(cluster.machine.refuses_move(None), Some(DrainRefusal::Filling { node: 4 }));
}

/// The PE stays where it is, and computes on.
#[test]
fn a_node_that_is_lost_before_the_checkpoint_takes_none() {
    let mut cluster = three_nodes();
    let request = join(&mut cluster, None).expect("a PE shares its node");
    cluster.event(MembershipEvent::NodeLost { node: 4 });
    waits(&mut cluster, 1, request);
    assert!(killed(&cluster).is_empty());
    assert_eq!(cluster.machine.refuses_move(None), None, "the request is over");
}

/// The PE is already dead, and restarts on another node.
#[test]
fn a_node_that_is_lost_during_the_move_is_replaced() {
    let mut cluster = three_nodes();
    let request = join(&mut cluster, None).expect("a PE shares its node");
    let proc = cluster.proc_of(1);
    waits(&mut cluster, 1, request);
    cluster.event(MembershipEvent::NodeLost { node: 4 });
    cluster.event(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
    assert_ne!(cluster.member(1).node, 4);
    resume(&mut cluster);
    assert!(cluster.machine.view().whole());
}

/// Node 1 is lost, and its PEs go to the empty nodes, one of them to node 4: none is left to move.
#[test]
fn pes_that_a_loss_has_moved_are_chosen_anew() {
    let mut cluster = three_nodes();
    let request = join(&mut cluster, None).expect("a PE shares its node");
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    assert_eq!([1, 2].map(|pe| cluster.member(pe).node), [2, 4]);
    resume(&mut cluster);
    waits(&mut cluster, 1, request);
    assert!(killed(&cluster).is_empty());
    assert_eq!(cluster.machine.refuses_move(None), None, "the load is even");
}
