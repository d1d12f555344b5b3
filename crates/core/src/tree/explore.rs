//! A model checker for meetings in the tree: small trees run through a meeting of a checkpoint and
//! the next one, with torn and whole reads, deaths and views in every order; large trees run at
//! random.
//!
//! A PE dies at any moment. The view with the loss comes later, and each PE adopts it at any time;
//! this starts its first meeting in that view.

use std::collections::HashSet;

use super::meeting::{Meeting, MeetingStep, Sum};
use super::post::{BODY, FIRST, MeetingId, WORDS, Way, open, seal};
use super::{Location, Tree, trees};
use crate::quantity::{Pe, ViewNumber};

/// The number of contributions of each PE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Brought(Vec<u8>);

impl Sum for Brought {
    fn add(&mut self, other: &Brought) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += other);
    }

    fn close(&mut self) {}
}

impl Brought {
    fn of(pe: usize, pes: usize) -> Brought {
        Brought((0..pes).map(|other| u8::from(other == pe)).collect())
    }

    fn body(&self) -> [u64; BODY] {
        std::array::from_fn(|at| self.0.get(at).copied().unwrap_or(0).into())
    }

    fn read(body: [u64; BODY], pes: usize) -> Brought {
        Brought(body[..pes].iter().map(|&word| word as u8).collect())
    }
}

/// A PE: its posts up and down, each with the previous one, whose words may still be visible.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    lives: bool,
    view: usize,
    /// Number of meetings of this view that are over.
    met: u64,
    now: Option<Meeting<Brought>>,
    posts: [[[u64; WORDS]; 2]; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Run {
    members: Vec<Member>,
    /// Living PEs of each view.
    views: Vec<Vec<bool>>,
}

const MEETINGS: u64 = 2;

impl Run {
    fn first(pes: usize) -> Run {
        let posts = [[[0; WORDS]; 2]; 2];
        let member = Member { lives: true, view: 0, met: 0, now: None, posts };
        Run { members: vec![member; pes], views: vec![vec![true; pes]] }
    }

    fn tree(&self, me: usize) -> Tree {
        let living = &self.views[self.members[me].view];
        // Two PEs per node and two nodes per machine give all three kinds of branches.
        let place = |pe: usize| Location { machine: pe as u32 / 4, node: pe as u32 / 2 };
        let places: Vec<_> = (0..living.len()).map(|pe| living[pe].then(|| place(pe))).collect();
        trees(&places).swap_remove(me)
    }

    fn stage(&self, me: usize) -> MeetingId {
        let member = &self.members[me];
        MeetingId { view: ViewNumber(member.view as u64 + 1), number: FIRST + member.met }
    }

    /// Makes a step of PE `me`; words that it reads from index `cut` on are from the previous post.
    fn step(&mut self, me: usize, cut: usize) -> Result<(), String> {
        let (tree, stage, pes) = (self.tree(me), self.stage(me), self.members.len());
        let newest = self.views.len() - 1;
        let Some(mut now) = self.members[me].now.take() else {
            if self.members[me].met < MEETINGS {
                let meeting = Meeting::begin(&tree, Brought::of(me, pes));
                self.members[me].now = Some(meeting);
            } else if self.members[me].view < newest {
                (self.members[me].view, self.members[me].met) = (newest, 0);
            }
            return Ok(());
        };
        let read = |pe: Pe, way: Way| {
            let [old, new] = &self.members[pe.at()].posts[way as usize];
            let words = std::array::from_fn(|at| if at < cut { new[at] } else { old[at] });
            open(&words, stage, way).map(|body| Brought::read(body, pes))
        };
        let next = now.advance(&tree, read);
        if let MeetingStep::Post(way) = next {
            let words = seal(stage, way, &now.sum().body());
            let [old, new] = &mut self.members[me].posts[way as usize];
            (*old, *new) = (*new, words);
        }
        if now.is_over() {
            let living = &self.views[self.members[me].view];
            let all = Brought(living.iter().map(|&lives| lives.into()).collect());
            if *now.sum() != all {
                return Err(format!("{me} goes on with {:?} of {all:?}", now.sum()));
            }
            self.members[me].met += 1;
            return Ok(());
        }
        if next == MeetingStep::Wait && self.members[me].view < newest {
            (self.members[me].view, self.members[me].met) = (newest, 0);
            return Ok(());
        }
        self.members[me].now = Some(now);
        Ok(())
    }

    fn kill(&mut self, me: usize) {
        self.members[me].lives = false;
    }

    /// Publishes a view of the living PEs, as the launcher would, if it is a new one.
    fn order(&mut self) {
        let living: Vec<bool> = self.members.iter().map(|member| member.lives).collect();
        if self.views.last() != Some(&living) {
            self.views.push(living);
        }
    }

    fn all_met(&self) -> bool {
        let last = self.views.len() - 1;
        let done = |member: &Member| member.view == last && member.met == MEETINGS;
        self.members.iter().filter(|member| member.lives).all(done)
    }
}

/// Cuts of a read: no word of the new post, its head, all but its digest, all words.
const CUTS: [usize; 4] = [0, 2, WORDS - 1, WORDS];

/// Returns all possible next states.
fn successors(run: &Run, deaths: usize) -> Result<Vec<Run>, String> {
    let mut next = Vec::new();
    let dead = run.members.iter().filter(|member| !member.lives).count();
    for me in 0..run.members.len() {
        if !run.members[me].lives {
            continue;
        }
        for cut in CUTS {
            let mut then = run.clone();
            then.step(me, cut)?;
            next.push(then);
        }
        if dead < deaths {
            let mut then = run.clone();
            then.kill(me);
            next.push(then);
        }
    }
    let mut then = run.clone();
    then.order();
    next.push(then);
    next.retain(|then| then != run);
    Ok(next)
}

fn search(pes: usize, deaths: usize) -> usize {
    let (mut seen, mut stack) = (HashSet::new(), vec![Run::first(pes)]);
    while let Some(run) = stack.pop() {
        let next = successors(&run, deaths).unwrap_or_else(|error| panic!("{error}\n{run:?}"));
        assert!(!next.is_empty() || run.all_met(), "no wait for ever: {run:?}");
        let new: Vec<Run> = next.into_iter().filter(|run| seen.insert(run.clone())).collect();
        stack.extend(new);
    }
    seen.len()
}

#[test]
fn no_pe_continues_without_all_contributions() {
    for (pes, deaths) in [(2, 1), (3, 1), (3, 2), (5, 0)] {
        println!("{pes} PEs, {deaths} deaths: {} states", search(pes, deaths));
    }
}

/// Runs larger trees, in orders of a fixed random generator, with deaths in between.
#[test]
fn large_trees_meet_whichever_pe_dies() {
    for seed in 0..200u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % end
        };
        let mut run = Run::first(6 + below(26));
        let mut deaths = below(4);
        for _ in 0..200_000 {
            let me = below(run.members.len());
            match below(400) {
                0 if deaths > 0 => {
                    deaths -= 1;
                    run.kill(me);
                }
                1 => run.order(),
                _ if run.members[me].lives => {
                    run.step(me, CUTS[below(4)]).unwrap_or_else(|error| panic!("{seed}: {error}"));
                }
                _ => {}
            }
            let living = run.members.iter().map(|member| member.lives);
            let settled = living.eq(run.views[run.views.len() - 1].iter().copied());
            if deaths == 0 && settled && run.all_met() {
                break;
            }
        }
        assert!(run.all_met(), "{seed}: no wait for ever");
    }
}
