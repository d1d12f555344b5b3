//! PEs that crash again and again: a limit, and delays.

use super::*;

impl Cluster {
    /// Kills a PE after each of these checkpoints, and resumes from there.
    fn crash_at(&mut self, pe: u32, checkpoints: &[u64]) {
        for &number in checkpoints {
            self.checkpoint(number);
            self.die(pe);
            let (checkpoint, view) = (CheckpointNumber(number), self.machine.view().number);
            let took = Duration::ZERO;
            self.says(0, PeMessage::Report(ProgressReport::Resumed { checkpoint, view, took }));
        }
    }
}

#[test]
fn a_pe_that_dies_repeatedly_ends_the_job_with_its_name() {
    let settings = Settings { max_restarts: 2, ..settings(BackupMode::Raid5) };
    let mut cluster = Cluster::four(&settings, 0);
    cluster.crash_at(1, &[3, 5, 9]);
    assert!(cluster.end.is_none(), "three checkpoints in between count anew");
    cluster.crash_at(1, &[10, 11]);
    let (status, words) = cluster.ended();
    assert_eq!(status, UNRECOVERABLE);
    let expected = "unrecoverable: PE 1 crashed 3 times at the same place, by SIGKILL: more than \
                    SHMEM_FT_MAX_RESTARTS=2";
    assert_eq!(words, expected);
}

/// Every restart takes a checkpoint of the same state again: a growing number is not progress.
#[test]
fn a_crash_loop_in_which_the_number_grows_ends_the_job() {
    let settings = Settings { max_restarts: 3, ..settings(BackupMode::Raid5) };
    let mut cluster = Cluster::four(&settings, 0);
    cluster.crash_at(1, &[5, 6, 7, 8]);
    assert!(cluster.ended().1.contains("crashed 4 times at the same place, by SIGKILL"));
}

/// Delays are timed by the launcher: one substitute's delay holds up nothing else.
#[test]
fn a_delayed_substitute_starts_after_its_delay() {
    let mut cluster = Cluster::four(&settings(BackupMode::Raid5), 0);
    cluster.crash_at(1, &[5]);
    cluster.hold_rests = true;
    cluster.crash_at(1, &[6]);
    assert_eq!(cluster.member(1).state, State::ProcessDead);
    cluster.die(2);
    assert_eq!(cluster.member(2).state, State::Alive, "another one is not");
    cluster.event(MembershipEvent::Rested { pe: Pe(1) });
    assert_eq!(cluster.member(1).state, State::Alive);
}
