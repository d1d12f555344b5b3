//! Reports of the losses that would end the job.

use super::*;
use crate::settings::Rollback;

const WHOLE: &str = "now survives the loss of any one node or domain";

fn reports(cluster: &Cluster) -> Vec<&str> {
    cluster.log.iter().map(String::as_str).filter(|line| line.starts_with("now ")).collect()
}

fn resume(cluster: &mut Cluster) {
    let (checkpoint, took) = (CheckpointNumber(1), Duration::ZERO);
    let view = cluster.machine.view().number;
    cluster.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
}

#[test]
fn a_node_that_takes_a_member_of_its_group_is_reported_once_all_have_resumed() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    assert_eq!(reports(&cluster), [WHOLE]);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    assert_eq!(reports(&cluster), [WHOLE], "the recovery is under way");
    resume(&mut cluster);
    let home = cluster.member(2).node;
    let risk = format!("now does not survive the loss of node{home} (2 members of group 0");
    let [_, last] = reports(&cluster)[..] else { panic!("{:?}", cluster.log) };
    assert!(last.starts_with(&risk), "{last}");
    cluster.die(0);
    resume(&mut cluster);
    assert_eq!(reports(&cluster).len(), 2, "nothing has changed: {:?}", cluster.log);
}

/// New groups are surveyed and reported once; a list that does not fit the job is ignored.
#[test]
fn new_groups_are_reported_once_with_what_they_survive() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    resume(&mut cluster);
    let moves = cluster.machine.members.places.moves();
    assert_eq!(moves.iter().map(|one| one.pe).collect::<Vec<_>>(), [Pe(2)]);
    let anew = |cluster: &mut Cluster, group_of: Vec<u32>| {
        let (checkpoint, survives) = (CheckpointNumber(2), String::new());
        let report = ProgressReport::Regrouped { checkpoint, group_of, survives };
        cluster.says(0, PeMessage::Report(report));
    };
    let home = cluster.member(2).node;
    let pairs: Vec<u32> = (0..4).map(|pe| u32::from(pe == 2 || pe == (home + 2) % 4)).collect();
    for wrong in [vec![0, 1], vec![0, 0, 0, 9]] {
        anew(&mut cluster, wrong);
        assert_eq!(cluster.machine.group_of(), [0; 4]);
    }
    for _ in 0..2 {
        anew(&mut cluster, pairs.clone());
        assert_eq!(reports(&cluster).len(), 3, "{:?}", cluster.log);
    }
    assert_eq!(reports(&cluster)[2], WHOLE);
    // A set on disk has groups of its own, and a PE reports them if they are not the initial ones.
    cluster.machine.survey.begin_again();
    assert_eq!(cluster.machine.group_of(), [0; 4]);
    anew(&mut cluster, pairs);
    assert_eq!(reports(&cluster).len(), 3, "nothing has changed: {:?}", cluster.log);
}

#[test]
fn a_spare_that_takes_the_member_leaves_nothing_to_report() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 1);
    cluster.event(MembershipEvent::NodeLost { node: 2 });
    resume(&mut cluster);
    assert_eq!(reports(&cluster), [WHOLE]);
}

#[test]
fn jobs_that_keep_no_checkpoints_or_continue_with_fewer_report_nothing() {
    let fewer = Settings { rollback: Rollback::None, ..settings(BackupMode::Raid5) };
    for settings in [settings(BackupMode::None), fewer] {
        let cluster = Cluster::four(&settings, 0);
        assert!(reports(&cluster).is_empty(), "{:?}", cluster.log);
    }
}
