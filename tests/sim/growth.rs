//! Large jobs: the cost per PE of a checkpoint and a recovery must not grow with the number of PEs.
//!
//! Counts the protocol messages that a PE sends: posts in the tree, to local and remote PEs, and
//! its findings, to its group. Left out: barriers without data, whose counters and rounds are
//! tested in their module (`raidshmem_core::rounds`), and the transfer of bytes.

use std::time::Instant;

use raidshmem_core::tree::CHILDREN_MAX;

use super::job::Job;
use super::plan::{LARGE_GROUP, Plan};
use super::skip;

/// Meetings of a PE in a recovery, at most: the settling ones occur twice if the view changes.
const MEETINGS: u64 = 9 + 3;

/// Returns the most messages that a PE sent, and their average, in a job that completed.
fn sent(pes: usize, lost: Option<usize>) -> (u64, f64, u64) {
    let begun = Instant::now();
    let plan = Plan::large(pes, lost);
    let checkpoints = plan.last.0;
    let mut job = Job::new(plan, false);
    job.run().unwrap_or_else(|promise| panic!("{pes} PEs: {promise}"));
    let ending = &job.ending;
    assert_eq!((ending.status, &ending.words), (0, &None), "{pes} PEs");
    assert_eq!(ending.recoveries > 0, lost.is_some(), "{pes} PEs");
    let most = ending.sent.iter().copied().max().unwrap_or(0);
    let mean = ending.sent.iter().sum::<u64>() as f64 / pes as f64;
    println!(
        "{pes} PEs, {checkpoints} checkpoints, lost {lost:?}: {most} messages of a PE at most, \
         {mean:.1} on average, {} events, {:.1} s",
        ending.events,
        begun.elapsed().as_secs_f64()
    );
    (most, mean, checkpoints)
}

#[test]
fn a_checkpoint_costs_a_pe_a_few_messages_however_many_pes_there_are() {
    let most = if skip::all_asked_for() { 10_000 } else { 2000 };
    if most < 10_000 {
        skip::partly("all", "up to 2,000 PEs; make test-all goes up to 10,000");
    }
    for pes in [16, 100, 1000, most] {
        let (most, mean, checkpoints) = sent(pes, None);
        // One up, and one down to each child; all PEs but one are children.
        assert!(most <= checkpoints * (1 + CHILDREN_MAX as u64), "{pes} PEs: {most}");
        assert!(mean <= 2.0 * checkpoints as f64, "{pes} PEs: {mean}");
    }
}

#[test]
fn a_recovery_costs_a_pe_a_few_messages_however_many_pes_there_are() {
    for pes in [16, 100, 2000] {
        let (most, mean, checkpoints) = sent(pes, Some(pes / 2));
        let meetings = checkpoints + MEETINGS;
        let group = LARGE_GROUP as u64;
        assert!(most <= meetings * (1 + CHILDREN_MAX as u64) + group, "{pes} PEs: {most}");
        assert!(mean <= 2.0 * meetings as f64 + group as f64, "{pes} PEs: {mean}");
    }
}
