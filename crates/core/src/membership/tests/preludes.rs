//! Records of the results of calls before the first checkpoint.

use super::*;

fn kept(cluster: &Cluster) -> usize {
    cluster.sent.iter().filter(|(_, message)| matches!(message, Down::PreludesKept)).count()
}

fn given_last(cluster: &Cluster) -> Option<&[u8]> {
    let given = cluster.sent.iter().rev().find_map(|(_, message)| match message {
        Down::Assign { assignment, .. } => Some(&assignment.prelude),
        _ => None,
    });
    given.expect("a number was given").as_deref()
}

#[test]
fn each_substitute_is_given_the_record_of_the_first_process_of_its_number() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    assert_eq!(given_last(&cluster), None);
    for pe in 0..4 {
        assert_eq!(kept(&cluster), 0, "no checkpoint begins before all records are there");
        cluster.says(pe, PeMessage::PreludeOver { record: vec![pe as u8] });
    }
    assert_eq!(kept(&cluster), 4);
    for pe in [2, 0, 2] {
        cluster.die(pe);
        assert_eq!(given_last(&cluster), Some(&[pe as u8][..]));
    }
}
