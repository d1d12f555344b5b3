//! The status of a job as JSON. `docs/schema/status.json` describes it. Pure.
//!
//! Invariant: states, steps and groups are those of the text.

use raidshmem_core::quantity::Pe;
use serde_json::{Value, json};

use super::{GroupNow, NodeNow, PeNow, Picture, groups, name, numbered, step};

/// The version of the format; a change that a reader would notice raises it.
const FORMAT: u32 = 1;

/// Returns the status. Times are in seconds, sizes in bytes.
pub(super) fn json(job: &Picture) -> Value {
    let (title, figures) = (job.title, &job.figures);
    let groups = if title.mode.protects() { groups(job) } else { Vec::new() };
    let last = figures.last.map(|(number, made)| {
        json!({ "number": number, "age": job.now.saturating_sub(made).as_secs_f64() })
    });
    json!({
        "raidshmem_status": FORMAT,
        "job": title.job,
        "program": title.program,
        "since": humantime::format_rfc3339_seconds(title.since).to_string(),
        "running": job.now.as_secs_f64(),
        "mode": title.mode.name(),
        "spares": job.spares,
        "nodes": job.nodes.iter().map(node).collect::<Vec<_>>(),
        "pes": numbered(job).map(pe).collect::<Vec<_>>(),
        "groups": groups.iter().map(group).collect::<Vec<_>>(),
        "checkpoints": {
            "made": figures.checkpoints,
            "last": last,
            "interval": figures.every.map(|every| every.as_secs_f64()),
            "duration": figures.took.map(|took| took.as_secs_f64()),
        },
        "lost": {
            "processes": figures.processes,
            "nodes": figures.nodes,
            "drained": figures.drained,
        },
        "recovery": recovery(job),
        "survival": job.survival,
    })
}

fn node((number, now): (&u32, &NodeNow)) -> Value {
    let NodeNow { name, agent, spares, sleeping, drained } = now;
    json!({
        "node": number,
        "name": name,
        "agent": agent,
        "drained": drained,
        "spares": sleeping,
        "spare_processes": spares,
    })
}

fn pe((pe, now): (Pe, &PeNow)) -> Value {
    json!({
        "pe": pe,
        "node": now.node,
        "state": name(now.shown()),
        "incarnation": now.incarnation,
        "process": now.pid,
        "waits_in": now.calls,
    })
}

fn group(GroupNow { group, members, lost }: &GroupNow) -> Value {
    json!({ "group": group, "pes": members, "lost": lost })
}

fn recovery(job: &Picture) -> Option<Value> {
    let (since, progress) = job.figures.recovery.as_ref()?;
    let bytes = progress.bytes.map(|(done, of)| json!({ "rebuilt": done, "of": of }));
    Some(json!({
        "running": job.now.saturating_sub(*since).as_secs_f64(),
        "step": step(job, progress),
        "bytes": bytes,
        "rate": progress.rate,
        "left": progress.left.map(|left| left.as_secs_f64()),
    }))
}
