//! From a death back to the program: settle, verify, plan, rebuild, restore, re-encode, resume.
//!
//! ```text
//! settle     all living PEs meet, decide n or n+1, write the decision, finish n+1 if forward
//! verify     each PE checks every tile of its own store; findings are shown to all
//! plan       pure: what is missing, or the agreed verdict that too much is
//! rebuild    who misses chunks of its snapshot decodes them from its group's survivors
//! restore    snapshot -> live memory, allocator state
//! reencode   who misses parity computes it anew from live memory: redundancy is whole again
//! resume     control words reset; the view is joined; the program goes on
//! ```
//!
//! Between the steps the PEs meet by showing `view << 8 | step`: a word that only grows, so it needs
//! no reset. A further death anywhere changes the view, and everyone begins again with the next one.
//!
//! Invariants: nothing of the store that the decision relies on is overwritten before redundancy is
//! whole; user code runs neither between a written phase and the settled decision, nor between
//! restore and resume.

pub mod plan;
mod steps;

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::control::message::Report;
use crate::control::view::{State, View};
use crate::inject::Point;
use crate::pgas::World;
use crate::store::checkpoint;
use crate::store::phase::{Phase, Vote, decide};
use crate::store::protection::Protection;

/// Where the PEs meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Settling = 1,
    Decided,
    Settled,
    Verified,
    Judged,
    Rebuilt,
    Restored,
    Encoded,
    Reset,
}

/// The view changed: begin again with the next.
struct Changed;

/// Waits until every living PE of `view` has come to `step`.
fn meet(world: &World, view: &View, step: Step) -> Result<(), Changed> {
    let word = view.number << 8 | step as u64;
    let own = &world.segment().words().step;
    own.store(word, Ordering::SeqCst); // pairs with the loads below: what I wrote before is seen
    let living = |pe: &usize| view.pes[*pe].state == State::Alive;
    let others: Vec<usize> = (0..world.n_pes()).filter(living).collect();
    others.iter().for_each(|&pe| world.wake(pe));
    let here = |pe: &usize| world.peer(*pe).words().step.load(Ordering::SeqCst) >= word;
    let mut met = false;
    world.wait_raw(|| {
        met = others.iter().all(here);
        met || world.view_number() != view.number
    });
    if met { Ok(()) } else { Err(Changed) }
}

/// Brings every living PE to one decision after a death, and finishes the checkpoint where the
/// decision is forward. Called before the program hears of the fault, so that no user code runs
/// between a half-made checkpoint and its completion. Returns the checkpoint to resume from.
pub fn settle(world: &World, protection: &Protection) -> u64 {
    loop {
        let view = world.view();
        world.refresh(&view);
        if let Ok(target) = settle_in(world, protection, &view) {
            return target;
        }
    }
}

fn settle_in(world: &World, protection: &Protection, view: &View) -> Result<u64, Changed> {
    let header = world.segment().header();
    world.point(Point::Settle, world.agreed());
    meet(world, view, Step::Settling)?;
    let vote = |pe: usize| {
        let header = world.peer(pe).header();
        Vote {
            phase: Phase::unpack(header.phase.load(Ordering::SeqCst)),
            decided: header.decision.load(Ordering::SeqCst).checked_sub(1),
        }
    };
    let living = (0..world.n_pes()).filter(|&pe| view.pes[pe].state == State::Alive);
    let votes: Vec<Vote> = living.map(vote).collect();
    let Some(target) = decide(&votes) else {
        world.condemn("unrecoverable: no PE that saw a checkpoint is left")
    };
    header.decision.store(target + 1, Ordering::SeqCst);
    world.point(Point::Decided, target);
    meet(world, view, Step::Decided)?;
    let phase = Phase::unpack(header.phase.load(Ordering::SeqCst));
    match phase {
        Some(Phase::Encoded(n) | Phase::Copying(n)) if n == target => {
            let coverage = world.covered();
            checkpoint::copy(world, protection, &coverage, target, false);
        }
        Some(_) => world.set_phase(Phase::Agreed(target)),
        None => {}
    }
    world.set_agreed(target);
    meet(world, view, Step::Settled)?;
    Ok(target)
}

/// Carries the job from a death back to its last agreed checkpoint. Collective over all PEs, the
/// substitutes among them; does not return if the loss is more than the parity covers.
pub fn restart(world: &World, protection: &Protection) {
    let begun = Instant::now();
    loop {
        world.wait_raw(|| world.view().whole());
        let view = world.view();
        if !view.whole() {
            continue;
        }
        world.refresh(&view);
        if let Ok(target) = attempt(world, protection, &view) {
            world.join(&view);
            if world.me() == 0 {
                let micros = begun.elapsed().as_micros() as u64;
                world.report(Report::Resumed { number: target, micros });
            }
            world.point(Point::Resume, target);
            return;
        }
    }
}

fn attempt(world: &World, protection: &Protection, view: &View) -> Result<u64, Changed> {
    let target = settle_in(world, protection, view)?;
    if target == 0 {
        world.condemn(&format!(
            "unrecoverable: PEs {} were lost before the first checkpoint",
            world.replaced_in(view)
        ));
    }
    world.point(Point::Verify, target);
    let begun = Instant::now();
    steps::verify(world, protection, target);
    meet(world, view, Step::Verified)?;
    let (len, findings) = steps::findings(world, protection);
    let verdict = steps::check(protection, &findings);
    meet(world, view, Step::Judged)?; // every PE has read every finding before anyone acts or ends
    if let Err(verdict) = verdict {
        world.condemn(&verdict.to_string());
    }
    world.point(Point::Rebuild, target);
    let snapshot = steps::rebuild(world, protection, &findings, target, len, begun);
    meet(world, view, Step::Rebuilt)?;
    world.point(Point::Restore, target);
    let coverage = steps::restore(world, protection, snapshot, target, len);
    meet(world, view, Step::Restored)?;
    world.point(Point::Reencode, target);
    steps::reencode(world, protection, &findings, &coverage, target);
    meet(world, view, Step::Encoded)?;
    world.reset_control();
    world.set_phase(Phase::Agreed(target));
    meet(world, view, Step::Reset)?;
    world.segment().header().decision.store(0, Ordering::SeqCst);
    Ok(target)
}
