//! Static pointers that a restart sets to an address of the dead process.
//!
//! Checkpoints hold static variables, but no private memory. A substitute allocates its own,
//! perhaps at other addresses; then the restart overwrites its pointer with that of the dead
//! process:
//!
//! ```text
//! p = malloc(..)   checkpoint   restart   *p          reported
//! p = malloc(..)   checkpoint   restart   p = .., *p  not reported: `p` is assigned first
//! ```
//!
//! Invariant: in doubt nothing is reported. A pointer is reported only if nothing but whole stores
//! writes it, if at a checkpoint it may hold an address that is certainly one of private memory,
//! and if it may be read after a restart, but is not written before that on any path.
//!
//! Left out: pointers in arrays, in structures and on the symmetric heap, pointers returned by a
//! library, and programs with `setjmp`.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet as Bits;

use crate::forward::{Transfer, walk};
use crate::ir::Op;
use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::Object;
use crate::program::Site;
use crate::routines::{Sync, plain};
use crate::steps::{Step, Steps};

/// Bytes of a pointer.
const POINTER: u64 = 8;

/// A pointer that is wrong after a restart.
pub struct Stale {
    /// The variable.
    pub pointer: Object,
    /// Private memory that it may point to.
    pub target: Object,
    /// The instruction that reads it after a restart.
    pub read: Site,
}

/// The bits: pointers that hold the address of private memory, then pointers still as a restart has
/// left them.
struct Search<'m, 'p> {
    memory: &'m Memory<'p>,
    objects: usize,
    pointers: Bits,
    /// Pointers with such an address at a checkpoint.
    held: Bits,
    read: BTreeSet<(Object, Site)>,
    /// Pointers that may be written after a restart before they are read.
    renewed: Bits,
}

/// Returns static pointers that may hold the address of private memory, if nothing but whole stores
/// writes them.
#[must_use]
pub fn pointers(memory: &Memory<'_>, steps: &Steps) -> Bits {
    let mut found = Bits::with_capacity(memory.objects.all.len());
    let mut others = steps.escaped.clone();
    let strangers = strangers(memory, steps);
    for (site, step) in steps.all() {
        let effect = &step.effect;
        let whole = |at: &&Object| !strangers.contains(&site.function) && effect.kill.contains(at);
        if step.sync != Sync::Restart {
            others.extend(effect.writes.iter().filter(|at| !whole(at)).copied());
        }
        if stores_private(memory, site) {
            found.extend(effect.kill.iter().copied());
        }
    }
    found.difference_with(&others);
    let mut held = Bits::with_capacity(found.len());
    let all = memory.saved().filter(|at| memory.objects.all[*at].bytes == Some(POINTER));
    held.extend(all);
    found.intersect_with(&held);
    found
}

/// Returns the stale ones of the `pointers`, ordered by their number.
#[must_use]
pub fn stale(memory: &Memory<'_>, steps: &Steps, pointers: &Bits) -> Vec<Stale> {
    let objects = memory.objects.all.len();
    let mut pointers = pointers.clone();
    for (site, _) in steps.all() {
        left_out(memory, site).into_iter().for_each(|object| pointers.set(object, false));
    }
    if pointers.is_clear() || steps.all().any(|(_, step)| step.twice) {
        return Vec::new();
    }
    let none = Bits::with_capacity(objects);
    let (held, read, renewed) = (none.clone(), BTreeSet::new(), none);
    let mut search = Search { memory, objects, pointers, held, read, renewed };
    walk(memory, steps, 2 * objects, &mut search);
    search.held.difference_with(&search.renewed);
    let told = |pointer: Object| {
        let mut targets = memory.flow.solution.contents(pointer).iter().copied();
        let target = targets.find(|at| is_private(memory, *at))?;
        let read = search.read.iter().find(|read| read.0 == pointer)?.1;
        Some(Stale { pointer, target, read })
    };
    search.held.ones().filter_map(told).collect()
}

fn is_private(memory: &Memory<'_>, object: Object) -> bool {
    let kind = memory.objects.all[object].kind;
    matches!(kind, ObjectKind::Frame(_) | ObjectKind::Thread(_) | ObjectKind::Heap)
}

/// Returns true for a store of a pointer to private memory and nothing else.
fn stores_private(memory: &Memory<'_>, site: Site) -> bool {
    let Op::Store { value, pointer: true, .. } = &memory.objects.program.inst(site).op else {
        return false;
    };
    let points = memory.points(site.function, value);
    !points.is_empty() && points.iter().all(|at| is_private(memory, *at))
}

/// Returns the memory that a call excludes from checkpoints.
fn left_out(memory: &Memory<'_>, site: Site) -> BTreeSet<Object> {
    let name = memory.objects.program.called(site).map(plain);
    match &memory.objects.program.inst(site).op {
        Op::Call { args, .. } if name == Some("shmemx_ft_exclude") => {
            args.first().map(|of| memory.points(site.function, of)).unwrap_or_default()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns the functions that may run at any time: those that unknown code may call, and their
/// callees.
fn strangers(memory: &Memory<'_>, steps: &Steps) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut waiting = memory.flow.called_from_outside(&memory.objects);
    while let Some(function) = waiting.pop() {
        if found.insert(function) {
            waiting.extend(steps.of(function).flat_map(|step| &step.effect.callees));
        }
    }
    found
}

impl Search<'_, '_> {
    /// Returns the pointer that an instruction reads by its name.
    fn reads(&self, site: Site) -> Option<Object> {
        let Op::Load { from, .. } = &self.memory.objects.program.inst(site).op else {
            return None;
        };
        let direct = self.memory.objects.direct(site.function, from);
        direct.filter(|at| self.pointers.contains(*at))
    }

    fn is_as_restored(&self, pointer: Object, bits: &Bits) -> bool {
        bits.contains(self.objects + pointer)
    }
}

impl Transfer for Search<'_, '_> {
    fn gain(&self, site: Site, step: &Step, bits: &mut Bits) {
        if stores_private(self.memory, site) {
            let own = step.effect.kill.iter().copied();
            bits.extend(own.filter(|at| self.pointers.contains(*at)));
        }
        if step.sync == Sync::Restart {
            bits.extend(self.pointers.ones().map(|at| self.objects + at));
        }
    }

    fn pass(&mut self, site: Site, step: &Step, bits: &mut Bits) {
        if step.sync == Sync::Checkpoint {
            self.held.extend(self.pointers.ones().filter(|at| bits.contains(*at)));
        }
        if let Some(pointer) = self.reads(site)
            && self.is_as_restored(pointer, bits)
        {
            self.read.insert((pointer, site));
            bits.set(self.objects + pointer, false);
        }
        for pointer in step.effect.kill.iter().copied() {
            if self.is_as_restored(pointer, bits) {
                self.renewed.insert(pointer);
            }
            bits.set(pointer, false);
            bits.set(self.objects + pointer, false);
        }
        self.gain(site, step, bits);
    }
}
