//! A model checker for agreements: every order of reads, steps, views and deaths in small teams,
//! and random runs of larger ones, in flat trees and in chains.
//!
//! A member reads one record at a time, so its knowledge of two others may be from different times.
//! Members die at any moment, also after they have decided. The view with the loss comes later, and
//! each living member adopts the newest one at any time.
//!
//! A member reads a record anew only if it was told of a change, as over a network.
//!
//! After the last agreement each member publishes a record of another team in the same place, as
//! soon as it may.

use std::collections::HashSet;

use super::{
    AgreedBits, Agreement, AgreementPhase, LivingMembers, Proposal, Record, Which, is_past,
};
use crate::quantity::Pe;
use crate::tree::Tree;

/// A member: the agreement that it is in, and its decisions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    lives: bool,
    now: Option<Agreement>,
    /// The record that it has published.
    shown: Option<Record>,
    /// Members whose records it reads: it was told, or has not read them in this view.
    unread: Vec<bool>,
    decided: Vec<AgreedBits>,
    /// Members that it has seen past the last agreement.
    past: Vec<bool>,
    /// True if the team has ended for it, and it has published a record of another.
    ended: bool,
}

/// Returns a record of the team that reuses the place.
fn of_the_next_team() -> Record {
    let (which, phase) = (Which { team: 2, number: 1, gate: 0 }, AgreementPhase::Gathered);
    let (proposal, decision) = (Proposal::default(), AgreedBits::default());
    Record { which, phase, view: 1, proposal, decision, previous: decision }
}

/// All members, and the living members in each view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Run {
    members: Vec<Member>,
    views: Vec<Vec<bool>>,
    deaths: usize,
}

/// The size of a search.
#[derive(Clone, Copy)]
struct Size {
    members: usize,
    agreements: usize,
    deaths: usize,
    /// Most children of a member.
    degree: usize,
    /// True if the agreements end early.
    early: bool,
}

fn proposal(member: usize, number: usize) -> Proposal {
    let value = !(1 << (member + 8 * number));
    Proposal { value, basis: 1 + (member == 0) as u64, acknowledged: member as u32 }
}

impl Run {
    fn first(size: Size) -> Run {
        let past = vec![false; size.members];
        let (now, shown, decided, ended) = (None, None, Vec::new(), false);
        let unread = vec![true; size.members];
        let member = Member { lives: true, now, shown, unread, decided, past, ended };
        let members = vec![member; size.members];
        Run { members, views: vec![vec![true; size.members]], deaths: 0 }
    }

    fn living(&self) -> &[bool] {
        self.views.last().expect("there is a first")
    }

    /// Returns the living members as `me` sees them: those before it in their order are above it.
    fn among(&self, me: usize, size: Size) -> LivingMembers {
        let living = self.living();
        let order: Vec<Pe> = (0..size.members).filter(|&pe| living[pe]).map(Pe::of).collect();
        let at = order.iter().position(|&pe| pe.at() == me).unwrap_or(0);
        let parent = at.checked_sub(1).map(|before| order[before / size.degree]);
        let below = (at * size.degree + 1)..=(at * size.degree + size.degree);
        let children: Vec<Pe> = below.filter_map(|at| order.get(at).copied()).collect();
        let lost = (size.members - order.len()) as u32;
        let (view, tells) = (self.views.len() as u64, children.clone());
        LivingMembers { view, tree: Tree { parent, children, leads: false }, tells, lost }
    }

    /// Lets a member with the last decision check one other member for being past it. Ends the team
    /// for the member when it has seen that of all living members.
    fn ends(&self, me: usize, size: Size, next: &mut Vec<Run>) {
        let member = &self.members[me];
        let Some(now) = &member.now else { return };
        if member.decided.len() < size.agreements || member.ended {
            return;
        }
        let living = self.living();
        let mut all = true;
        for other in (0..size.members).filter(|&other| other != me && living[other]) {
            let shown = self.members[other].shown.as_ref();
            if !member.past[other] && shown.is_some_and(|shown| is_past(now.record.which, shown)) {
                let mut run = self.clone();
                run.members[me].past[other] = true;
                next.push(run);
            }
            all &= member.past[other];
        }
        if all {
            let mut run = self.clone();
            run.members[me].shown = Some(of_the_next_team());
            run.members[me].ended = true;
            next.push(run);
        }
    }

    /// Collects the possible next steps of a member, except its death.
    fn steps(&self, me: usize, size: Size, next: &mut Vec<Run>) {
        let member = &self.members[me];
        if !member.lives {
            return;
        }
        self.ends(me, size, next);
        let mut with = |change: &dyn Fn(&mut Member)| {
            let mut run = self.clone();
            change(&mut run.members[me]);
            if run != *self {
                next.push(run);
            }
        };
        let over = member.now.as_ref().is_none_or(|now| now.decision().is_some());
        if over && member.decided.len() < size.agreements {
            let number = member.decided.len() + 1;
            let which = Which { team: 1, number: number as u64, gate: 0 };
            let previous = member.decided.last().copied().unwrap_or_default();
            let among = self.among(me, size);
            with(&move |member| {
                let (own, among) = (proposal(me, number), among.clone());
                let begun = Agreement::begin(which, own, previous, among);
                member.now = Some(if size.early { begun.ends_early() } else { begun });
                member.unread.fill(true);
            });
        }
        let Some(now) = &member.now else { return };
        let among = self.among(me, size);
        with(&|member| {
            let now = member.now.as_mut().unwrap();
            if now.view() < among.view {
                now.adopt(among.clone());
                member.unread.fill(true);
            }
        });
        let asks = now.asks_again();
        for &other in now.awaited().iter().filter(|other| asks || member.unread[other.at()]) {
            if let Some(shown) = self.members[other.at()].shown {
                with(&|member| {
                    member.unread[other.at()] = false;
                    member.now.as_mut().unwrap().observe(other, &shown);
                });
            }
        }
        let mut run = self.clone();
        let now = run.members[me].now.as_mut().expect("it has begun");
        if let Some(readers) = now.advance() {
            let (shown, told) = (*now.record(), now.told(readers).collect::<Vec<Pe>>());
            run.members[me].shown = Some(shown);
            told.into_iter().for_each(|other| run.members[other.at()].unread[me] = true);
        }
        if run != *self {
            next.push(run);
        }
    }

    /// Records new decisions, including those of members that die next.
    fn note(&mut self) {
        for member in &mut self.members {
            let Some(now) = &member.now else { continue };
            if let Some(decision) = now.decision()
                && member.decided.len() < now.record.which.number as usize
            {
                member.decided.push(decision);
            }
        }
    }

    fn deaths(&self, size: Size, next: &mut Vec<Run>) {
        for me in 0..size.members {
            if self.members[me].lives && self.deaths < size.deaths {
                let mut run = self.clone();
                run.members[me].lives = false;
                run.deaths += 1;
                next.push(run);
            }
        }
        let living: Vec<bool> = self.members.iter().map(|member| member.lives).collect();
        if self.living() != living {
            let mut run = self.clone();
            run.views.push(living);
            next.push(run);
        }
    }

    fn check(&self, size: Size) -> Result<(), String> {
        for number in 0..size.agreements {
            let counts = |member: &&Member| member.lives || !size.early;
            let members = self.members.iter().filter(counts);
            let mut all = members.filter_map(|member| member.decided.get(number));
            let Some(first) = all.next() else { continue };
            if let Some(other) = all.find(|other| *other != first) {
                return Err(format!("{first:?} and {other:?}"));
            }
            let lives = &self.views[first.view as usize - 1];
            let value = |of: &dyn Fn(usize) -> bool| {
                let of = (0..size.members).filter(|&member| of(member));
                of.fold(u64::MAX, |all, member| all & proposal(member, number + 1).value)
            };
            if first.value != value(&|member| lives[member]) {
                return Err(format!("{first:?} is not that of all who lived then"));
            }
        }
        Ok(())
    }
}

impl Run {
    /// Checks a run without further steps: if the view shows the living members, none of them may
    /// wait.
    fn check_end(&self) -> Result<(), String> {
        let shown = self.living().iter().zip(&self.members).all(|(shown, m)| *shown == m.lives);
        let waits = |member: &Member| member.lives && !member.ended;
        match shown && self.members.iter().any(waits) {
            true => Err(format!("somebody waits for ever: {self:?}")),
            false => Ok(()),
        }
    }

    /// Runs to the end, in a random order given by the seed. Returns the number of deaths.
    fn random(size: Size, mut seed: u64) -> Result<usize, String> {
        let mut choose = |among: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as usize % among
        };
        let mut run = Run::first(size);
        loop {
            let (mut next, mut fatal) = (Vec::new(), Vec::new());
            (0..size.members).for_each(|me| run.steps(me, size, &mut next));
            run.deaths(size, &mut fatal);
            let shows = |next: &Run| next.deaths == run.deaths;
            let shown = fatal.iter().position(shows).map(|at| fatal.swap_remove(at));
            next.extend(shown);
            // Deaths are rare, so that they occur at every step of the other members.
            if !fatal.is_empty() && (next.is_empty() || choose(6 * size.members) == 0) {
                next = fatal;
            }
            if next.is_empty() {
                return run.check_end().map(|()| run.deaths);
            }
            run = next.swap_remove(choose(next.len()));
            run.note();
            run.check(size)?;
        }
    }
}

/// Explores all runs. Returns the number of states, or the first error.
fn explore(size: Size) -> Result<usize, String> {
    let (mut known, mut open) = (HashSet::new(), vec![Run::first(size)]);
    while let Some(run) = open.pop() {
        let mut next = Vec::new();
        (0..size.members).for_each(|me| run.steps(me, size, &mut next));
        next.iter_mut().for_each(Run::note);
        let stuck = next.is_empty();
        run.deaths(size, &mut next);
        if stuck {
            run.check_end()?;
        }
        for run in next {
            run.check(size).map_err(|error| format!("{error}: {run:?}"))?;
            if known.insert(run.clone()) {
                open.push(run);
            }
        }
    }
    Ok(known.len())
}

#[test]
fn one_value_for_all_whichever_pe_dies() {
    for early in [false, true] {
        for (members, agreements, deaths, degree) in
            [(2, 2, 1, 1), (3, 1, 2, 1), (3, 1, 2, 2), (3, 2, 1, 1), (3, 2, 1, 2)]
        {
            let size = Size { members, agreements, deaths, degree, early };
            let runs = explore(size).expect("every run is right");
            eprintln!("{members} members, {agreements} agreements, {deaths} deaths: {runs} states");
            assert!(runs > 100);
        }
    }
}

#[test]
fn one_value_for_all_in_random_runs_of_many() {
    for seed in 1..=300u64 {
        let members = 2 + seed as usize % 7;
        let degree = 1 + seed as usize / 7 % 3;
        let early = seed % 2 == 0;
        let size = Size { members, agreements: 3, deaths: members - 1, degree, early };
        let end = Run::random(size, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(end, Ok(members - 1), "seed {seed}: all but one die");
    }
}
