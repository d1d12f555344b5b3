//! Memory that checkpoints may leave out, line by line: the part of a plan that follows from the
//! source alone.
//!
//! A running program only knows the line of the call. So memory left out at a line is dead at every
//! call there; and a line is ignored if some other call on it may reach such a call, because a call
//! at the end of a function may return to the line of its caller.
//!
//! Invariants: only objects that every checkpoint would hold; nothing if two PEs may meet at
//! different calls. Left out: the positions of lines and variables in the compiled program.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet as Bits;

use crate::ir::SourceLine;
use crate::memory::Memory;
use crate::names::Names;
use crate::objects::ObjectKind;
use crate::points::Object;
use crate::program::Site;
use crate::routines::{Gives, Sync};
use crate::steps::{Step, Steps};

/// A variable in the symbol table of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSymbol {
    /// Its symbol.
    pub symbol: String,
    /// The name in the source.
    pub name: String,
    /// True if no other module sees it.
    pub internal: bool,
    /// Its declaration.
    pub place: SourceLine,
    /// Bytes, if known.
    pub bytes: Option<u64>,
    /// The number of its object, as plans use it.
    pub number: usize,
}

/// Blocks of the heap that one line allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Their name in reports.
    pub name: String,
    /// The line.
    pub place: SourceLine,
    /// The number of their object.
    pub number: usize,
}

/// The memory that checkpoints may leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leave {
    /// All variables that checkpoints hold.
    pub variables: Vec<VariableSymbol>,
    /// All lines that allocate memory.
    pub blocks: Vec<Blocks>,
    /// By line of a checkpoint, the numbers of the objects that are dead there.
    pub dead: Vec<(SourceLine, BTreeSet<usize>)>,
    /// Reasons why nothing can be left out, at some lines or at all.
    pub notes: Vec<String>,
}

/// A line in a compiled program: the folder may differ.
type Line = (String, u32);

fn line(place: &SourceLine) -> Line {
    (place.file.rsplit('/').next().unwrap_or_default().to_owned(), place.line)
}

/// Computes it. `live` holds the objects that are live after each call that synchronises; `alike`
/// is true if all PEs meet at the same calls.
#[must_use]
pub fn leave(
    memory: &Memory<'_>,
    steps: &Steps,
    names: &Names<'_, '_>,
    live: &BTreeMap<Site, Bits>,
    alike: bool,
) -> Leave {
    let mut leave = Leave::default();
    let lines = Lines { memory, steps };
    let mut objects: Vec<Vec<Object>> = Vec::new();
    for object in memory.saved() {
        if let ObjectKind::Static(global) = memory.objects.all[object].kind {
            let known = &memory.objects.all[object];
            let is = &memory.objects.program.globals[global];
            leave.variables.push(VariableSymbol {
                symbol: is.name.clone(),
                name: known.name.clone(),
                internal: is.internal,
                place: known.place.clone(),
                bytes: known.bytes,
                number: objects.len(),
            });
            objects.push(vec![object]);
        }
    }
    let allocates = |site: Site, _: &Step| {
        let gives = memory.objects.routine(site).map(|routine| routine.gives);
        matches!(gives, Some(Gives::Symmetric | Gives::Moved))
    };
    for (place, sites) in lines.of(&allocates, &mut leave.notes) {
        let all: Vec<_> = sites.iter().filter_map(|at| memory.objects.allocated(*at)).collect();
        if let Some(first) = all.first() {
            let (name, number) = (names.item(*first).name, objects.len());
            leave.blocks.push(Blocks { name, place, number });
            objects.push(all);
        }
    }
    if !alike {
        leave.notes.push("two PEs may meet at different calls, so nothing is left out".to_owned());
        return leave;
    }
    let checkpoints = |_: Site, step: &Step| step.sync == Sync::Checkpoint;
    for (place, sites) in lines.of(&checkpoints, &mut leave.notes) {
        let dead = |of: &&(usize, &Vec<Object>)| {
            let lives = |object: &Object| sites.iter().any(|at| live[at].contains(*object));
            !of.1.iter().any(lives)
        };
        let all: Vec<_> = objects.iter().enumerate().collect();
        leave.dead.push((place, all.iter().filter(dead).map(|of| of.0).collect()));
    }
    leave
}

struct Lines<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
}

impl Lines<'_, '_> {
    /// Returns lines with calls that are `wanted`, with these calls.
    fn of(
        &self,
        wanted: &impl Fn(Site, &Step) -> bool,
        notes: &mut Vec<String>,
    ) -> Vec<(SourceLine, Vec<Site>)> {
        let program = self.memory.objects.program;
        let leads = self.leading(wanted);
        let mut found: BTreeMap<Line, (SourceLine, Vec<Site>)> = BTreeMap::new();
        let mut others: BTreeSet<Line> = BTreeSet::new();
        for (site, step) in self.steps.all() {
            let place = &program.inst(site).place;
            if wanted(site, step) {
                let entry = found.entry(line(place)).or_insert((place.clone(), Vec::new()));
                entry.1.push(site);
            } else if step.effect.unknown || step.effect.callees.iter().any(|to| leads[*to]) {
                others.insert(line(place));
            }
        }
        for at in &others {
            if found.remove(at).is_some() {
                notes.push(format!("{}:{}: several calls in one line", at.0, at.1));
            }
        }
        found.into_values().filter(|found| found.0.line > 0).collect()
    }

    /// Returns functions that may reach such a call.
    fn leading(&self, wanted: &impl Fn(Site, &Step) -> bool) -> Vec<bool> {
        let mut leads = vec![false; self.steps.blocks.len()];
        let direct = self.steps.all().filter(|(at, step)| wanted(*at, step) || step.effect.unknown);
        direct.for_each(|(at, _)| leads[at.function] = true);
        for group in &self.steps.groups {
            let mut steps = group.iter().flat_map(|at| self.steps.of(*at));
            let calls = steps.any(|step| step.effect.callees.iter().any(|callee| leads[*callee]));
            if calls || group.iter().any(|at| leads[*at]) {
                group.iter().for_each(|at| leads[*at] = true);
            }
        }
        leads
    }
}
