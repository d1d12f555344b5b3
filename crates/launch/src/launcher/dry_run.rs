//! The start of a job as `--dry-run` describes it: placement, groups, losses survived, and memory.
//!
//! Invariant: starts nothing and contacts no host. What only a host knows is named as unknown.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

use raidshmem_core::placement::bindings::bindings;
use raidshmem_core::sizing::memory;
use raidshmem_report::words::{bytes, count};
use raidshmem_sys::machine;

use super::placement::PlacementReport;
use crate::cli::ready::Ready;

/// Returns the description of a job.
pub fn text(ready: &Ready) -> String {
    let (shape, settings) = (&ready.shape, &ready.settings);
    let mut report = PlacementReport::new(ready);
    if ready.cluster.is_none() {
        report.add_all(bindings(&machine::discover(), shape.node_of.len(), settings.bind));
    }
    let mut text = format!("{}\n{report}", title(ready));
    let lines = [memory_of_heaps(ready), memory_of_checkpoints(ready), unknown(ready)];
    lines.into_iter().flatten().for_each(|line| _ = writeln!(text, "{line}"));
    text + "nothing was started (--dry-run)\n"
}

fn title(ready: &Ready) -> String {
    let shape = &ready.shape;
    let spares = match shape.spares.len() {
        0 => String::new(),
        spares => format!(", {}", count(spares as u64, "spare")),
    };
    let words = ready.program.iter().map(|word| word.to_string_lossy());
    format!(
        "{} on {}{spares}, fabric {}: {}",
        count(shape.node_of.len() as u64, "PE"),
        count(shape.nodes.into(), "node"),
        shape.fabric.name(),
        words.collect::<Vec<_>>().join(" ").escape_debug()
    )
}

fn memory_of_heaps(ready: &Ready) -> Option<String> {
    let node_of = &ready.shape.node_of;
    let on = |node: u32| node_of.iter().filter(|&&other| other == node).count() as u64;
    let most = (0..ready.shape.nodes).map(on).max()?;
    let heap = ready.heap_len;
    Some(format!(
        "memory: a symmetric heap of {} in each PE, up to {} on a node",
        bytes(heap),
        bytes(heap.saturating_mul(most))
    ))
}

/// Names the memory that checkpoints take; None in mode `none`.
fn memory_of_checkpoints(ready: &Ready) -> Option<String> {
    let (settings, protected) = (&ready.settings, &ready.protected);
    let smallest = protected.groups.iter().map(Vec::len).min()?;
    let (mode, parity) = (settings.backup_mode, protected.site.parity);
    let times = memory(mode, settings.snapshots, smallest, parity);
    Some(format!(
        "checkpoints: 1 GiB of data in a PE takes up to {times:.2} GiB of its memory in all, in {}",
        count(protected.groups.len() as u64, "group")
    ))
}

/// Names what is unknown before the agents on other hosts have started.
fn unknown(ready: &Ready) -> Option<String> {
    let hosts = "no host was contacted: its processors and enclosure are unknown, and a start may \
                 form other groups";
    let disks = "the set to resume from lies on the nodes' disks, which were not read";
    let each = [(ready.cluster.is_some(), hosts), (ready.disks.is_some(), disks)];
    let each: Vec<&str> = each.into_iter().filter_map(|(is, what)| is.then_some(what)).collect();
    (!each.is_empty()).then(|| each.join("; "))
}
