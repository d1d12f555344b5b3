//! Tests of falling back to disk.

use super::*;
use crate::ended::REQUEUE;
use crate::quantity::Incarnation;
use crate::settings::Substitute;

/// Creates a job of four PEs that writes sets, with its first checkpoint on disk.
fn stored(settings: &Settings, spares: usize) -> Cluster {
    let settings = Settings { store: Some("/sets".into()), ..settings.clone() };
    let mut cluster = Cluster::four(&settings, spares);
    cluster.checkpoint(1);
    cluster.event(MembershipEvent::SetStored);
    cluster
}

fn raid5() -> Settings {
    settings(BackupMode::Raid5)
}

/// Every living PE reports that more is lost than the parity covers.
fn give_up(cluster: &mut Cluster) {
    for pe in 0..4 {
        if cluster.machine.members.pes[pe as usize].proc.is_some() {
            let words = "unrecoverable: group 0 lost PEs 1, 3, parity 1".to_owned();
            cluster.says(pe, PeMessage::Verdict { status: UNRECOVERABLE, words });
        }
    }
}

fn killed(cluster: &Cluster) -> Vec<ProcId> {
    let proc = |(_, message): &(u32, Down)| match message {
        Down::Kill { proc } => Some(*proc),
        _ => None,
    };
    cluster.sent.iter().filter_map(proc).collect()
}

/// The processes that were to be killed end.
fn end_all(cluster: &mut Cluster) {
    for proc in killed(cluster) {
        cluster.event(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
    }
    cluster.sent.clear();
}

/// Returns where the PEs are to begin, once a set has been asked for.
fn asked(cluster: &Cluster) -> Option<&str> {
    cluster.log.iter().rev().find_map(|line| line.strip_prefix("choose "))
}

fn choose(cluster: &mut Cluster, number: u64, node_of: [u32; 4]) {
    let (number, node_of) = (CheckpointNumber(number), node_of.to_vec());
    cluster.event(MembershipEvent::SetChosen { number, node_of });
}

fn resume(cluster: &mut Cluster, number: u64) {
    let (checkpoint, took) = (CheckpointNumber(number), Duration::ZERO);
    let view = cluster.machine.view().number;
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
}

/// Loses two nodes, which end up in a fall to checkpoint `number`.
fn fall(cluster: &mut Cluster, number: u64) {
    give_up(cluster);
    end_all(cluster);
    choose(cluster, number, [0, 1, 2, 3]);
}

#[test]
fn all_pes_begin_again_in_new_memory_from_disk() {
    let mut cluster = stored(&raid5(), 0);
    cluster.checkpoint(2);
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    give_up(&mut cluster);
    assert_eq!(killed(&cluster).len(), 4);
    end_all(&mut cluster);
    let home = asked(&cluster).expect("a set is asked for");
    assert!(home.starts_with("[0, 1, 2, ") && !home.ends_with("3]"), "{home}");
    let before = cluster.machine.view().clone();
    choose(&mut cluster, 1, [0, 1, 2, 2]);
    assert!(cluster.end.is_none() && cluster.machine.view().whole(), "{:?}", cluster.log);
    for (old, new) in before.pes.iter().zip(&cluster.machine.view().pes) {
        assert!(new.memory > old.memory && new.incarnation > old.incarnation);
    }
    assert_eq!(cluster.member(3).node, 2);
    let assigned = |(_, message): &(u32, Down)| match message {
        Down::Assign { assignment, .. } => Some((assignment.from_disk, assignment.lost.len())),
        _ => None,
    };
    assert_eq!(cluster.sent.iter().filter_map(assigned).collect::<Vec<_>>(), [(true, 4); 4]);
    resume(&mut cluster, 1);
    cluster.die(0);
    assert!(cluster.machine.view().whole(), "and the job survives losses as before");
}

#[test]
fn no_set_is_chosen_while_a_pe_lives() {
    let mut cluster = stored(&raid5(), 0);
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    give_up(&mut cluster);
    let procs = killed(&cluster);
    for proc in procs {
        assert_eq!(asked(&cluster), None, "process {proc} lives");
        cluster.event(MembershipEvent::Ended { proc, how: Ended::Killed(9) });
    }
    assert!(asked(&cluster).is_some());
}

#[test]
fn a_node_that_is_lost_meanwhile_is_not_waited_for() {
    let mut cluster = stored(&raid5(), 0);
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    give_up(&mut cluster);
    cluster.event(MembershipEvent::NodeLost { node: 1 });
    end_all(&mut cluster);
    assert!(asked(&cluster).is_some());
    cluster.event(MembershipEvent::NodeLost { node: 0 });
    choose(&mut cluster, 1, [0, 1, 2, 3]);
    assert!(cluster.machine.view().pes.iter().all(|pe| pe.node == 2), "{:?}", cluster.log);
    // Before all have resumed, what is lost is still on disk.
    cluster.hold_shown = true;
    (0..4).for_each(|pe| cluster.die(pe));
    cluster.hold_shown = false;
    for event in std::mem::take(&mut cluster.held) {
        cluster.event(event);
    }
    assert!(cluster.end.is_none() && cluster.machine.view().whole(), "{:?}", cluster.log);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    assert!(cluster.end.is_some());
}

/// The limit on substitutes does not hold them up: the processes take the places of the first.
#[test]
fn all_begin_again_although_no_spare_is_left() {
    let settings = Settings { substitute: Substitute::Spare, ..raid5() };
    let mut cluster = stored(&settings, 1);
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    fall(&mut cluster, 1);
    assert!(cluster.machine.view().whole(), "{:?}", cluster.log);
}

#[test]
fn without_a_set_on_disk_the_job_ends() {
    let settings = Settings { store: Some("/sets".into()), ..raid5() };
    let mut cluster = Cluster::four(&settings, 0);
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    give_up(&mut cluster);
    assert_eq!(cluster.ended().0, UNRECOVERABLE);
    let mut cluster = stored(&raid5(), 0);
    give_up(&mut cluster);
    end_all(&mut cluster);
    cluster.event(MembershipEvent::NoSet { why: "none".to_owned() });
    assert_eq!(cluster.ended(), (UNRECOVERABLE, "none"));
}

#[test]
fn a_job_falls_only_so_often_without_progress() {
    let mut cluster = stored(&Settings { max_restarts: 2, ..raid5() }, 0);
    cluster.checkpoint(8);
    for _ in 0..2 {
        fall(&mut cluster, 8);
        resume(&mut cluster, 8);
        assert!(cluster.end.is_none());
    }
    give_up(&mut cluster);
    let (_, words) = cluster.ended();
    assert!(words.contains("began from disk 2 times") && words.contains("RESTARTS=2"), "{words}");
    let mut cluster = stored(&Settings { max_restarts: 1, ..raid5() }, 0);
    for number in [10, 20, 40, 70] {
        cluster.checkpoint(number);
        fall(&mut cluster, number);
        resume(&mut cluster, number);
        assert!(cluster.end.is_none(), "it came further each time");
    }
}

/// Otherwise a script that submits the job again would loop.
#[test]
fn only_a_job_that_lost_nodes_and_got_on_is_requeued() {
    let status = |with_node: bool, gets_on: bool| {
        let mut cluster = stored(&Settings { max_restarts: 1, ..raid5() }, 0);
        fall(&mut cluster, 1);
        resume(&mut cluster, 1);
        if gets_on {
            cluster.checkpoint(2);
        }
        if with_node {
            cluster.event(MembershipEvent::NodeLost { node: 3 });
        }
        give_up(&mut cluster);
        cluster.ended().0
    };
    assert_eq!(status(true, true), REQUEUE);
    assert_eq!(status(true, false), UNRECOVERABLE);
    assert_eq!(status(false, true), UNRECOVERABLE);
}

#[test]
fn a_job_that_begins_from_disk_counts_from_there() {
    let mut cluster = stored(&raid5(), 0);
    let first = cluster.member(0).incarnation;
    assert_eq!(first, Incarnation::FIRST);
    cluster.machine.resume_from(CheckpointNumber(5));
    cluster.event(MembershipEvent::NodeLost { node: 3 });
    give_up(&mut cluster);
    end_all(&mut cluster);
    cluster.event(MembershipEvent::NoSet { why: String::new() });
    assert_eq!(cluster.ended().0, UNRECOVERABLE, "it has not passed the set");
}
