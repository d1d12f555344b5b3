//! Large jobs: what a checkpoint and a recovery cost a PE must not grow with their number.
//!
//! Counted are the messages of the protocol that a PE sends: posts in the tree, to near PEs and far
//! ones, and what it found, to its group. Left out: the barriers that carry nothing, whose counters
//! and rounds are tested where they are (`raidshmem_core::rounds`), and the transfer of bytes.

use std::time::Instant;

use raidshmem_core::tree::DEGREE;

use super::job::Job;
use super::plan::{LARGE_GROUP, Plan};
use super::skip;

/// Meetings of a PE in a recovery, at most: those that settle twice, if the view changes.
const MEETINGS: u64 = 9 + 3;

/// The most messages that a PE sent, and how many on average, in a job that came to its end.
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
        // One up, and one down to each below; all PEs but one are below one.
        assert!(most <= checkpoints * (1 + 3 * DEGREE as u64), "{pes} PEs: {most}");
        assert!(mean <= 2.0 * checkpoints as f64, "{pes} PEs: {mean}");
    }
}

#[test]
fn a_recovery_costs_a_pe_a_few_messages_however_many_pes_there_are() {
    for pes in [16, 100, 2000] {
        let (most, mean, checkpoints) = sent(pes, Some(pes / 2));
        let meetings = checkpoints + MEETINGS;
        let group = LARGE_GROUP as u64;
        assert!(most <= meetings * (1 + 3 * DEGREE as u64) + group, "{pes} PEs: {most}");
        assert!(mean <= 2.0 * meetings as f64 + group as f64, "{pes} PEs: {mean}");
    }
}
