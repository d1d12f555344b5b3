//! The adviser: from a program to a report.

use std::collections::{BTreeMap, BTreeSet};

use fixedbitset::FixedBitSet as Bits;

use crate::cycles::Cycles;
use crate::differ::Differ;
use crate::fills::fills;
use crate::ir::{Module, Op, Operand, SourceLine};
use crate::leave::{Leave, leave};
use crate::library::is_system;
use crate::liveness::Liveness;
use crate::memory::Memory;
use crate::names::Names;
use crate::objects::{Beyond, ObjectKind, Objects, Routines};
use crate::points::{OUTSIDE, Object};
use crate::program::{Program, Site};
use crate::protects::unprotected;
use crate::reach::{self, Before};
use crate::report::{Finding, Item, Level, Point, Report, rank};
use crate::restarts::{self, elsewhere};
use crate::routines::{Sync, plain};
use crate::scratch::Scratch;
use crate::sizes::{Given, sizes, stranger};
use crate::stale::{pointers, stale};
use crate::steps::Steps;
use crate::text;
use crate::uses::Uses;

/// The reason why a program cannot be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdviseError {
    /// Part of the program is missing.
    #[error("no function main in these files: expected all files of one program")]
    NoMain,
    /// Files of several programs were given.
    #[error("function main in each of {}: expected the files of one program", .0.join(", "))]
    Mains(Vec<String>),
    /// A value is given for a variable that does not exist.
    #[error("--set {0}: expected the name of a variable of these files, or shmem_n_pes")]
    NoVariable(String),
}

/// `SHMEM_TEAM_WORLD`.
const WORLD: i64 = 1;

/// The results of all analyses.
struct Facts<'m, 'p> {
    memory: &'m Memory<'p>,
    steps: &'m Steps,
    cycles: Cycles,
    uses: Uses,
    names: Names<'m, 'p>,
    live: BTreeMap<Site, Bits>,
    before: BTreeMap<Site, Before>,
    kept: BTreeSet<Object>,
    saved: Bits,
    /// Static pointers to private memory, which are best excluded from checkpoints.
    pointers: Bits,
    scratch: &'m Scratch,
}

/// Analyses a program: all of its modules, using the effects of OpenSHMEM's routines.
///
/// # Errors
///
/// If there is not exactly one `main`.
pub fn advise(modules: Vec<Module>, routines: &Routines) -> Result<Report, AdviseError> {
    let (given, scratch) = (Given::new(), Scratch::default());
    study(modules, routines, Scope::Program, &given, &scratch).map(|found| found.0)
}

/// The extent of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole program.
    Program,
    /// Each function by itself: everything is assumed to be read after it returns.
    Function,
}

/// Like [`advise`], and also returns what checkpoints may leave out. The values `given` for
/// variables only affect the reported sizes. `scratch` memory is not reported as private state.
///
/// # Errors
///
/// If there is not exactly one `main`, or a value is given for a variable that does not exist.
pub fn study(
    modules: Vec<Module>,
    routines: &Routines,
    scope: Scope,
    given: &Given,
    scratch: &Scratch,
) -> Result<(Report, Leave), AdviseError> {
    let functions = modules.iter().flat_map(|module| &module.functions);
    let mains = functions.filter(|function| function.name == "main");
    let mains: Vec<String> = mains.map(|main| text::place(&main.place)).collect();
    match mains.len() {
        0 => return Err(AdviseError::NoMain),
        1 => {}
        _ => return Err(AdviseError::Mains(mains)),
    }
    let program = Program::link(modules);
    let memory = Memory::new(Objects::new(&program, routines));
    if let Some(name) = stranger(&memory, given) {
        return Err(AdviseError::NoVariable(name.to_owned()));
    }
    let steps = Steps::new(&memory);
    let uses = Uses::new(&steps);
    let mut always = Bits::with_capacity(memory.objects.all.len());
    for function in memory.flow.called_from_outside(&memory.objects) {
        always.union_with(uses.of(function));
    }
    keep_buffers(&memory, &mut always);
    let alike = Differ::new(&memory, &steps, true).meet_alike();
    if !alike {
        always.union_with(&anywhere(&memory, &steps));
    }
    let mut saved = Bits::with_capacity(memory.objects.all.len());
    saved.extend(memory.saved());
    let none = Bits::with_capacity(memory.objects.all.len());
    let beyond = if scope == Scope::Function { &saved } else { &none };
    let liveness = Liveness::new(&memory, &steps, (&always, beyond), fills(&memory, &steps));
    let facts = Facts {
        live: liveness.after(&memory, &steps),
        before: reach::before(&memory, &steps),
        cycles: Cycles::new(&memory, &steps),
        names: Names::new(&memory, sizes(&memory, given)),
        kept: steps.all().flat_map(|(_, step)| step.effect.kept.iter().copied()).collect(),
        pointers: pointers(&memory, &steps),
        scratch,
        memory: &memory,
        steps: &steps,
        uses,
        saved,
    };
    let leave = leave(&memory, &steps, &facts.names, &facts.live, alike);
    Ok((facts.report(), leave))
}

/// Adds memory that a system library received from the program and may use in any later call.
fn keep_buffers(memory: &Memory<'_>, always: &mut Bits) {
    const KEEP: &[&str] = &["setvbuf", "setbuf", "setbuffer", "putenv", "sigaltstack"];
    for (site, inst) in memory.objects.program.sites() {
        let keeps = memory.objects.program.called(site).is_some_and(|name| KEEP.contains(&name));
        if let (true, Op::Call { args, .. }) = (keeps, &inst.op) {
            let all = args.iter().flat_map(|arg| memory.points(site.function, arg));
            all.filter(|object| *object != OUTSIDE).for_each(|object| always.insert(object));
        }
    }
}

/// Returns the memory that a PE may read if it has reached a different call than the PEs it meets:
/// memory that any PE may read; and any block of the symmetric heap, since calls that allocate may
/// differ.
fn anywhere(memory: &Memory<'_>, steps: &Steps) -> Bits {
    let mut found = steps.shared.clone();
    let heap = |object: &Object| memory.objects.all[*object].kind == ObjectKind::Symmetric;
    if steps.shared.ones().any(|object| heap(&object)) {
        found.extend((0..memory.objects.all.len()).filter(heap));
    }
    found
}

impl Facts<'_, '_> {
    fn report(&self) -> Report {
        let mut report = Report::default();
        for site in self.live.keys().copied().filter(|site| self.told(*site)) {
            let point = self.point(site);
            self.tell(site, &point, &mut report.findings);
            report.points.push(point);
        }
        report.points.sort_by(|a, b| a.place.cmp(&b.place));
        rank(&mut report.points);
        self.skipped(&mut report.findings);
        self.unprotected(&mut report.findings);
        self.elsewhere(&mut report.findings);
        self.stale(&mut report.findings);
        report.findings.sort();
        report.findings.dedup();
        report.unknown = self.unknown();
        report
    }

    /// Returns true for calls at which all PEs may meet.
    fn told(&self, site: Site) -> bool {
        let sync = self.memory.objects.routine(site).map(|routine| routine.sync);
        !matches!(sync, Some(Sync::Quiet | Sync::Restart))
            && (sync != Some(Sync::Team) || self.is_world(site))
    }

    fn items(&self, objects: impl Iterator<Item = Object>) -> Vec<Item> {
        let mut items: Vec<Item> = objects.map(|object| self.names.item(object)).collect();
        items.sort();
        items
    }

    fn point(&self, site: Site) -> Point {
        let program = self.memory.objects.program;
        let live = &self.live[&site];
        let before = self.before.get(&site).cloned().unwrap_or_default();
        let kind = |object: &Object| self.memory.objects.all[*object].kind;
        let there = |object: &Object, heap: &Bits| {
            kind(object) != ObjectKind::Symmetric || heap.contains(*object)
        };
        let made = |object: &Object| there(object, &before.made);
        let allocated = |object: &Object| there(object, &before.allocated);
        let dead = self.saved.difference(live);
        let sync = self.memory.objects.routine(site).map(|routine| routine.sync);
        let quiet = !before.default_pending && before.pending.is_empty();
        let safe = match sync {
            Some(Sync::Global | Sync::GlobalIfDone | Sync::Checkpoint) => true,
            Some(Sync::Processes) => quiet,
            Some(Sync::Team) => quiet && self.is_world(site),
            _ => false,
        };
        Point {
            place: program.inst(site).place.clone(),
            function: program.functions[site.function].name.clone(),
            routine: plain(program.called(site).unwrap_or_default()).to_owned(),
            checkpoint: sync == Some(Sync::Checkpoint),
            safe,
            repeats: self.cycles.repeated(site),
            live: self.items(self.saved.intersection(live).filter(made)),
            dead: self.items(dead.filter(allocated)),
            private: self.items(self.private(site)),
            pending: self.contexts(&before),
            rank: None,
        }
    }

    fn contexts(&self, before: &Before) -> Vec<String> {
        let names: BTreeSet<_> = before.pending.iter().map(|at| self.variable(*at)).collect();
        names.into_iter().collect()
    }

    /// Returns true if the call is about the team of all PEs.
    fn is_world(&self, site: Site) -> bool {
        matches!(&self.memory.objects.program.inst(site).op,
            Op::Call { args, .. } if args.first() == Some(&Operand::Number(WORLD)))
    }

    fn is_exception(&self, object: Object) -> bool {
        let site = self.memory.objects.all[object].site;
        let name = site.and_then(|site| self.memory.objects.program.called(site));
        name == Some("__cxa_allocate_exception")
    }

    /// Returns true unless the object belongs to a function that is not active, or was not
    /// allocated before.
    fn exists(&self, site: Site, chain: &BTreeSet<usize>, object: Object) -> bool {
        match self.memory.objects.all[object].kind {
            ObjectKind::Frame(function) => chain.contains(&function),
            ObjectKind::Heap => self.before.get(&site).is_some_and(|is| is.made.contains(object)),
            _ => true,
        }
    }

    fn variable(&self, object: Object) -> String {
        if object == OUTSIDE { "unnamed".to_owned() } else { self.names.item(object).name }
    }

    /// Returns private memory that changes from one run of the call to the next and is read after
    /// it.
    fn private(&self, site: Site) -> impl Iterator<Item = Object> {
        let written = self.cycles.written(self.steps, site);
        let chain: BTreeSet<usize> =
            self.cycles.chain(site).into_iter().map(|call| call.function).collect();
        let live: Vec<Object> = self.live[&site].intersection(&written).collect();
        live.into_iter().filter(move |object| {
            let kind = self.memory.objects.all[*object].kind;
            let private = match kind {
                ObjectKind::Heap => !self.is_exception(*object),
                kind => matches!(kind, ObjectKind::Frame(_) | ObjectKind::Thread(_)),
            };
            private
                && !self.kept.contains(object)
                && self.exists(site, &chain, *object)
                && !self.scratch.has(&self.names.item(*object))
        })
    }

    fn tell(&self, site: Site, point: &Point, findings: &mut Vec<Finding>) {
        if point.checkpoint {
            for object in self.private(site) {
                findings.push(self.private_state(site, object));
            }
            findings.extend(self.excluded_live(site));
        }
        if point.safe && !point.pending.is_empty() {
            let message = format!(
                "contexts not known to be quiet at {}: {}",
                point.routine,
                point.pending.join(", ")
            );
            findings.push(finding(point, Level::Note, "not-quiet", message));
        }
        if !point.safe {
            let message = format!("{} with transfers that may be under way", point.routine);
            findings.push(finding(point, Level::Note, "not-safe", message));
        }
    }

    /// Reports checkpoints that some PEs may not reach, depending on their number.
    fn skipped(&self, findings: &mut Vec<Finding>) {
        let differ = Differ::new(self.memory, self.steps, false);
        let program = self.memory.objects.program;
        for site in differ.skipped(|step| step.sync == Sync::Checkpoint) {
            let (branch, why) = self.line(differ.branch(site));
            let message = format!(
                "some PEs may not come to the checkpoint in {}: that depends on the number \
                 of the PE{why}",
                program.called(site).unwrap_or("a pointer to a function")
            );
            findings.push(Finding {
                place: program.inst(site).place.clone(),
                level: Level::Warning,
                rule: "skipped-checkpoint",
                message,
                related: branch,
            });
        }
    }

    /// Returns the location of a branch, and its line for a message.
    fn line(&self, branch: Option<Site>) -> (Option<SourceLine>, String) {
        let place = branch.map(|branch| self.memory.objects.program.inst(branch).place.clone());
        let text = place.as_ref().map_or(String::new(), |at| format!(" (line {})", at.line));
        (place, text)
    }

    /// Reports private memory that only some processes of a PE protect.
    fn unprotected(&self, findings: &mut Vec<Finding>) {
        let program = self.memory.objects.program;
        for found in unprotected(self.memory, self.steps) {
            let (branch, why) = self.line(found.branch);
            let message = format!(
                "the first process of a PE and its substitutes do not both come to {}: that \
                 depends on shmem_ft_algo_init{why}; protect the same private memory in both, or \
                 the job ends at the restart",
                program.called(found.call).unwrap_or("a pointer to a function")
            );
            findings.push(Finding {
                place: program.inst(found.call).place.clone(),
                level: Level::Warning,
                rule: "skipped-protect",
                message,
                related: branch,
            });
        }
    }

    /// Reports restarts that do not resume where the checkpoint continued: one finding per call.
    fn elsewhere(&self, findings: &mut Vec<Finding>) {
        let program = self.memory.objects.program;
        let mut told = BTreeSet::new();
        for found in elsewhere(self.memory, self.steps) {
            let [call, work, from] =
                [found.call, found.work, found.from].map(|site| program.inst(site).place.clone());
            if !told.insert(call.clone()) {
                continue;
            }
            let who = match found.kind {
                restarts::RestartMistake::Substitute => "a substitute",
                _ => "the program",
            };
            let message = match found.kind {
                restarts::RestartMistake::Count => format!(
                    "after a restart in this call the program comes to line {} with another number \
                     of checkpoint calls than a substitute, which restarts in line {}: call it at \
                     one place, or after every restart again",
                    work.line, from.line
                ),
                _ => format!(
                    "after a restart in this call {who} does not come to line {}, where it goes on \
                     after the checkpoint in line {}: let memory that checkpoints hold decide what \
                     comes next, after a restart and after a checkpoint alike",
                    work.line, from.line
                ),
            };
            findings.push(Finding {
                place: call,
                level: Level::Warning,
                rule: "restart-elsewhere",
                message,
                related: Some(work),
            });
        }
    }

    /// Reports static pointers in which a substitute finds an address of the dead process.
    fn stale(&self, findings: &mut Vec<Finding>) {
        for found in stale(self.memory, self.steps, &self.pointers) {
            let (pointer, target) = (self.names.item(found.pointer), self.names.item(found.target));
            let read = self.memory.objects.program.inst(found.read).place.clone();
            let what = match target.storage.as_str() {
                "local" | "thread-local" => format!("{} `{}`", target.storage, target.name),
                other => format!("memory of {other} (line {})", target.place.line),
            };
            let message = format!(
                "`{}` points to {what}, and line {} reads it after a restart: a substitute finds \
                 the address there that the dead process had; keep it in a local variable, or \
                 leave it out by shmemx_ft_exclude",
                pointer.name, read.line
            );
            findings.push(Finding {
                level: level_of(&pointer.place),
                place: pointer.place,
                rule: "private-pointer",
                message,
                related: Some(read),
            });
        }
    }

    /// Reports calls that exclude memory from checkpoints although it is read after this call.
    fn excluded_live(&self, site: Site) -> Vec<Finding> {
        let program = self.memory.objects.program;
        let leaves_out =
            |at: &Site| program.called(*at).is_some_and(|name| plain(name) == "shmemx_ft_exclude");
        let mut found = Vec::new();
        for at in self.steps.all().map(|found| found.0).filter(leaves_out) {
            let Op::Call { args, .. } = &program.inst(at).op else {
                continue;
            };
            for object in
                args.first().map(|of| self.memory.points(at.function, of)).unwrap_or_default()
            {
                let read = self.live[&site].contains(object) && self.saved.contains(object);
                if !read || self.pointers.contains(object) {
                    continue;
                }
                let next =
                    self.uses.next(self.memory, self.steps, &self.cycles.chain(site), object);
                let used = next
                    .as_ref()
                    .map_or("it is read".to_owned(), |next| format!("line {} reads it", next.line));
                let message = format!(
                    "`{}` is left out of checkpoints, but {used} after the checkpoint in line {}",
                    self.names.item(object).name,
                    program.inst(site).place.line
                );
                let place = program.inst(at).place.clone();
                let rule = "excluded-live";
                found.push(Finding { place, level: Level::Warning, rule, message, related: next });
            }
        }
        found
    }

    fn private_state(&self, site: Site, object: Object) -> Finding {
        let item = self.names.item(object);
        let chain = self.cycles.chain(site);
        let next = self.uses.next(self.memory, self.steps, &chain, object);
        let next = next.filter(|place| place.line > 0);
        let used = next.as_ref().map(|next| format!(", and line {} reads it next", next.line));
        let checkpoint = &self.memory.objects.program.inst(site).place;
        let what = match item.storage.as_str() {
            "local" | "thread-local" => format!("{} `{}`", item.storage, item.name),
            other => format!("memory of {other} (`{}`)", item.name),
        };
        let message = format!(
            "{what} changes between checkpoints (line {}) and no checkpoint holds it{}: make it \
             static, or pass it to shmemx_ft_protect",
            checkpoint.line,
            used.unwrap_or_default()
        );
        let (level, rule) = (level_of(&item.place), "private-state");
        Finding { place: item.place, level, rule, message, related: next }
    }

    /// Returns the functions without code that are in no table.
    fn unknown(&self) -> Vec<String> {
        let program = self.memory.objects.program;
        let sites = program.sites().map(|found| found.0);
        let unknown =
            sites.filter(|at| matches!(self.memory.objects.beyond(*at), Some(Beyond::Unknown)));
        let names = unknown.filter_map(|site| program.called(site));
        let names = names.filter(|name| !is_system(name)).map(str::to_owned);
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Returns the level of findings at a place. The allocators of a C++ library are shared by all
/// their users, so findings there are only notes.
fn level_of(place: &SourceLine) -> Level {
    if place.file.starts_with("/usr/") { Level::Note } else { Level::Warning }
}

fn finding(point: &Point, level: Level, rule: &'static str, message: String) -> Finding {
    Finding { place: point.place.clone(), level, rule, message, related: None }
}
