//! The status of a job as text: in full for `oshrun --status`, and in a few lines for the terminal
//! view. Pure.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use raidshmem_core::placement::survival::Survival;
use raidshmem_core::quantity::{Incarnation, Pe};
use raidshmem_core::settings::BackupMode;
use raidshmem_core::view::PeState;

use super::statistics::Figures;
use crate::live::{Bar, Frame};
use raidshmem_report::progress::RebuildProgress;
use raidshmem_report::words::{bytes, count, span, time};

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

/// Returns the text of `oshrun --status`.
pub fn text(job: &Picture) -> String {
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
        groups(job).iter().for_each(|(_, line)| _ = writeln!(text, "{line}"));
        job.survival.iter().for_each(|survival| _ = writeln!(text, "{survival}"));
    }
    for (node, now) in &job.nodes {
        let agent = match now.agent {
            Some(pid) => format!("agent is process {pid}"),
            None => "no answer".to_owned(),
        };
        let _ = writeln!(text, "{}: {agent}", now.name);
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
        let NodeNow { name, sleeping, .. } = &job.nodes[node];
        let spares = Some(count(*sleeping as u64, "spare")).filter(|_| *sleeping > 0);
        let states =
            Some(by_state(of(node).iter().copied(), Pe::names)).filter(|text| !text.is_empty());
        let each: Vec<String> = states.into_iter().chain(spares).collect();
        let each = if each.is_empty() { "no PE".to_owned() } else { each.join("; ") };
        lines.push(format!("{name}: {each}"));
    }
    let more = shown.len().saturating_sub(LINES);
    if more > 0 {
        lines.push(format!("{} more with PEs that are not alive", count(more as u64, "node")));
    }
    lines
}

/// Returns a line for each group, with true if the group is whole.
fn groups(job: &Picture) -> Vec<(bool, String)> {
    let mut of: BTreeMap<usize, Vec<Pe>> = BTreeMap::new();
    for (pe, &group) in Pe::all(job.title.group_of.len()).zip(&job.title.group_of) {
        of.entry(group).or_default().push(pe);
    }
    let lost = |pe: &&Pe| job.pes.get(pe.at()).is_some_and(|pe| pe.state.is_lost());
    let line = |(group, members): (&usize, &Vec<Pe>)| {
        let lost: Vec<Pe> = members.iter().filter(lost).copied().collect();
        let state = match lost.as_slice() {
            [] => "whole".to_owned(),
            lost => format!("without {}", Pe::names(lost)),
        };
        (lost.is_empty(), format!("group {group}: {}, {state}", Pe::names(members)))
    };
    of.iter().map(line).collect()
}

/// Returns lines on the groups that are not whole; if there are many, only their number.
fn broken_groups(job: &Picture) -> Vec<String> {
    if !job.title.mode.protects() {
        return Vec::new();
    }
    let groups = groups(job);
    let all = count(groups.len() as u64, "group");
    let broken: Vec<String> =
        groups.into_iter().filter(|(whole, _)| !whole).map(|(_, line)| line).collect();
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
    let each = [(figures.processes, "PE"), (figures.nodes, "node")];
    let each = each.iter().filter(|(number, _)| *number > 0);
    let each: Vec<String> = each.map(|&(number, what)| count(number, what)).collect();
    (!each.is_empty()).then(|| format!("lost so far: {}", each.join(" and ")))
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
mod tests {
    use super::*;
    use raidshmem_core::message::RecoveryStep;
    use raidshmem_core::placement::survival::FatalDomain;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn title(mode: BackupMode, group_of: Vec<usize>) -> Title {
        let program = "./jacobi 64".to_owned();
        Title { job: 7, program, since: SystemTime::UNIX_EPOCH, mode, group_of }
    }

    /// Returns a job with `each` PEs per node, all alive.
    fn job(title: &Title, each: usize) -> Picture<'_> {
        let count = title.group_of.len();
        let pe = |pe: usize| PeNow {
            node: (pe / each) as u32,
            incarnation: Incarnation(0),
            state: PeState::Running,
            stopped: false,
            pid: Some(100 + pe as u32),
            calls: Vec::new(),
        };
        let node = |node: usize| {
            let (name, agent) = (format!("node {node}"), Some(10 + node as u32));
            (node as u32, NodeNow { name, agent, spares: Vec::new(), sleeping: 0 })
        };
        Picture {
            title,
            now: at(90.0),
            nodes: (0..count.div_ceil(each)).map(node).collect(),
            pes: (0..count).map(pe).collect(),
            spares: 0,
            figures: Figures::default(),
            survival: None,
        }
    }

    #[test]
    fn a_job_is_shown_with_all_its_processes() {
        let title = title(BackupMode::Raid5, vec![0, 1, 0, 1]);
        let mut job = job(&title, 2);
        job.pes[1].stopped = true;
        job.pes[2].calls.push("shmem_barrier_all".to_owned());
        job.nodes.get_mut(&1).unwrap().agent = None;
        job.nodes.get_mut(&0).unwrap().spares.push(55);
        job.spares = 1;
        let figures = &mut job.figures;
        (figures.checkpoints, figures.last) = (27, Some((28, at(88.8))));
        (figures.every, figures.took) = (Some(at(3.4)), Some(at(0.012)));
        (figures.processes, figures.nodes) = (2, 1);
        let text = text(&job);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "job 7: ./jacobi 64",
                "since 1970-01-01T00:00:00Z, for 1m 30s, mode raid5",
                "4 PEs on 2 nodes: 3 alive, 1 stopped; 1 spare",
                "27 checkpoints, the last (28) 1.2 s ago, one every 3.40 s, 12.0 ms each",
                "lost so far: 2 PEs and 1 node",
                "group 0: PEs 0,2, whole",
                "group 1: PEs 1,3, whole",
                "node 0: agent is process 10",
                "  PE 0: process 100, alive, incarnation 0",
                "  PE 1: process 101, stopped, incarnation 0",
                "  spare: process 55",
                "node 1: no answer",
                "  PE 2: process 102, alive, incarnation 0, waits in shmem_barrier_all",
                "  PE 3: process 103, alive, incarnation 0",
            ]
        );
    }

    #[test]
    fn a_recovery_shows_its_step_and_the_remaining_work() {
        let title = title(BackupMode::Rs, vec![0; 4]);
        let mut job = job(&title, 1);
        let set = |job: &mut Picture, progress| job.figures.recovery = Some((at(88.0), progress));
        job.nodes.remove(&2);
        let lost = &mut job.pes[2];
        (lost.state, lost.pid) = (PeState::Lost, None);
        set(&mut job, RebuildProgress::default());
        let shown = text(&job);
        for line in [
            "4 PEs on 3 nodes: 3 alive, 1 being replaced\n",
            "recovery, for 2.0 s: a process for PE 2 is started\n",
            "group 0: PEs 0-3, without PE 2\n",
            "PE 2: being replaced, incarnation 0, without a node yet\n",
        ] {
            assert!(shown.contains(line), "`{line}` was expected in\n{shown}");
        }
        job.pes[2].state = PeState::Recovering;
        let last = |job: &Picture| view(job).lines.pop().unwrap();
        let waits = "recovery, for 2.0 s: waits until all PEs are in a checkpoint or restart";
        assert_eq!(last(&job), waits);
        set(
            &mut job,
            RebuildProgress { step: Some(RecoveryStep::Verify), ..RebuildProgress::default() },
        );
        assert_eq!(last(&job), "recovery, for 2.0 s: checking the surviving data");
        let (step, bytes) = (Some(RecoveryStep::Rebuild), Some((12 << 20, 40 << 20)));
        let (rate, left) = (Some(f64::from(14 << 20)), Some(at(2.0)));
        set(&mut job, RebuildProgress { step, bytes, rate, left });
        assert_eq!(last(&job), "recovery, for 2.0 s: rebuilding lost data");
        let words = "30 %, 12.0 MiB of 40.0 MiB, 14.0 MiB a second, 2.0 s left";
        let bar = view(&job).bar.unwrap();
        assert_eq!((bar.done, bar.of, bar.words.as_str()), (12 << 20, 40 << 20, words));
        let line = format!("\nrecovery, for 2.0 s: rebuilding lost data: {words}\n");
        assert!(text(&job).contains(&line), "{}", text(&job));
    }

    #[test]
    fn a_node_whose_loss_would_end_the_job_is_shown() {
        let title = title(BackupMode::Raid5, vec![0; 4]);
        let mut job = job(&title, 1);
        let has = |job: &Picture, line: &str| {
            (text(job).lines().any(|l| l == line), view(job).lines.iter().any(|l| l == line))
        };
        job.survival = Some(Survival::default());
        let whole = "survives the loss of any one node or domain";
        assert_eq!(has(&job, whole), (true, false), "the view is short");
        let fatal = vec![FatalDomain {
            kind: "node".to_owned(),
            domain: 1,
            name: "b".to_owned(),
            group: 0,
            members: 2,
        }];
        job.survival = Some(Survival { fatal, mends: vec!["x".to_owned()], ..Survival::default() });
        let short = "does not survive the loss of b (2 members of group 0 are in b)";
        assert_eq!(has(&job, short), (false, true));
        assert!(has(&job, &format!("{short}; would survive it: x")).0, "{}", text(&job));
    }

    #[test]
    fn the_view_shows_spares() {
        let title = title(BackupMode::Raid5, vec![0, 0]);
        let mut job = job(&title, 1);
        let name = "node 2".to_owned();
        job.nodes.insert(2, NodeNow { name, agent: None, spares: Vec::new(), sleeping: 2 });
        job.nodes.get_mut(&1).unwrap().sleeping = 1;
        let lines = view(&job).lines;
        assert_eq!(
            lines[1..4],
            ["node 0: PE 0 alive", "node 1: PE 1 alive; 1 spare", "node 2: 2 spares"]
        );
    }

    #[test]
    fn the_view_of_a_large_job_is_short() {
        let title = title(BackupMode::Raid5, (0..1000).map(|pe| pe / 10).collect());
        let mut job = job(&title, 10);
        let lines = view(&job).lines;
        assert_eq!(
            lines,
            [
                "1000 PEs on 100 nodes: 1000 alive; 1m 30s",
                "100 groups, mode raid5: whole",
                "no checkpoint yet",
            ]
        );
        let lose = |pe: &mut PeNow| pe.state = PeState::Recovering;
        lose(&mut job.pes[15]);
        assert_eq!(
            view(&job).lines[1..3],
            [
                "node 1: PEs 10-14,16-19 alive, PE 15 being replaced",
                "group 1: PEs 10-19, without PE 15"
            ]
        );
        job.pes.iter_mut().step_by(10).for_each(lose);
        let lines = view(&job).lines;
        assert_eq!(lines.len(), 1 + LINES + 3, "{lines:?}");
        assert_eq!(lines[1 + LINES], "92 nodes more with PEs that are not alive");
        assert_eq!(lines[2 + LINES], "100 groups: 100 not whole");
        assert_eq!(view(&self::job(&self::title(BackupMode::None, vec![0]), 1)).lines.len(), 3);
    }
}
