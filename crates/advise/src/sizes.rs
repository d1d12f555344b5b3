//! Sizes of allocations that follow from values of variables: for display only.
//!
//! The value of a variable is the one that the user gives for its name, or the only one that the
//! program stores in it. Invariant: nothing here decides that memory is dead; a size given by a
//! user may be wrong.
//!
//! Left out: values that change, fields of structures, data read at run time.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Exact, Local, Op, Operand};
use crate::memory::Memory;
use crate::objects::{ObjectKind, asked};
use crate::points::Object;
use crate::program::Site;

/// Values of variables, by name; `shmem_n_pes` is the number of PEs.
pub type Given = BTreeMap<String, u64>;

/// Maximum depth of expressions.
const DEEPEST: usize = 64;
const PES: &str = "shmem_n_pes";

/// Returns the first name that no variable of the program has.
#[must_use]
pub fn stranger<'g>(memory: &Memory<'_>, given: &'g Given) -> Option<&'g str> {
    let names: BTreeSet<&str> =
        memory.objects.all.iter().map(|known| known.name.as_str()).collect();
    given.keys().map(String::as_str).find(|name| *name != PES && !names.contains(name))
}

/// Returns the bytes of allocations that follow from values.
#[must_use]
pub fn sizes(memory: &Memory<'_>, given: &Given) -> BTreeMap<Object, u64> {
    let sizes = Sizes::new(memory, given);
    let heaps = memory.objects.all.iter().enumerate();
    let size = |(object, known): (Object, &crate::objects::Known)| {
        let site = known.site.filter(|_| known.bytes.is_none())?;
        let Op::Call { args, .. } = &memory.objects.program.inst(site).op else { return None };
        let factors = asked(memory.objects.program.called(site)?, args)?;
        let mut values = factors.into_iter().map(|of| sizes.value(site.function, of, DEEPEST));
        let bytes = values.try_fold(1_i128, |all, value| all.checked_mul(value?))?;
        Some((object, u64::try_from(bytes).ok()?))
    };
    heaps.filter_map(size).collect()
}

struct Sizes<'m, 'p> {
    memory: &'m Memory<'p>,
    given: &'m Given,
    /// The definition of each local.
    defined: BTreeMap<(usize, Local), Site>,
    /// Values stored in a variable, with their functions; `None` if it is also written otherwise.
    stored: BTreeMap<Object, Option<Vec<(usize, &'m Operand)>>>,
    /// The calls by name of each function.
    calls: BTreeMap<usize, Vec<Site>>,
}

impl<'m, 'p> Sizes<'m, 'p> {
    fn new(memory: &'m Memory<'p>, given: &'m Given) -> Self {
        let mut sizes = Self {
            memory,
            given,
            defined: BTreeMap::new(),
            stored: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        for (site, inst) in memory.objects.program.sites() {
            sizes.defined.extend(inst.result.map(|local| ((site.function, local), site)));
            for callee in memory.callees(site) {
                sizes.calls.entry(callee).or_default().push(site);
            }
            let effect = memory.effect(site);
            for object in effect.writes {
                let entry = sizes.stored.entry(object).or_insert_with(|| Some(Vec::new()));
                match (&inst.op, entry) {
                    (Op::Store { value, .. }, Some(all)) if effect.kill.contains(&object) => {
                        all.push((site.function, value));
                    }
                    (_, entry) => *entry = None,
                }
            }
        }
        sizes
    }

    fn value(&self, function: usize, operand: &Operand, deep: usize) -> Option<i128> {
        let deep = deep.checked_sub(1)?;
        match operand {
            Operand::Number(number) => Some(i128::from(*number)),
            Operand::Local(local) => match self.defined.get(&(function, *local)) {
                Some(site) => self.result(*site, deep),
                None => self.argument(function, *local, deep),
            },
            _ => None,
        }
    }

    /// Returns the value of a parameter, if all calls pass the same.
    fn argument(&self, function: usize, at: usize, deep: usize) -> Option<i128> {
        let outside = self.memory.flow.called_from_outside(&self.memory.objects);
        let calls = self.calls.get(&function).filter(|_| !outside.contains(&function))?;
        let mut values =
            calls.iter().map(|call| match &self.memory.objects.program.inst(*call).op {
                Op::Call { args, .. } => self.value(call.function, args.get(at)?, deep),
                _ => None,
            });
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }

    fn result(&self, site: Site, deep: usize) -> Option<i128> {
        let inst = self.memory.objects.program.inst(site);
        let value = |of: &Operand| self.value(site.function, of, deep);
        match (&inst.op, &inst.exact) {
            (Op::Load { from, .. }, _) => self.variable(site.function, from, deep),
            (Op::Call { .. }, _) if self.memory.objects.program.called(site) == Some(PES) => {
                self.given.get(PES).map(|value| i128::from(*value))
            }
            (_, Exact::Same(of) | Exact::Cut(of)) => value(of),
            (_, Exact::Add(one, other)) => value(one)?.checked_add(value(other)?),
            (_, Exact::Minus(one, other)) => value(one)?.checked_sub(value(other)?),
            (_, Exact::Times(one, other)) => value(one)?.checked_mul(value(other)?),
            (_, Exact::Over(one, other)) => value(one)?.checked_div(value(other)?),
            _ => None,
        }
    }

    fn variable(&self, function: usize, at: &Operand, deep: usize) -> Option<i128> {
        let object = self.memory.objects.direct(function, at)?;
        let known = &self.memory.objects.all[object];
        if let Some(value) = self.given.get(&known.name) {
            return Some(i128::from(*value));
        }
        // A static variable is 0 before the first store.
        let local = matches!(known.kind, ObjectKind::Frame(_));
        match self.stored.get(&object)?.as_deref()? {
            [(function, value)] if local => self.value(*function, value, deep),
            _ => None,
        }
    }
}
