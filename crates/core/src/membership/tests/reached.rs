//! PEs that are reached through an engine: their addresses arrive before the view.

use crate::quantity::ViewNumber;

use super::*;

/// Creates two nodes of two PEs that reach each other through an engine.
fn two_by_two() -> Cluster {
    let (node_of, spares) = (vec![0, 0, 1, 1], Vec::new());
    let shape = Shape { node_of, nodes: 2, spares, fabric: Fabric::Ucx };
    Cluster::new(&shape, &settings(BackupMode::Raid5), vec![0; 4])
}

#[test]
fn with_an_engine_every_node_knows_an_address_before_the_view_that_needs_it() {
    let mut cluster = two_by_two();
    assert!(cluster.machine.view().whole());
    let told = |log: &[String], what: &str| log.iter().position(|line| line == what);
    let shown = told(&cluster.log, "shown 1 by 0").expect("view 1 is shown");
    for pe in 0..4 {
        for node in 0..2 {
            let line = format!("tell {node} of {pe}.0");
            assert!(told(&cluster.log, &line).is_some_and(|at| at < shown), "{line}");
        }
    }
    cluster.reached = false;
    cluster.die(2);
    assert_eq!(cluster.member(2).state, State::ProcessDead, "its substitute cannot be reached");
    let proc = cluster.proc_of(2);
    assert!(told(&cluster.log, "tell 0 of 2.1").is_none());
    cluster.event(MembershipEvent::Message { proc, what: PeMessage::Address { address: vec![8] } });
    let member = cluster.member(2);
    assert_eq!((member.state, member.incarnation.0), (State::Alive, 1));
    assert!(told(&cluster.log, "tell 0 of 2.1") < told(&cluster.log, "shown 3 by 0"));
    cluster.event(MembershipEvent::Message { proc, what: PeMessage::Address { address: vec![9] } });
    assert_eq!(cluster.machine.view().number, ViewNumber(3), "said twice, it changes nothing");
}

#[test]
fn a_substitute_that_dies_before_it_is_reached_is_replaced_by_another() {
    let mut cluster = two_by_two();
    cluster.reached = false;
    cluster.die(2);
    let first = cluster.proc_of(2);
    cluster.reached = true;
    cluster.event(MembershipEvent::Ended { proc: first, how: Ended::Killed(9) });
    assert_ne!(cluster.proc_of(2), first);
    let member = cluster.member(2);
    assert_eq!((member.state, member.incarnation.0), (State::Alive, 1));
}
