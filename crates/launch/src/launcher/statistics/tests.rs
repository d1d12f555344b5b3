//! Tests of the sums, and of the lines on recoveries.

use super::*;
use raidshmem_core::quantity::ViewNumber;

fn chronicle(mode: BackupMode) -> JobStatistics {
    JobStatistics::new(&Settings { backup_mode: mode, ..Settings::default() })
}

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

const SECOND: CheckpointNumber = CheckpointNumber(2);

fn checkpoint(number: u64) -> ProgressReport {
    let (number, places) = (CheckpointNumber(number), ViewNumber(0));
    let (bytes, kept, [took, protects], changed) = (3 << 20, 1 << 20, [at(0.5); 2], None);
    ProgressReport::Checkpoint { number, places, bytes, kept, took, protects, changed }
}

fn adopted(pe: Pe) -> ProgressReport {
    ProgressReport::Adopted { pe, checkpoint: SECOND, bytes: 1, from_disk: false, took: at(0.0) }
}

fn rebuilt(pe: Pe) -> ProgressReport {
    let from = vec![Pe(0), Pe(3)];
    ProgressReport::Rebuilt { pe, checkpoint: SECOND, bytes: 1, from, took: at(0.0) }
}

fn resumed() -> ProgressReport {
    let (view, took) = (ViewNumber(2), Duration::from_micros(12_340));
    ProgressReport::Resumed { checkpoint: SECOND, view, took }
}

impl JobStatistics {
    fn at(&mut self, time: f64, what: impl Into<What>) -> Option<String> {
        self.add(&Event { time: at(time), what: what.into() })
    }

    fn loses(&mut self, time: f64, pes: &[Pe], node: Option<u32>) -> Option<String> {
        self.at(time, What::Lost { pes: pes.to_vec(), node, cause: String::new(), drained: false })
    }
}

#[test]
fn losses_and_their_cost_are_summarized() {
    let mut job = chronicle(BackupMode::Raid5);
    assert_eq!(job.at(1.0, checkpoint(1)), None);
    assert_eq!(job.at(2.0, checkpoint(2)), None);
    assert_eq!(job.loses(3.0, &[Pe(1)], None), None);
    assert_eq!(job.at(3.2, adopted(Pe(1))), None);
    let line = job.at(3.5, resumed()).unwrap();
    assert_eq!(
        line,
        "all PEs resume from checkpoint 2 (PE 1 adopted) after 500.0 ms (12.3 ms of it the \
         restart)"
    );
    // A second loss before the next checkpoint: the work since the restart is lost again.
    assert_eq!(job.loses(4.0, &[Pe(1), Pe(2)], Some(7)), None);
    assert_eq!(job.loses(4.1, &[Pe(3)], None), None);
    for report in [rebuilt(Pe(1)), rebuilt(Pe(2)), adopted(Pe(3))] {
        assert_eq!(job.at(4.5, report), None);
    }
    let line = job.at(5.0, resumed()).unwrap();
    assert!(line.contains("(PE 1 rebuilt from PEs 0,3; PE 2 rebuilt from PEs 0,3; PE 3 adopted)"));
    assert_eq!(job.past(at(9.0)), Past { ran: at(9.0), recoveries: 2 });
    let lines = job.summary(at(10.0));
    assert_eq!(
        lines,
        [
            "2 checkpoints took 1.00 s, 10.0 % of the 10.00 s of this job",
            "each PE needed 5.0 MiB of memory to protect 3.0 MiB of data",
            "lost 2 PEs and 1 node: 1.50 s of repeated work, 1.50 s until all PEs resumed",
        ]
    );
}

/// A node that leaves on request is not lost, and a PE that moves neither; the time until all PEs
/// have resumed counts as with a loss.
#[test]
fn planned_moves_are_no_losses() {
    let mut job = chronicle(BackupMode::Raid5);
    let moves = |job: &mut JobStatistics, time, node| {
        let (pes, cause, checkpoint) = (vec![Pe(1)], String::new(), SECOND);
        job.at(time, What::Lost { pes: pes.clone(), node, cause, drained: true });
        job.at(time + 0.25, rebuilt(Pe(1)));
        job.at(time + 0.5, resumed());
        let (to, repeats) = (vec![2], false);
        match node {
            Some(node) => job.at(time + 0.5, What::Drained { node, checkpoint, pes, to, repeats }),
            None => job.at(time + 0.5, What::Moved { node: 2, checkpoint, pes, to, repeats }),
        }
    };
    job.at(1.0, checkpoint(2));
    moves(&mut job, 2.0, None);
    assert_eq!(job.summary(at(3.0)).len(), 2, "no loss");
    moves(&mut job, 3.0, Some(1));
    let of = |figures: Figures| (figures.processes, figures.nodes, figures.drained);
    assert_eq!(of(job.figures(at(4.0))), (0, 0, 1));
    assert_eq!((job.totals().nodes, job.totals().drained), (0, 1));
    let line = job.summary(at(4.0)).pop().unwrap();
    assert_eq!(line, "drained 1 node: 0.0 ms of repeated work, 1.00 s until all PEs resumed");
    job.loses(5.0, &[Pe(0)], None);
    job.loses(5.0, &[Pe(3)], Some(3));
    let line = job.summary(at(6.0)).pop().unwrap();
    assert!(line.starts_with("lost 1 PE and 1 node, drained 1 node: "), "{line}");
}

#[test]
fn the_line_of_a_restart_waits_for_a_report_that_a_checkpoint_overtakes() {
    let mut job = chronicle(BackupMode::Raid5);
    job.loses(3.0, &[Pe(1)], None);
    assert_eq!(job.at(3.5, resumed()), None);
    assert_eq!(job.at(4.0, checkpoint(3)), None);
    let line = job.at(4.1, adopted(Pe(1))).unwrap();
    assert!(line.contains("(PE 1 adopted)"), "{line}");
}

#[test]
fn a_recovery_that_failed_counts_nowhere() {
    let mut job = chronicle(BackupMode::Raid5);
    job.at(1.0, checkpoint(1));
    job.loses(3.0, &[Pe(1)], None);
    let totals = job.totals();
    assert_eq!((totals.again, totals.recovery), Default::default());
    let lines = job.summary(at(5.0));
    assert_eq!(lines[2], "lost 1 PE: the job ended before all PEs resumed");
    assert_eq!(job.past(at(5.0)).recoveries, 0);
    job.at(5.0, adopted(Pe(1)));
    job.at(5.0, resumed());
    job.loses(6.0, &[Pe(2)], None);
    let totals = job.totals();
    assert_eq!((totals.again, totals.recovery), (at(2.0), at(2.0)));
    assert_eq!(
        job.summary(at(9.0)).pop().unwrap(),
        "lost 2 PEs: 2.00 s of repeated work, 2.00 s until all PEs resumed; after the last \
         loss the job ended before that"
    );
}

#[test]
fn two_that_rolled_back_locally_are_one_recovery_to_the_last_of_them() {
    let mut job = chronicle(BackupMode::Raid5);
    let (checkpoint, calls, took) = (SECOND, 7, at(0.25));
    let replayed = |pe| ProgressReport::Replayed { pe, checkpoint, calls, took };
    job.loses(1.0, &[Pe(1)], None);
    job.loses(1.5, &[Pe(2)], None);
    let first = job.at(2.0, replayed(Pe(1))).unwrap();
    assert!(first.contains("has caught up after 250.0 ms of replay: 7 calls from logs"), "{first}");
    let last = job.at(4.0, replayed(Pe(2))).unwrap();
    assert!(last.contains("after 3.00 s (250.0 ms of it the replay): 7 calls"), "{last}");
    assert_eq!(job.past(at(5.0)).recoveries, 1);
    assert_eq!(job.totals().recovery, at(3.0));
}

#[test]
fn a_restart_waits_for_the_fate_of_each_pe_but_not_forever() {
    let mut job = chronicle(BackupMode::Raid5);
    job.loses(1.0, &[Pe(1), Pe(2)], None);
    job.at(1.1, adopted(Pe(1)));
    assert_eq!(job.at(1.2, resumed()), None);
    let line = job.at(1.3, rebuilt(Pe(2))).unwrap();
    assert!(line.contains("(PE 1 adopted; PE 2 rebuilt from PEs 0,3)"), "{line}");
    job.loses(2.0, &[Pe(1)], None);
    assert_eq!(job.at(2.1, resumed()), None);
    assert_eq!(job.at(2.2, checkpoint(3)), None);
    let line = job.at(2.3, checkpoint(4)).unwrap();
    assert_eq!(line, "all PEs resume from checkpoint 2 after 100.0 ms (12.3 ms of it the restart)");
    job.loses(3.0, &[Pe(1)], None);
    assert_eq!(job.at(3.1, resumed()), None);
    assert!(job.summary(at(4.0))[0].starts_with("all PEs resume from checkpoint 2"));
}

#[test]
fn figures_are_those_of_now() {
    let mut job = chronicle(BackupMode::Raid5);
    assert_eq!(job.figures(at(9.0)), Figures::default());
    (1..=20).for_each(|n| _ = job.at(n as f64 * 2.0, checkpoint(n)));
    let figures = job.figures(at(41.0));
    assert_eq!((figures.checkpoints, figures.last), (20, Some((20, at(40.0)))));
    assert_eq!((figures.every, figures.took), (Some(at(2.0)), Some(at(0.5))));
    assert_eq!(figures.recovery, None);
    job.loses(42.0, &[Pe(1)], None);
    job.at(43.0, ProgressReport::Rebuilding { pe: Pe(1), bytes: 0, of: 100 });
    job.at(44.0, ProgressReport::Rebuilding { pe: Pe(1), bytes: 50, of: 100 });
    let figures = job.figures(at(44.0));
    assert_eq!((figures.processes, figures.nodes, figures.every), (1, 0, None));
    let (since, progress) = figures.recovery.unwrap();
    assert_eq!((since, progress.bytes), (at(42.0), Some((50, 100))));
    job.loses(45.0, &[Pe(2)], Some(7));
    let (since, progress) = job.figures(at(45.0)).recovery.unwrap();
    assert_eq!((since, progress), (at(42.0), RebuildProgress::default()), "it begins again");
    job.at(46.0, resumed());
    assert_eq!(job.figures(at(46.0)).recovery, None);
    job.at(50.0, checkpoint(21));
    assert_eq!(job.figures(at(50.0)).every, None, "the loss lies between");
}

#[test]
fn memory_is_that_of_the_table_of_modes() {
    for (mode, kept) in [
        (BackupMode::Single, "each PE needed 1.0 MiB of memory"),
        (BackupMode::Double, "each PE needed 4.0 MiB of memory"),
        (BackupMode::Rs, "each PE needed 5.0 MiB of memory"),
    ] {
        let mut job = chronicle(mode);
        job.at(1.0, checkpoint(1));
        let line = job.summary(at(2.0)).swap_remove(1);
        assert!(line.starts_with(kept), "{line}");
    }
    let mut job = chronicle(BackupMode::Raid5);
    assert_eq!(job.summary(at(1.0)), [""; 0], "nothing happened");
    let mut job = chronicle(BackupMode::None);
    job.loses(1.0, &[Pe(0)], None);
    assert_eq!(job.summary(at(1.0)), [""; 0], "its last words say it");
}
