//! The names of memory in messages.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Memory;
use crate::objects::ObjectKind;
use crate::points::Object;
use crate::report::Item;
use crate::routines::plain;

/// Maximum number of variables listed as pointers to memory of a heap.
const MOST: usize = 6;

/// Names objects.
pub struct Names<'m, 'p> {
    memory: &'m Memory<'p>,
    /// By object: variables that may point to it, static ones first.
    pointers: Vec<Vec<Object>>,
    /// Sizes in addition to constant ones.
    sizes: BTreeMap<Object, u64>,
}

impl<'m, 'p> Names<'m, 'p> {
    /// Examines all variables.
    #[must_use]
    pub fn new(memory: &'m Memory<'p>, sizes: BTreeMap<Object, u64>) -> Self {
        let mut pointers = vec![Vec::new(); memory.objects.all.len()];
        let is_static = |object: &Object| {
            matches!(
                memory.objects.all[*object].kind,
                ObjectKind::Static(_) | ObjectKind::Thread(_)
            )
        };
        let named = memory.objects.all.iter().enumerate();
        let mut named: Vec<Object> =
            named.filter(|(_, known)| !known.name.is_empty()).map(|found| found.0).collect();
        named.sort_by_key(|object| !is_static(object));
        for variable in named {
            for target in memory.flow.solution.contents(variable) {
                pointers[*target].push(variable);
            }
        }
        Self { memory, pointers, sizes }
    }

    /// Returns an object as it is reported.
    #[must_use]
    pub fn item(&self, object: Object) -> Item {
        let known = &self.memory.objects.all[object];
        let routine = known.site.and_then(|site| self.memory.objects.program.called(site));
        let storage = match known.kind {
            ObjectKind::Static(_) => "static",
            ObjectKind::Thread(_) => "thread-local",
            ObjectKind::Frame(_) => "local",
            _ => match plain(routine.unwrap_or_default()) {
                "_Znwm" | "_Znam" => "new",
                other => other,
            },
        };
        Item {
            name: self.name(object),
            storage: storage.to_owned(),
            place: known.place.clone(),
            bytes: known.bytes.or_else(|| self.sizes.get(&object).copied()),
        }
    }

    fn name(&self, object: Object) -> String {
        let known = &self.memory.objects.all[object];
        if !known.name.is_empty() {
            return known.name.clone();
        }
        let home = known.site.map(|site| ObjectKind::Frame(site.function));
        let all = &self.pointers[object];
        let kind = |at: &Object| self.memory.objects.all[*at].kind;
        let statics = all.iter().filter(|at| !matches!(kind(at), ObjectKind::Frame(_)));
        let statics: Vec<_> = statics.collect();
        let own: Vec<_> = all.iter().filter(|at| Some(kind(at)) == home).collect();
        let any: Vec<_> = all.iter().collect();
        let chosen = [statics, own, any].into_iter().find(|list| !list.is_empty());
        let names = chosen.unwrap_or_default();
        let names: BTreeSet<&str> =
            names.into_iter().map(|at| self.memory.objects.all[*at].name.as_str()).collect();
        match names.len() {
            0 => "unnamed".to_owned(),
            _ => names.into_iter().take(MOST).collect::<Vec<_>>().join(", "),
        }
    }
}
