//! Processes that cannot become PEs: the job ends at the first of them, or tries a substitute.

use crate::message::StartFailure;

use super::*;

fn fails(cluster: &mut Cluster, pe: u32, cause: StartFailure) {
    let proc = cluster.proc_of(pe);
    let what = PeMessage::CannotStart { status: 2, words: "no memory".into(), cause };
    cluster.event(MembershipEvent::Message { proc, what });
    cluster.event(MembershipEvent::Ended { proc, how: Ended::Exited(2) });
}

const LASTING: [StartFailure; 2] = [StartFailure::Program, StartFailure::Limit];

#[test]
fn an_error_that_would_repeat_ends_the_job_at_once() {
    for cause in LASTING {
        let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
        fails(&mut cluster, 2, cause);
        assert_eq!(cluster.end, Some((2, Some("PE 2 cannot start: no memory".to_owned()))));
    }
}

/// The cause may have passed when the next process starts.
#[test]
fn a_transient_error_is_retried() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    let first = cluster.proc_of(2);
    fails(&mut cluster, 2, StartFailure::Passing);
    assert_eq!(cluster.end, None);
    assert_ne!(cluster.proc_of(2), first);
    assert_eq!(cluster.member(2).state, State::Alive);
}

/// No PE is replaced before the job is complete.
#[test]
fn before_the_job_is_whole_every_cause_ends_it() {
    let shape = Shape { node_of: vec![0, 1], nodes: 2, spares: Vec::new(), fabric: Fabric::Ucx };
    for cause in LASTING.into_iter().chain([StartFailure::Passing]) {
        let (mut machine, _) = Membership::new(&shape, &settings(BackupMode::Raid5), vec![0; 2]);
        let what = PeMessage::CannotStart { status: 1, words: "no memory".into(), cause };
        let actions = machine.handle(MembershipEvent::Message { proc: 1, what });
        let [Action::End { status: 1, words: Some(words) }] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        assert_eq!(words, "PE 1 cannot start: no memory");
    }
}

/// A library was removed while the job ran: the loader reports it and exits.
#[test]
fn a_program_that_is_missing_when_a_substitute_begins_ends_the_job() {
    for (status, is_missing) in [(127, true), (126, true), (1, false)] {
        let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
        cluster.hold_hello = true;
        cluster.die(2);
        let first = cluster.proc_of(2);
        cluster.event(MembershipEvent::Ended { proc: first, how: Ended::Exited(status) });
        let words = "PE 2 cannot start: its process exited with status";
        let ended = cluster.end.clone().map(|(status, words)| (status, words.unwrap_or_default()));
        assert_eq!(ended.is_some(), is_missing, "{status}");
        assert!(ended.is_none_or(|(end, said)| end == status && said.starts_with(words)));
    }
}
