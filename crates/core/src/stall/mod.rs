//! Detection of PEs that wait for each other too long: prints a line, or ends the job if the wait
//! can never end. Pure: reports and times in, messages out.
//!
//! Agents report long waits of their PEs, repeatedly while there are any. When a wait has lasted
//! for the limit, a line lists the PEs that wait in each call, and those that do not. The line is
//! printed once per stall, and again after another limit if it did not show a wait that lasts, or
//! if a PE has since stopped or finalised. (Agents report one after another, so one of them may
//! still report a stall that is over; PEs that resume are therefore no reason for a new line.)
//!
//! A wait can never end if it is for PEs that must make a matching call, one of them waits in
//! `shmem_finalize` or has ended, and no PE that could affect the wait can still make progress. A
//! PE can *move* if it computes, is stopped, is being replaced, or waits for something that any PE
//! may do; and a PE that waits for one that can move can move. (A PE that has done its part of a
//! collective may be in `shmem_finalize` while other PEs are still in the collective: they poll
//! again, and continue.)
//!
//! Invariant: before the job ends for a stall, every waiting PE has polled again since the picture
//! last changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use super::detector::MachineTime;
use crate::message::{Wait, WaitTarget};
use crate::mutant::{Mutant, breaks};
use crate::quantity::{CheckpointNumber, Pe};
use crate::view::PeState;

/// An action for the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StallAction {
    /// Print a line for the user.
    Say(String),
    /// End the job: the wait can never end.
    End(String),
}

/// The latest report of a node.
#[derive(Debug, Clone, Default)]
struct Report {
    waits: Vec<Wait>,
    stopped: Vec<Pe>,
}

/// The state of all PEs at one time.
struct Picture<'a> {
    does: Vec<PeState>,
    /// The waits of each PE; empty if it does not wait.
    waits: Vec<Vec<&'a Wait>>,
}

/// The picture that the last line showed.
#[derive(Debug)]
struct Printed {
    time: MachineTime,
    does: Vec<PeState>,
    waits: BTreeSet<(Pe, (u8, u64))>,
}

/// Waits by PE, thread and serial, each with its number of polls.
type Looks = BTreeMap<(Pe, (u8, u64)), u64>;

/// PEs that cannot move, since when, and the poll count of each at the time.
#[derive(Debug)]
struct Stuck {
    since: MachineTime,
    looks: Looks,
}

/// Polls that guarantee that a thread has seen the state at the time of the first count.
const LOOKED: u64 = 2;

/// The stalls of a job.
#[derive(Debug)]
pub struct Stalls {
    limit: Duration,
    nodes: BTreeMap<u32, Report>,
    said: Option<Printed>,
    /// Time since when some PE has been in `shmem_init`, until a line has reported it.
    joining: Option<MachineTime>,
    stuck: Option<Stuck>,
}

impl Stalls {
    /// Creates a detector of waits that last longer than `limit`.
    pub fn new(limit: Duration) -> Stalls {
        Stalls { limit, nodes: BTreeMap::new(), said: None, joining: None, stuck: None }
    }

    /// Checks for a stall in `shmem_init`, where PEs wait for those missing before any wait is
    /// reported.
    pub fn look(&mut self, time: MachineTime, standing: &[PeState]) -> Option<StallAction> {
        let of = |what| {
            let is = |pe: &Pe| standing[pe.at()] == what;
            Pe::all(standing.len()).filter(is).collect::<Vec<_>>()
        };
        let (joining, missing) = (of(PeState::Joining), of(PeState::Starting));
        if self.limit.is_zero() || joining.is_empty() || missing.is_empty() {
            return None;
        }
        let since = *self.joining.get_or_insert(time);
        if time.saturating_sub(since) < self.limit {
            return None;
        }
        self.joining = Some(MachineTime::MAX); // reported
        let (verb, lasted) = (if joining.len() == 1 { "waits" } else { "wait" }, time - since);
        let (who, rest) = (Pe::names(&joining), others(PeState::Starting, &missing));
        Some(StallAction::Say(format!(
            "{who} {verb} in shmem_init for {}; {rest}",
            seconds(lasted)
        )))
    }

    /// Discards the report of a node that was lost.
    pub fn forget(&mut self, node: u32) {
        self.nodes.remove(&node);
    }

    /// Processes a node's report: the long waits of its PEs, and its stopped PEs.
    pub fn hear(
        &mut self,
        time: MachineTime,
        (node, waits, stopped): (u32, Vec<Wait>, Vec<Pe>),
        standing: &[PeState],
    ) -> Option<StallAction> {
        self.nodes.insert(node, Report { waits, stopped });
        let picture = Picture::new(self.nodes.values(), standing);
        let stuck = picture.stuck();
        let lasting = picture.lasting(self.limit);
        if is_settled(&mut self.stuck, time, picture.looks(&stuck), self.limit)
            && !stuck.is_disjoint(&lasting)
            && stuck.iter().any(|pe| picture.blocker(*pe).is_some())
        {
            return Some(StallAction::End(picture.verdict(&stuck)));
        }
        if lasting.is_empty() || breaks(Mutant::StallUnreported) {
            return None;
        }
        if let Some(said) = &self.said
            && (time - said.time < self.limit || !picture.is_news(said, &lasting))
        {
            return None;
        }
        let (line, waits) = (picture.line(), picture.waits.iter().flatten());
        let waits = waits.map(|wait| (wait.pe, wait.serial)).collect();
        let does = picture.does.clone();
        self.said = Some(Printed { time, does, waits });
        Some(StallAction::Say(line))
    }
}

/// Returns true if the stuck waits are unchanged for half of `limit`, and all have polled
/// meanwhile.
fn is_settled(stuck: &mut Option<Stuck>, time: MachineTime, looks: Looks, limit: Duration) -> bool {
    match stuck {
        Some(before) if before.looks.keys().eq(looks.keys()) => {
            let looked = before.looks.iter().all(|(wait, then)| looks[wait] >= then + LOOKED);
            looked && time - before.since >= limit / 2
        }
        _ => {
            *stuck = Some(Stuck { since: time, looks });
            false
        }
    }
}

fn members(whom: WaitTarget, n_pes: usize) -> impl Iterator<Item = Pe> {
    let (start, stride, size) = match whom {
        WaitTarget::Members { start, stride, size } => (start, stride, size as usize),
        WaitTarget::Anyone | WaitTarget::Finalize => (0, 1, n_pes),
    };
    let at = move |index: usize| i64::from(start) + i64::from(stride) * index as i64;
    (0..size.min(n_pes))
        .filter_map(move |i| u32::try_from(at(i)).ok().map(Pe))
        .filter(move |pe| pe.at() < n_pes)
}

impl<'a> Picture<'a> {
    fn new(reports: impl Iterator<Item = &'a Report>, standing: &[PeState]) -> Picture<'a> {
        let n_pes = standing.len();
        let (mut waits, mut stopped) = (vec![Vec::new(); n_pes], vec![false; n_pes]);
        for report in reports {
            let known = report.waits.iter().filter(|wait| wait.pe.at() < n_pes);
            known.for_each(|wait| waits[wait.pe.at()].push(wait));
            let known = report.stopped.iter().filter(|&&pe| pe.at() < n_pes);
            known.for_each(|&pe| stopped[pe.at()] = true);
        }
        let ends = |waits: &[&Wait]| waits.iter().any(|wait| wait.whom == WaitTarget::Finalize);
        let does = |(at, standing): (usize, &PeState)| match *standing {
            over @ (PeState::Lost | PeState::Hole | PeState::Ended) => over,
            _ if ends(&waits[at]) => PeState::AtEnd,
            _ if stopped[at] => PeState::Stopped,
            _ if !waits[at].is_empty() => PeState::Waiting,
            PeState::Joining | PeState::Recovering => PeState::Running,
            other => other,
        };
        Picture { does: standing.iter().enumerate().map(does).collect(), waits }
    }

    fn pes(&self) -> impl Iterator<Item = Pe> + use<> {
        Pe::all(self.does.len())
    }

    fn waiting(&self) -> impl Iterator<Item = Pe> {
        self.pes().filter(|&pe| self.does[pe.at()] == PeState::Waiting)
    }

    /// Returns true if the last line did not show a wait of `lasting`, or if a PE has since entered
    /// a state that it will not leave soon.
    fn is_news(&self, said: &Printed, lasting: &BTreeSet<Pe>) -> bool {
        let new = |wait: &&Wait| !said.waits.contains(&(wait.pe, wait.serial));
        let goes_on = |does: PeState| matches!(does, PeState::Waiting | PeState::Running);
        lasting.iter().any(|&pe| self.waits[pe.at()].iter().any(new))
            || self
                .pes()
                .any(|pe| !goes_on(self.does[pe.at()]) && self.does[pe.at()] != said.does[pe.at()])
    }

    /// Returns the PEs that have waited for `limit`.
    fn lasting(&self, limit: Duration) -> BTreeSet<Pe> {
        let long = |pe: &Pe| self.waits[pe.at()].iter().any(|wait| wait.lasted >= limit);
        self.waiting().filter(long).collect()
    }

    fn is_over(&self, pe: Pe) -> bool {
        matches!(self.does[pe.at()], PeState::AtEnd | PeState::Ended)
    }

    /// Returns the PEs that wait and cannot move.
    fn stuck(&self) -> BTreeSet<Pe> {
        let mut stuck: BTreeSet<Pe> = self.waiting().collect();
        loop {
            let is_hole = |pe: Pe| self.does[pe.at()] == PeState::Hole;
            let holds = |pe: Pe| stuck.contains(&pe) || self.is_over(pe) || is_hole(pe);
            let ends = |wait: &&Wait| match wait.whom {
                WaitTarget::Members { .. } => !members(wait.whom, self.does.len()).all(holds),
                WaitTarget::Anyone | WaitTarget::Finalize => true,
            };
            let can_move = |pe: &&Pe| self.waits[pe.at()].iter().any(ends);
            let freed: Vec<Pe> = stuck.iter().filter(can_move).copied().collect();
            if freed.is_empty() || breaks(Mutant::VerdictTooEarly) {
                return stuck;
            }
            stuck.retain(|pe| !freed.contains(pe));
        }
    }

    /// Returns a wait of the PE for PEs that are in `shmem_finalize`, or have ended.
    fn blocker(&self, pe: Pe) -> Option<&'a Wait> {
        let n_pes = self.does.len();
        let of = |wait: &&&Wait| {
            let group = matches!(wait.whom, WaitTarget::Members { .. });
            group && members(wait.whom, n_pes).any(|other| self.is_over(other))
        };
        self.waits[pe.at()].iter().find(of).copied()
    }

    /// Returns the waits of stuck PEs, and of those in `shmem_finalize`, with their polls.
    fn looks(&self, stuck: &BTreeSet<Pe>) -> Looks {
        let of = self.pes().filter(|pe| stuck.contains(pe) || self.does[pe.at()] == PeState::AtEnd);
        let waits = of.flat_map(|pe| &self.waits[pe.at()]);
        waits.map(|wait| ((wait.pe, wait.serial), wait.looks)).collect()
    }

    // ---- words --------------------------------------------------------------------------------

    /// Lists the PEs that wait in each call: `PEs 0-2 wait in shmem_barrier_all for 60 s`.
    fn calls(&self, of: impl Iterator<Item = Pe>) -> String {
        let mut calls: BTreeMap<(&str, WaitTarget, CheckpointNumber), (Vec<Pe>, Duration)> =
            BTreeMap::new();
        for wait in of.flat_map(|pe| &self.waits[pe.at()]) {
            let call = calls.entry((&wait.call, wait.whom, wait.agreed)).or_default();
            if call.0.last() != Some(&wait.pe) {
                call.0.push(wait.pe);
            }
            call.1 = call.1.max(wait.lasted);
        }
        let mut calls: Vec<_> = calls.into_iter().collect();
        calls.sort_by_key(|(_, (pes, _))| pes.clone());
        let say =
            |((call, whom, agreed), (pes, lasted))| self.call(call, whom, agreed, pes, lasted);
        calls.into_iter().map(say).collect::<Vec<_>>().join(", ")
    }

    fn call(
        &self,
        call: &str,
        whom: WaitTarget,
        agreed: CheckpointNumber,
        pes: Vec<Pe>,
        lasted: Duration,
    ) -> String {
        let verb = if pes.len() == 1 { "waits" } else { "wait" };
        let mut text = format!("{} {verb} in {call}", Pe::names(&pes));
        let team: Vec<Pe> = members(whom, self.does.len()).collect();
        if let WaitTarget::Members { .. } = whom
            && team.len() < self.does.len()
        {
            let _ = write!(text, " of {}", Pe::names(&team));
        }
        if agreed > CheckpointNumber::START {
            let _ = write!(text, " after checkpoint {agreed}");
        }
        let _ = write!(text, " for {}", seconds(lasted));
        text
    }

    fn line(&self) -> String {
        let mut rest: BTreeMap<PeState, Vec<Pe>> = BTreeMap::new();
        let waits = self.waiting().flat_map(|pe| &self.waits[pe.at()]);
        let concerned: BTreeSet<Pe> =
            waits.flat_map(|wait| members(wait.whom, self.does.len())).collect();
        let misses = |does: PeState| !matches!(does, PeState::Waiting | PeState::Hole);
        for pe in concerned.into_iter().filter(|&pe| misses(self.does[pe.at()])) {
            rest.entry(self.does[pe.at()]).or_default().push(pe);
        }
        let rest: Vec<String> = rest.iter().map(|(does, pes)| others(*does, pes)).collect();
        let rest = if rest.is_empty() { "no PE computes".to_owned() } else { rest.join(", ") };
        format!("{}; {rest}", self.calls(self.waiting()))
    }

    fn verdict(&self, stuck: &BTreeSet<Pe>) -> String {
        let blocked = || stuck.iter().copied().filter(|&pe| self.blocker(pe).is_some());
        let waits = blocked().filter_map(|pe| self.blocker(pe));
        let awaited = waits.flat_map(|wait| members(wait.whom, self.does.len()));
        let over: BTreeSet<Pe> = awaited.filter(|&pe| self.is_over(pe)).collect();
        let over: Vec<Pe> = over.into_iter().collect();
        let (one, few) = (over.len() == 1, blocked().nth(1).is_none());
        let who = if few { "it waits" } else { "they wait" };
        let ended = over.iter().all(|&pe| self.does[pe.at()] == PeState::Ended);
        let where_from = words(if ended { PeState::Ended } else { PeState::AtEnd }, one);
        let calls = self.calls(blocked());
        format!("unrecoverable: {calls}, and {}, for which {who}, {where_from}", Pe::names(&over))
    }
}

/// Returns the words for `one` PE in this state, or for several.
fn words(state: PeState, one: bool) -> &'static str {
    let (of_one, of_several) = match state {
        PeState::Waiting => ("waits", "wait"),
        PeState::Running | PeState::Joining | PeState::Recovering => ("computes", "compute"),
        PeState::Stopped => ("is stopped", "are stopped"),
        PeState::Starting => ("has not called shmem_init", "have not called shmem_init"),
        PeState::Lost => ("is being replaced", "are being replaced"),
        PeState::Hole => ("was lost", "were lost"),
        PeState::Finalizing | PeState::AtEnd => ("is in shmem_finalize", "are in shmem_finalize"),
        PeState::Ended => ("has ended", "have ended"),
    };
    if one { of_one } else { of_several }
}

/// Describes PEs that do not wait: `PE 3 does not (it computes)`.
fn others(does: PeState, pes: &[Pe]) -> String {
    let one = pes.len() == 1;
    let (verb, who) = if one { ("does", "it") } else { ("do", "they") };
    format!("{} {verb} not ({who} {})", Pe::names(pes), words(does, one))
}

fn seconds(time: Duration) -> String {
    let digits = if time.as_secs() < 10 { 1 } else { 0 };
    format!("{:.digits$} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;
