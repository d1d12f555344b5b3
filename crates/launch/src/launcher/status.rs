//! The status of a job: in full as text or JSON for `oshrun --status`, and in a few lines for the
//! terminal view. Pure.

#![forbid(unsafe_code)]

mod json;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use raidshmem_core::placement::survival::Survival;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::BackupMode;
use raidshmem_core::view::PeState;

use super::statistics::Figures;
use crate::live::{Bar, Frame};
use crate::query::AnswerForm;
use raidshmem_report::progress::RebuildProgress;
use raidshmem_report::words::{self, bytes, count, span, time};

/// The maximum number of nodes, and of groups, with a line of their own in the view.
const LINES: usize = 8;

/// The fixed properties of a job.
#[derive(Debug)]
pub struct Title {
    /// Process id of its launcher.
    pub job: u32,
    /// Its program with arguments.
    pub program: String,
    pub since: SystemTime,
    pub mode: BackupMode,
    pub group_of: Vec<usize>,
}

/// The status of a PE.
#[derive(Debug, Clone)]
pub struct PeNow {
    pub node: u32,
    pub incarnation: Incarnation,
    pub state: PeState,
    pub stopped: bool,
    /// Its process id, if its node has answered.
    pub pid: Option<u32>,
    /// The calls it has been waiting in for long.
    pub calls: Vec<String>,
}

impl PeNow {
    /// Returns its state, without distinctions that the status does not show.
    fn shown(&self) -> PeState {
        match self.state {
            over @ (PeState::Hole | PeState::Ended) => over,
            _ if self.stopped => PeState::Stopped,
            PeState::Waiting => PeState::Running,
            PeState::Joining => PeState::Starting,
            PeState::Recovering => PeState::Lost,
            PeState::AtEnd => PeState::Finalizing,
            other => other,
        }
    }
}

/// Returns the name of a state of [`PeNow::shown`].
const fn name(state: PeState) -> &'static str {
    match state {
        PeState::Running | PeState::Waiting => "alive",
        PeState::Stopped => "stopped",
        PeState::Starting | PeState::Joining => "starting",
        PeState::Lost | PeState::Recovering => "being replaced",
        PeState::Hole => "lost",
        PeState::Finalizing | PeState::AtEnd => "in shmem_finalize",
        PeState::Ended => "ended",
    }
}

/// The status of a node.
#[derive(Debug, Clone)]
pub struct NodeNow {
    pub name: String,
    /// The process id of its agent, if that has answered.
    pub agent: Option<u32>,
    /// The process ids of its spares, if its agent has answered.
    pub spares: Vec<u32>,
    /// The number of its spares.
    pub sleeping: usize,
    /// True if it is being drained.
    pub drained: bool,
}

/// The status of a job.
#[derive(Debug)]
pub struct Picture<'a> {
    pub title: &'a Title,
    /// The time for which it has run.
    pub now: Duration,
    pub nodes: BTreeMap<u32, NodeNow>,
    /// The PEs, by number.
    pub pes: Vec<PeNow>,
    pub spares: usize,
    pub figures: Figures,
    /// The single losses that would end the job, unless a change is imminent.
    pub survival: Option<Survival>,
}

/// Returns the answer to `oshrun --status`.
pub fn answer(job: &Picture, form: AnswerForm) -> String {
    match form {
        AnswerForm::Text => text(job),
        AnswerForm::Json => format!("{:#}\n", json::json(job)),
    }
}

fn text(job: &Picture) -> String {
    let title = job.title;
    let since = humantime::format_rfc3339_seconds(title.since);
    let mut text = format!(
        "job {}: {}\nsince {since}, for {}, mode {}\n",
        title.job,
        title.program.escape_debug(),
        span(job.now),
        title.mode.name()
    );
    let _ = writeln!(text, "{}", counts(job)); // writing to a string cannot fail, here and below
    let recovery = job.figures.recovery.as_ref().map(|(_, progress)| {
        let does = [Some(step(job, progress)), amount(progress)];
        recovery(job, does.into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    let lines = [Some(checkpoints(job)), losses(&job.figures), recovery];
    lines.into_iter().flatten().for_each(|line| _ = writeln!(text, "{line}"));
    if title.mode.protects() {
        groups(job).iter().for_each(|group| _ = writeln!(text, "{group}"));
        job.survival.iter().for_each(|survival| _ = writeln!(text, "{survival}"));
    }
    for (node, now) in &job.nodes {
        let agent = match now.agent {
            Some(pid) => format!("agent is process {pid}"),
            None => "no answer".to_owned(),
        };
        let drained = if now.drained { ", being drained" } else { "" };
        let _ = writeln!(text, "{}: {agent}{drained}", now.name);
        for (pe, now) in numbered(job).filter(|(_, pe)| pe.node == *node) {
            let _ = writeln!(text, "  PE {pe}: {}", describe(now));
        }
        now.spares.iter().for_each(|pid| _ = writeln!(text, "  spare: process {pid}"));
    }
    let away = |pe: &PeNow| !job.nodes.contains_key(&pe.node);
    for (pe, now) in numbered(job).filter(|(_, pe)| away(pe)) {
        let _ = writeln!(text, "PE {pe}: {}, without a node yet", describe(now));
    }
    text
}

fn describe(pe: &PeNow) -> String {
    let pid = pe.pid.map(|pid| format!("process {pid}, ")).unwrap_or_default();
    let calls: String = pe.calls.iter().map(|call| format!(", waits in {call}")).collect();
    format!("{pid}{}, incarnation {}{calls}", name(pe.shown()), pe.incarnation)
}

/// Returns the terminal view.
pub fn view(job: &Picture) -> Frame {
    let mut lines = vec![format!("{}; {}", counts(job), span(job.now))];
    lines.extend(nodes(job));
    lines.extend(broken_groups(job));
    let survival = job.survival.iter().filter(|survival| !survival.is_whole());
    lines.extend(survival.map(|survival| format!("{survival:#}")));
    lines.push(checkpoints(job));
    lines.extend(losses(&job.figures));
    let progress = job.figures.recovery.as_ref().map(|(_, progress)| progress);
    lines.extend(progress.map(|progress| recovery(job, step(job, progress))));
    let bar = progress.and_then(|progress| {
        let (done, of) = progress.bytes?;
        Some(Bar { done, of, words: amount(progress)? })
    });
    Frame { lines, bar }
}

/// Counts the PEs in each state.
fn counts(job: &Picture) -> String {
    let spares = match job.spares {
        0 => String::new(),
        spares => format!("; {}", count(spares as u64, "spare")),
    };
    let pes = count(job.pes.len() as u64, "PE");
    let nodes = count(job.nodes.len() as u64, "node");
    format!("{pes} on {nodes}: {}{spares}", by_state(numbered(job), |pes| pes.len()))
}

fn numbered<'a>(job: &'a Picture<'_>) -> impl Iterator<Item = (Pe, &'a PeNow)> {
    Pe::all(job.pes.len()).zip(&job.pes)
}

/// Formats PEs by state, such as `3 alive, 1 stopped`; `show` formats the PEs of one state.
fn by_state<'a, T: std::fmt::Display>(
    pes: impl Iterator<Item = (Pe, &'a PeNow)>,
    show: impl Fn(&[Pe]) -> T,
) -> String {
    let mut states: BTreeMap<PeState, Vec<Pe>> = BTreeMap::new();
    pes.for_each(|(pe, now)| states.entry(now.shown()).or_default().push(pe));
    let each = states.iter().map(|(&state, pes)| format!("{} {}", show(pes), name(state)));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns a line for each node; if there are many, only for those with PEs that are not alive.
fn nodes(job: &Picture) -> Vec<String> {
    let mut of: BTreeMap<u32, Vec<(Pe, &PeNow)>> = BTreeMap::new();
    for (pe, now) in numbered(job) {
        of.entry(now.node).or_default().push((pe, now));
    }
    let of = |node: &u32| of.get(node).map(Vec::as_slice).unwrap_or_default();
    let whole = |node: &u32| of(node).iter().all(|(_, pe)| pe.shown() == PeState::Running);
    let all = job.nodes.len() <= LINES;
    let shown: Vec<&u32> = job.nodes.keys().filter(|node| all || !whole(node)).collect();
    let mut lines = Vec::new();
    for node in shown.iter().take(LINES) {
        let NodeNow { name, sleeping, drained, .. } = &job.nodes[node];
        let spares = Some(count(*sleeping as u64, "spare")).filter(|_| *sleeping > 0);
        let states =
            Some(by_state(of(node).iter().copied(), Pe::names)).filter(|text| !text.is_empty());
        let leaves = drained.then(|| "being drained".to_owned());
        let each: Vec<String> = states.into_iter().chain(spares).chain(leaves).collect();
        let each = if each.is_empty() { "no PE".to_owned() } else { each.join("; ") };
        lines.push(format!("{name}: {each}"));
    }
    let more = shown.len().saturating_sub(LINES);
    if more > 0 {
        lines.push(format!("{} more with PEs that are not alive", count(more as u64, "node")));
    }
    lines
}

/// The status of a parity group. `Display` prints its line.
struct GroupNow {
    group: usize,
    members: Vec<Pe>,
    /// Those of its members that are lost or not rebuilt yet.
    lost: Vec<Pe>,
}

impl fmt::Display for GroupNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}: {}, ", self.group, Pe::names(&self.members))?;
        match self.lost.as_slice() {
            [] => write!(f, "whole"),
            lost => write!(f, "without {}", Pe::names(lost)),
        }
    }
}

fn groups(job: &Picture) -> Vec<GroupNow> {
    let mut of: BTreeMap<usize, Vec<Pe>> = BTreeMap::new();
    for (pe, &group) in Pe::all(job.title.group_of.len()).zip(&job.title.group_of) {
        of.entry(group).or_default().push(pe);
    }
    let is_lost = |pe: &&Pe| job.pes.get(pe.at()).is_some_and(|pe| pe.state.is_lost());
    let group = |(group, members): (usize, Vec<Pe>)| {
        let lost = members.iter().filter(is_lost).copied().collect();
        GroupNow { group, members, lost }
    };
    of.into_iter().map(group).collect()
}

/// Returns lines on the groups that are not whole; if there are many, only their number.
fn broken_groups(job: &Picture) -> Vec<String> {
    if !job.title.mode.protects() {
        return Vec::new();
    }
    let groups = groups(job);
    let all = count(groups.len() as u64, "group");
    let broken = groups.iter().filter(|group| !group.lost.is_empty());
    let broken: Vec<String> = broken.map(GroupNow::to_string).collect();
    match broken.len() {
        0 => vec![format!("{all}, mode {}: whole", job.title.mode.name())],
        1..=LINES => broken,
        many => vec![format!("{all}: {many} not whole")],
    }
}

fn checkpoints(job: &Picture) -> String {
    let figures = &job.figures;
    let Some((number, made)) = figures.last else { return "no checkpoint yet".to_owned() };
    let ago = span(job.now.saturating_sub(made));
    let every = figures.every.map(|every| format!(", one every {}", time(every)));
    let took = figures.took.map(|took| format!(", {} each", time(took)));
    format!(
        "{}, the last ({number}) {ago} ago{}{}",
        count(figures.checkpoints, "checkpoint"),
        every.unwrap_or_default(),
        took.unwrap_or_default()
    )
}

fn losses(figures: &Figures) -> Option<String> {
    let lost = words::losses(figures.processes, figures.nodes, figures.drained);
    lost.map(|lost| format!("so far: {lost}"))
}

fn recovery(job: &Picture, does: String) -> String {
    let since = job.figures.recovery.as_ref().map_or(job.now, |(since, _)| *since);
    format!("recovery, for {}: {does}", span(job.now.saturating_sub(since)))
}

/// Describes the current step of a recovery.
fn step(job: &Picture, progress: &RebuildProgress) -> String {
    let gone = numbered(job).filter(|(_, pe)| pe.state == PeState::Lost);
    let gone: Vec<Pe> = gone.map(|(pe, _)| pe).collect();
    match progress.step {
        Some(step) => step.name().to_owned(),
        None if gone.is_empty() => "waits until all PEs are in a checkpoint or restart".to_owned(),
        None => format!("a process for {} is started", Pe::names(&gone)),
    }
}

/// Formats the progress of a rebuild.
fn amount(progress: &RebuildProgress) -> Option<String> {
    let (done, of) = progress.bytes?;
    let percent = done.saturating_mul(100).checked_div(of).unwrap_or(100);
    let rate = progress.rate.map(|rate| format!(", {} a second", bytes(rate as u64)));
    let left = progress.left.filter(|_| done < of).map(|left| format!(", {} left", span(left)));
    Some(format!(
        "{percent} %, {} of {}{}{}",
        bytes(done),
        bytes(of),
        rate.unwrap_or_default(),
        left.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests;
