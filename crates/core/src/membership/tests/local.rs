//! Tests of the choice between local and global rollback in the views.

use super::*;
use crate::message::Flaw;
use crate::settings::Rollback;

fn cluster(settings: Settings) -> Cluster {
    Cluster::four(&Settings { rollback: Rollback::Local, ..settings }, 1)
}

fn raid5() -> Settings {
    settings(BackupMode::Raid5)
}

fn caught_up(cluster: &mut Cluster, pe: u32) {
    let (checkpoint, calls, took) = (CheckpointNumber(3), 7, Duration::ZERO);
    let report = ProgressReport::Replayed { pe: Pe(pe), checkpoint, calls, took };
    cluster.says(pe, PeMessage::Report(report));
}

fn lines(cluster: &Cluster) -> Vec<&str> {
    let all = cluster.log.iter().map(String::as_str);
    all.filter(|line| line.starts_with("all PEs roll back")).collect()
}

#[test]
fn a_dead_process_rolls_back_locally_until_it_has_caught_up() {
    let mut cluster = cluster(raid5());
    assert!(!cluster.machine.view().local);
    for pe in [2, 1] {
        cluster.die(pe);
        assert!(cluster.machine.view().local && cluster.machine.view().whole());
        caught_up(&mut cluster, pe);
        assert!(!cluster.machine.view().local && cluster.machine.recovery.lost.is_empty());
    }
    assert!(lines(&cluster).is_empty());
}

#[test]
fn several_are_alone_until_the_last_has_caught_up() {
    let mut cluster = cluster(raid5());
    cluster.die(1);
    cluster.die(3);
    caught_up(&mut cluster, 1);
    assert!(cluster.machine.view().local);
    caught_up(&mut cluster, 3);
    assert!(!cluster.machine.view().local);
}

#[test]
fn one_message_rolls_all_pes_back_in_a_new_view_and_is_reported_once() {
    let mut cluster = cluster(raid5());
    cluster.die(1);
    let before = cluster.machine.view().number;
    let why = || PeMessage::RollAllBack { why: "PE 0: its log needs 9 bytes".to_owned() };
    cluster.says(0, why());
    assert!(!cluster.machine.view().local && cluster.machine.view().number == before.next());
    cluster.says(2, why());
    assert_eq!(lines(&cluster), ["all PEs roll back: PE 0: its log needs 9 bytes"]);
    // The rollback stays global until that recovery is over, whichever PE is lost meanwhile.
    cluster.die(3);
    assert!(!cluster.machine.view().local);
    let (checkpoint, took) = (CheckpointNumber(3), Duration::ZERO);
    let view = cluster.machine.view().number;
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
    cluster.die(3);
    assert!(cluster.machine.view().local);
}

#[test]
fn a_report_of_an_earlier_recovery_ends_no_later_one() {
    let mut cluster = cluster(raid5());
    cluster.die(1);
    cluster.says(0, PeMessage::RollAllBack { why: "PE 0: its log needs 9 bytes".to_owned() });
    let (checkpoint, took) = (CheckpointNumber(3), Duration::ZERO);
    let view = cluster.machine.view().number;
    cluster.die(2);
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
    cluster.die(3);
    assert!(!cluster.machine.view().local, "PE 2 has not been restored");
    let view = cluster.machine.view().number;
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
    cluster.die(3);
    assert!(cluster.machine.view().local);
}

#[test]
fn pes_of_a_lost_node_roll_back_locally_unless_another_pe_is_away() {
    let mut node = cluster(raid5());
    node.event(MembershipEvent::NodeLost { node: 1 });
    assert!(node.machine.view().local && node.machine.view().whole());
    caught_up(&mut node, 1);
    node.event(MembershipEvent::NodeLost { node: 2 });
    assert!(node.machine.view().local && lines(&node).is_empty());
    node.event(MembershipEvent::NodeLost { node: 3 });
    assert!(!node.machine.view().local);
    let said = lines(&node);
    let why = "its node is lost while another PE rolls back";
    assert!(said.len() == 1 && said[0].ends_with(why), "{said:?}");
}

/// It need not be a member of the view yet.
#[test]
fn a_pe_that_is_reached_is_away_no_longer() {
    let mut node = cluster(raid5());
    node.die(1);
    node.says(1, PeMessage::CaughtUp);
    node.event(MembershipEvent::NodeLost { node: 1 });
    assert!(node.machine.view().local && lines(&node).is_empty());
    node.event(MembershipEvent::NodeLost { node: 2 });
    assert!(!node.machine.view().local && lines(&node).len() == 1);
}

#[test]
fn lost_memory_of_a_process_rolls_all_back() {
    let mut memory = cluster(Settings { adopt: false, ..raid5() });
    memory.die(1);
    assert!(!memory.machine.view().local);
    let line = "all PEs roll back: PE 1: its memory and its log are not taken over";
    assert_eq!(lines(&memory), [line]);
}

/// The PE that finds it waits for a view in which all PEs check their data.
#[test]
fn a_tile_that_does_not_hold_rolls_all_back() {
    let mut cluster = cluster(raid5());
    cluster.die(1);
    let view = cluster.machine.view().number;
    cluster.says(1, PeMessage::Unusable { view, pe: Pe(1), flaw: Flaw::Damaged });
    assert!(!cluster.machine.view().local);
    assert_eq!(
        lines(&cluster),
        ["all PEs roll back: PE 1: a tile of its checkpoint does not match its checksum"]
    );
}

#[test]
fn without_the_setting_all_roll_back() {
    let mut cluster = Cluster::four(&raid5(), 1);
    cluster.die(1);
    assert!(!cluster.machine.view().local && lines(&cluster).is_empty());
}

#[test]
fn between_nodes_a_process_rolls_back_locally_over_every_network() {
    for fabric in [Fabric::Ucx, Fabric::Ofi, Fabric::Verbs] {
        let shape = Shape { node_of: vec![0, 0, 1, 1], nodes: 2, spares: Vec::new(), fabric };
        let settings = Settings { rollback: Rollback::Local, ..raid5() };
        let mut cluster = Cluster::new(&shape, &settings, vec![0; 4]);
        cluster.die(1);
        assert!(cluster.machine.view().local && lines(&cluster).is_empty(), "{}", fabric.name());
    }
}
