//! The effect of each instruction on the memory of a program.
//!
//! Invariants: all memory that may be read is in `reads`; memory in `kill` is completely
//! overwritten, on every path past the instruction, by the thread that runs it. Left out: the order
//! of accesses.

use std::collections::BTreeSet;

use crate::gather::Flow;
use crate::ir::{Callee, Op, Operand};
use crate::objects::{Beyond, ObjectKind, Objects};
use crate::points::{OUTSIDE, Object};
use crate::program::Site;
use crate::routines::{Routine, Sync, plain};

/// The effects of an instruction itself, without those of the functions that it calls.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// Objects that may be read, `OUTSIDE` for all that escaped.
    pub reads: BTreeSet<Object>,
    /// Objects among them that may be read on any PE.
    pub remote: BTreeSet<Object>,
    /// Objects that may be written.
    pub writes: BTreeSet<Object>,
    /// Objects that are completely overwritten.
    pub kill: Vec<Object>,
    /// Functions with a body that may be called.
    pub callees: Vec<usize>,
    /// True if the call also reaches unknown code.
    pub unknown: bool,
    /// Arguments that stay with the library, which saves them in checkpoints.
    pub kept: BTreeSet<Object>,
}

/// Objects, pointers and calls of a program.
pub struct Memory<'a> {
    /// Its objects.
    pub objects: Objects<'a>,
    /// Its pointers.
    pub flow: Flow,
}

impl<'a> Memory<'a> {
    /// Computes the targets of pointers to the objects.
    #[must_use]
    pub fn new(objects: Objects<'a>) -> Self {
        let flow = Flow::new(&objects);
        Self { objects, flow }
    }

    /// Returns the objects that an operand may point to, `OUTSIDE` standing for itself.
    #[must_use]
    pub fn points(&self, function: usize, operand: &Operand) -> BTreeSet<Object> {
        self.flow.points(&self.objects, function, operand)
    }

    /// Returns the functions with a body that a call may reach.
    #[must_use]
    pub fn callees(&self, site: Site) -> Vec<usize> {
        let Op::Call { callee, .. } = &self.objects.program.inst(site).op else {
            return Vec::new();
        };
        let by_name = self.objects.program.named(site.function, callee).into_iter();
        let through = self.flow.callees.get(&site).into_iter().flatten().copied();
        by_name.chain(through).collect()
    }

    /// Returns the effects of an instruction.
    #[must_use]
    pub fn effect(&self, site: Site) -> Effect {
        let mut effect = Effect::default();
        let inst = self.objects.program.inst(site);
        let points = |operand| self.points(site.function, operand);
        match &inst.op {
            Op::Load { from, .. } => effect.reads = points(from),
            Op::Store { to, bytes, volatile, .. } => {
                effect.writes = points(to);
                let direct = self.objects.direct(site.function, to);
                effect.kill.extend(direct.filter(|at| !volatile && self.whole(*at, *bytes)));
            }
            Op::Update { at, .. } => {
                effect.reads = points(at);
                effect.writes = points(at);
            }
            Op::Call { callee, args, .. } => self.call(site, callee, args, &mut effect),
            _ => {}
        }
        effect
    }

    /// Returns true if `bytes` covers all of an object that exists once.
    fn whole(&self, object: Object, bytes: Option<u64>) -> bool {
        let known = &self.objects.all[object];
        known.single && bytes.is_some() && known.bytes == bytes
    }

    fn call(&self, site: Site, callee: &Callee, args: &[Operand], effect: &mut Effect) {
        effect.callees = self.callees(site);
        match self.objects.beyond(site) {
            Some(Beyond::Routine(routine)) => self.routine(site, routine, args, effect),
            Some(Beyond::Model(model)) => {
                for (at, arg) in args.iter().enumerate() {
                    let points = self.points(site.function, arg);
                    if model.reads(at) {
                        effect.reads.extend(points.iter().copied());
                    }
                    if model.writes(at) {
                        effect.writes.extend(points);
                    }
                }
                self.fill(site, args, effect);
            }
            Some(Beyond::Unknown) => self.unknown(site, args, effect),
            None => {
                let through = match callee {
                    Callee::Through(to) => {
                        effect.callees.is_empty()
                            || self.points(site.function, to).contains(&OUTSIDE)
                    }
                    _ => false,
                };
                if through {
                    self.unknown(site, args, effect);
                }
            }
        }
    }

    fn unknown(&self, site: Site, args: &[Operand], effect: &mut Effect) {
        effect.unknown = true;
        for arg in args {
            let points = self.points(site.function, arg);
            effect.reads.extend(points.iter().copied());
            effect.writes.extend(points);
        }
        effect.reads.insert(OUTSIDE);
        effect.writes.insert(OUTSIDE);
    }

    /// Records that a copy or fill of constant size kills its destination.
    fn fill(&self, site: Site, args: &[Operand], effect: &mut Effect) {
        let name = self.objects.program.called(site).unwrap_or_default();
        let fills = ["llvm.memcpy.", "llvm.memmove.", "llvm.memset."];
        let fills = fills.iter().any(|fill| name.starts_with(fill))
            || ["memcpy", "memmove", "memset"].contains(&name);
        let (Some(to), Some(Operand::Number(bytes)), true) = (args.first(), args.get(2), fills)
        else {
            return;
        };
        let volatile = name.starts_with("llvm.") && args.get(3) == Some(&Operand::Number(1));
        let direct = self.objects.direct(site.function, to);
        let bytes = u64::try_from(*bytes).ok();
        effect.kill.extend(direct.filter(|at| !volatile && self.whole(*at, bytes)));
        // Memory that is moved onto itself is read first.
        effect.kill.retain(|object| !effect.reads.contains(object));
    }

    fn routine(&self, site: Site, is: &Routine, args: &[Operand], effect: &mut Effect) {
        for (at, arg) in args.iter().enumerate() {
            let access = is.args.get(at).copied().unwrap_or_default();
            if access == Default::default() && is.args.len() > at {
                continue;
            }
            let points = self.points(site.function, arg);
            if access.reads || access.reads_remote || is.args.len() <= at {
                effect.reads.extend(points.iter().copied());
            }
            if access.reads_remote {
                effect.remote.extend(points.iter().copied());
            }
            if access.writes || access.writes_remote {
                effect.writes.extend(points.iter().copied());
            }
            if access.kept && points.len() == 1 {
                effect.kept.extend(points);
            }
        }
        let name = plain(self.objects.program.called(site).unwrap_or_default());
        if is.sync == Sync::Restart {
            effect.writes.extend(self.saved());
        }
        if name == "shmem_ptr" {
            // Any code that has the address may read at any time.
            let points = args.first().map(|arg| self.points(site.function, arg));
            effect.remote.extend(points.into_iter().flatten());
        }
        if name == "shmem_query_fault" {
            let own = args.iter().filter_map(|arg| self.objects.direct(site.function, arg));
            effect.kill.extend(own.filter(|at| self.objects.all[*at].single && self.word(*at)));
        }
    }

    fn word(&self, object: Object) -> bool {
        self.objects.all[object].bytes == Some(8)
    }

    /// Returns the memory that checkpoints hold by default.
    pub fn saved(&self) -> impl Iterator<Item = Object> + '_ {
        let all = self.objects.all.iter().enumerate();
        let held = all.filter(|(_, known)| {
            matches!(known.kind, ObjectKind::Static(_) | ObjectKind::Symmetric) && !known.constant
        });
        held.map(|found| found.0)
    }
}
