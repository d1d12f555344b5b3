//! Descriptions in plain English of messages from PEs and of waits, for traces.
//!
//! Left out: lines about a job, which `launch/launcher` writes.

use std::fmt;

use super::{Flaw, PeMessage, WaitTarget};

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WaitTarget::Anyone => write!(f, "any PE"),
            WaitTarget::Finalize => write!(f, "all PEs to call shmem_finalize"),
            WaitTarget::Members { size: 1, start, .. } => write!(f, "PE {start}"),
            WaitTarget::Members { start, stride: 1, size } => {
                write!(f, "PEs {start}-{}", i64::from(start) + i64::from(size) - 1)
            }
            WaitTarget::Members { start, stride, size } => {
                write!(f, "{size} PEs, from PE {start} on with stride {stride}")
            }
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flaw::Damaged => "a tile does not match its checksum",
            Flaw::Missing => "it is of another checkpoint",
        })
    }
}

/// Formats the message as the rest of "the PE reports: ...".
impl fmt::Display for PeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeMessage::Hello => write!(f, "started"),
            PeMessage::CannotStart { words, .. } => write!(f, "cannot start: {words}"),
            PeMessage::Address { address } => write!(f, "an address of {} bytes", address.len()),
            PeMessage::Suspect { pe, incarnation } => {
                write!(f, "its connection to PE {pe}, incarnation {incarnation}, broke")
            }
            PeMessage::Unusable { view, pe, flaw } => {
                write!(f, "data of PE {pe} is not usable in view {view}: {flaw}")
            }
            PeMessage::AtPoint { rule } => write!(f, "reached injected fault {rule}"),
            PeMessage::Report(report) => write!(f, "{report}"),
            PeMessage::Verdict { status, words } => write!(f, "status {status}: {words}"),
            PeMessage::Finalizing { joined, cut } => {
                let cut = if *cut { ", after a call that a loss interrupted" } else { "" };
                write!(f, "called shmem_finalize, in view {joined}{cut}")
            }
            PeMessage::PreludeOver { record } => {
                let bytes = record.len();
                write!(f, "its first checkpoint begins, with a record of {bytes} bytes")
            }
            PeMessage::Pages { pages, .. } => {
                let runs = pages.runs().len();
                write!(f, "the NUMA nodes of its pages, in {runs} runs")
            }
            PeMessage::RollAllBack { why } => write!(f, "all PEs must roll back: {why}"),
            PeMessage::CaughtUp => write!(f, "has caught up"),
            PeMessage::NeedsOthers => write!(f, "cannot continue alone"),
            PeMessage::Finalized => write!(f, "left shmem_finalize"),
            PeMessage::Drained { checkpoint, .. } => {
                write!(f, "waits after checkpoint {checkpoint} for its node to be drained")
            }
            PeMessage::GlobalExit { status, words } => {
                let words = words.iter().map(|words| format!(": {words}"));
                write!(f, "ends the job with status {status}{}", words.collect::<String>())
            }
        }
    }
}
