//! The targets of a program's pointers, and of its calls through pointers.
//!
//! Invariants: a call through a pointer reaches every function that the pointer may point to;
//! unknown code calls whatever it may call with anything that escaped. Left out: the use of the
//! results.

use std::collections::{BTreeSet, HashMap};

use crate::ir::{Callee, Op, Operand};
use crate::library::{self, Model, Result as Given};
use crate::objects::{Beyond, ObjectKind, Objects};
use crate::points::{Constraints, Node, OUTSIDE, Object, Solution};
use crate::program::{Site, Symbol};
use crate::routines::{Gives, Routine, plain};

/// The targets of values and of calls.
pub struct Flow {
    /// The first value of each function.
    base: Vec<Node>,
    /// The value that each function returns.
    returns: Vec<Node>,
    /// Targets of calls through pointers.
    pub callees: HashMap<Site, BTreeSet<usize>>,
    /// The targets of all pointers.
    pub solution: Solution,
}

impl Flow {
    /// Solves the constraints of a program.
    #[must_use]
    pub fn new(objects: &Objects<'_>) -> Self {
        let mut gather = Gather::new(objects);
        gather.all();
        gather.solve()
    }

    /// Returns the objects that an operand may point to, `OUTSIDE` standing for itself.
    #[must_use]
    pub fn points(
        &self,
        objects: &Objects<'_>,
        function: usize,
        operand: &Operand,
    ) -> BTreeSet<Object> {
        match operand {
            Operand::Local(local) => self.solution.of(self.base[function] + local).clone(),
            constant => objects.constant(function, constant).into_iter().collect(),
        }
    }

    /// Returns the functions that unknown code may call.
    #[must_use]
    pub fn called_from_outside(&self, objects: &Objects<'_>) -> Vec<usize> {
        let escaped = self.solution.escaped().iter();
        let code = escaped.filter_map(|object| match objects.all[*object].kind {
            ObjectKind::Function(at) => Some(at),
            _ => None,
        });
        code.collect()
    }
}

/// The constraints, while they are being gathered.
struct Gather<'o, 'p> {
    objects: &'o Objects<'p>,
    flow: Flow,
    constraints: Constraints,
    outside: Node,
    constants: HashMap<(usize, Vec<String>), Node>,
    /// Calls whose arguments were passed to unknown code.
    given: BTreeSet<Site>,
    /// True if the program includes code that was not given.
    strangers: bool,
}

impl<'o, 'p> Gather<'o, 'p> {
    fn new(objects: &'o Objects<'p>) -> Self {
        let (mut base, mut returns, mut nodes) = (Vec::new(), Vec::new(), 0);
        for function in &objects.program.functions {
            base.push(nodes);
            nodes += function.locals;
            returns.push(nodes);
            nodes += 1;
        }
        let constraints = Constraints {
            nodes: nodes + 1,
            objects: objects.all.len(),
            addresses: vec![(nodes, OUTSIDE)],
            ..Constraints::default()
        };
        let flow = Flow { base, returns, callees: HashMap::new(), solution: constraints.solve() };
        let given = BTreeSet::new();
        let (constants, strangers) = (HashMap::new(), false);
        Self { objects, flow, constraints, outside: nodes, constants, given, strangers }
    }

    /// Records the name of a function that has no body.
    fn strange(&mut self, name: &str) {
        self.strangers |= !self.objects.is_known(name) && !library::is_system(name);
    }

    fn fresh(&mut self) -> Node {
        self.constraints.nodes += 1;
        self.constraints.nodes - 1
    }

    /// Returns the node of an operand; `None` if it points nowhere.
    fn node(&mut self, function: usize, operand: &Operand) -> Option<Node> {
        let names = match operand {
            Operand::Local(local) => return Some(self.flow.base[function] + local),
            Operand::Global(name) => std::slice::from_ref(name),
            Operand::Into(names) => names.as_slice(),
            Operand::Number(_) | Operand::Nothing => return None,
        };
        let key = (function, names.to_vec());
        if let Some(node) = self.constants.get(&key) {
            return Some(*node);
        }
        let unknown = |name: &&String| self.objects.program.symbol(function, name).is_none();
        let unknown: Vec<&String> = names.iter().filter(unknown).collect();
        unknown.into_iter().for_each(|name| self.strange(name));
        let node = self.fresh();
        for object in self.objects.constant(function, operand) {
            self.constraints.addresses.push((node, object));
        }
        self.constants.insert(key, node);
        Some(node)
    }

    fn all(&mut self) {
        let program = self.objects.program;
        for at in 0..program.globals.len() {
            self.initial(at);
        }
        for (site, inst) in program.sites() {
            let result = inst.result.map(|local| self.flow.base[site.function] + local);
            self.inst(site, &inst.op, result);
        }
        let main = program.functions.iter().position(|function| function.name == "main");
        if let Some(at) = main {
            self.entered_from_outside(at);
        }
    }

    /// Adds the pointers in the initial value of a global.
    fn initial(&mut self, at: usize) {
        let program = self.objects.program;
        let global = &program.globals[at];
        const LOADER: &[&str] =
            &["llvm.global_ctors", "llvm.global_dtors", "llvm.used", "llvm.compiler.used"];
        let loader = LOADER.contains(&global.name.as_str());
        let object = self.objects.statics[at];
        if global.in_section {
            let node = self.fresh();
            self.constraints.addresses.push((node, object));
            self.constraints.escapes.push(node);
        }
        for name in &global.holds {
            let held = match program.held(at, name) {
                Some(Symbol::Function(function)) => self.objects.code[function],
                Some(Symbol::Global(global)) => self.objects.statics[global],
                None => {
                    self.strange(name);
                    OUTSIDE
                }
            };
            let (value, pointer) = (self.fresh(), self.fresh());
            self.constraints.addresses.extend([(value, held), (pointer, object)]);
            self.constraints.stores.push((value, pointer));
            if loader {
                self.constraints.escapes.push(value);
            }
        }
    }

    fn inst(&mut self, site: Site, op: &Op, result: Option<Node>) {
        let function = site.function;
        match op {
            Op::Alloca { .. } => {
                let local = result.map(|node| node - self.flow.base[function]);
                let object = local.and_then(|l| self.objects.frame(function, l));
                self.constraints.addresses.extend(result.zip(object));
            }
            Op::Load { from, .. } => {
                let from = self.node(function, from);
                self.constraints.loads.extend(from.zip(result));
            }
            Op::Store { value, to, .. } => self.store(function, value, to),
            Op::Update { at, values } => {
                for value in values {
                    self.store(function, value, at);
                }
                let at = self.node(function, at);
                self.constraints.loads.extend(at.zip(result));
            }
            Op::Copy(operands) => {
                for operand in operands {
                    let from = self.node(function, operand);
                    self.constraints.copies.extend(from.zip(result));
                }
            }
            Op::Return(Some(value)) => {
                let (value, to) = (self.node(function, value), self.flow.returns[function]);
                self.constraints.copies.extend(value.map(|value| (value, to)));
            }
            Op::Caught => self.constraints.copies.extend(result.map(|to| (self.outside, to))),
            Op::Call { callee, args, .. } => self.call(site, callee, args, result),
            _ => {}
        }
    }

    fn store(&mut self, function: usize, value: &Operand, to: &Operand) {
        let (value, to) = (self.node(function, value), self.node(function, to));
        self.constraints.stores.extend(value.zip(to));
    }

    fn call(&mut self, site: Site, callee: &Callee, args: &[Operand], result: Option<Node>) {
        let function = site.function;
        let args: Vec<_> = args.iter().map(|arg| self.node(function, arg)).collect();
        if let Some(to) = self.objects.program.named(function, callee) {
            return self.enter(to, &args, result);
        }
        if matches!(callee, Callee::Through(_)) {
            return; // when its targets are known
        }
        if let Some(object) = self.objects.allocated(site) {
            self.constraints.addresses.extend(result.map(|result| (result, object)));
        }
        match self.objects.beyond(site) {
            Some(Beyond::Routine(routine)) => self.routine(site, routine, &args, result),
            Some(Beyond::Model(model)) => self.model(site, model, &args, result),
            _ => self.unknown(&args, result),
        }
    }

    /// Adds a call of a function with a body.
    fn enter(&mut self, to: usize, args: &[Option<Node>], result: Option<Node>) {
        let parameters = self.objects.program.functions[to].parameters;
        for (at, node) in args.iter().enumerate() {
            match node {
                Some(node) if at < parameters => {
                    self.constraints.copies.push((*node, self.flow.base[to] + at));
                }
                // `va_arg` returns variable arguments as pointers to the outside.
                Some(node) => self.constraints.escapes.push(*node),
                None => {}
            }
        }
        let from = self.flow.returns[to];
        self.constraints.copies.extend(result.map(|result| (from, result)));
    }

    fn entered_from_outside(&mut self, function: usize) {
        for at in 0..self.objects.program.functions[function].parameters {
            self.constraints.copies.push((self.outside, self.flow.base[function] + at));
        }
        self.constraints.escapes.push(self.flow.returns[function]);
    }

    fn unknown(&mut self, args: &[Option<Node>], result: Option<Node>) {
        self.constraints.escapes.extend(args.iter().flatten());
        self.constraints.copies.extend(result.map(|result| (self.outside, result)));
    }

    /// Records that pointers stored at `from` may be stored at `to`.
    fn contents(&mut self, from: Node, to: Node) {
        let between = self.fresh();
        self.constraints.loads.push((from, between));
        self.constraints.stores.push((between, to));
    }

    fn routine(&mut self, site: Site, is: &Routine, args: &[Option<Node>], result: Option<Node>) {
        let access = |at: usize| is.args.get(at).copied().unwrap_or_default();
        let written = |at: usize| access(at).writes || access(at).writes_remote;
        for (to, to_node) in args.iter().enumerate().filter(|(at, _)| written(*at)) {
            for (from, from_node) in args.iter().enumerate().filter(|(from, _)| *from != to) {
                match (from_node, to_node) {
                    (Some(from_node), Some(to)) if access(from).reads => {
                        self.contents(*from_node, *to);
                    }
                    // A number may be a pointer in disguise.
                    (Some(from), Some(to)) => self.constraints.stores.push((*from, *to)),
                    _ => {}
                }
            }
        }
        for (at, node) in args.iter().enumerate() {
            let Some(node) = node else { continue };
            match is.gives {
                Gives::Contents if access(at).reads => {
                    self.constraints.loads.extend(result.map(|result| (*node, result)));
                }
                Gives::Alias => {
                    self.constraints.copies.extend(result.map(|result| (*node, result)));
                }
                Gives::Moved => {
                    self.constraints.copies.extend(result.map(|result| (*node, result)));
                    if let Some(result) = result {
                        self.contents(*node, result);
                    }
                }
                _ => {}
            }
        }
        let name = self.objects.program.called(site).map(plain);
        if name == Some("shmem_query_fault") {
            let outside = self.outside;
            self.constraints.stores.extend(args.iter().flatten().map(|to| (outside, *to)));
        }
    }

    fn model(&mut self, site: Site, is: Model, args: &[Option<Node>], result: Option<Node>) {
        let function = site.function;
        for (at, node) in args.iter().enumerate() {
            let Some(node) = node else { continue };
            for (to, to_node) in args.iter().enumerate() {
                if let (true, true, true, Some(to)) =
                    (is.copies, is.reads(at), is.writes(to), to_node)
                {
                    self.contents(*node, *to);
                }
            }
        }
        let name = self.objects.program.called(site).unwrap_or_default();
        let (input, output) = (library::is_input(name), library::is_output(name));
        for (at, node) in args.iter().enumerate() {
            let Some(node) = *node else { continue };
            if input && is.writes(at) || name.starts_with("llvm.va_start") {
                self.constraints.stores.push((self.outside, node));
            }
            if output && is.reads(at) {
                let held = self.fresh();
                self.constraints.loads.push((node, held));
                self.constraints.escapes.push(held);
            }
        }
        match (is.result, result) {
            (Given::First, Some(result)) => {
                self.constraints
                    .copies
                    .extend(args.first().copied().flatten().map(|a| (a, result)));
            }
            (Given::Outside, Some(result)) => self.constraints.copies.push((self.outside, result)),
            (Given::New, Some(result)) if is.copies => {
                if let Some(old) = args.first().copied().flatten() {
                    self.contents(old, result);
                    self.constraints.copies.push((old, result));
                }
            }
            // Code passed to a library may be called.
            _ => {}
        }
        if let Op::Call { args, .. } = &self.objects.program.inst(site).op {
            let code = args.iter().filter_map(|arg| match arg {
                Operand::Global(name) => self.objects.program.symbol(function, name).zip(Some(arg)),
                _ => None,
            });
            let code: Vec<_> = code.filter(|c| matches!(c.0, Symbol::Function(_))).collect();
            for (_, arg) in code {
                let node = self.node(function, arg);
                self.constraints.escapes.extend(node);
            }
        }
    }

    /// Solves until calls through pointers, and from outside, reach nothing new.
    fn solve(mut self) -> Flow {
        self.strangers();
        let mut entered = BTreeSet::new();
        loop {
            self.flow.solution = self.constraints.solve();
            let mut grown = false;
            for function in self.flow.called_from_outside(self.objects) {
                if entered.insert(function) {
                    self.entered_from_outside(function);
                    grown = true;
                }
            }
            for site in self.through() {
                grown |= self.reach(site);
            }
            if !grown {
                return self.flow;
            }
        }
    }

    fn through(&self) -> Vec<Site> {
        let sites =
            self.objects.program.sites().filter(|(_, inst)| {
                matches!(&inst.op, Op::Call { callee: Callee::Through(_), .. })
            });
        sites.map(|found| found.0).collect()
    }

    /// Adds the targets of a call through a pointer. Returns true if one is new.
    fn reach(&mut self, site: Site) -> bool {
        let inst = self.objects.program.inst(site);
        let Op::Call { callee: Callee::Through(to), args, .. } = &inst.op else {
            return false;
        };
        let result = inst.result.map(|local| self.flow.base[site.function] + local);
        let args: Vec<_> = args.iter().map(|arg| self.node(site.function, arg)).collect();
        let points = self.flow.points(self.objects, site.function, to);
        let first = !self.flow.callees.contains_key(&site);
        let mut found = self.flow.callees.remove(&site).unwrap_or_default();
        let before = found.len();
        let mut targets: Vec<Object> = points.iter().copied().collect();
        if points.contains(&OUTSIDE) {
            targets.extend(self.flow.solution.escaped());
        }
        for object in targets {
            match self.objects.all[object].kind {
                ObjectKind::Function(at) if found.insert(at) => self.enter(at, &args, result),
                _ => {}
            }
        }
        let grown = first || found.len() > before;
        if points.contains(&OUTSIDE) && self.given.insert(site) {
            self.unknown(&args, result);
        }
        self.flow.callees.insert(site, found);
        grown
    }

    /// Lets code that was not given use every name visible to other modules.
    fn strangers(&mut self) {
        let program = self.objects.program;
        // Inline assembly has no name, and may use any symbol.
        let unknown = program.sites().any(|(site, _)| {
            matches!(self.objects.beyond(site), Some(Beyond::Unknown))
                && program.called(site).is_none_or(|name| !library::is_system(name))
        });
        if !unknown && !self.strangers {
            return;
        }
        let globals = program.globals.iter().enumerate().filter(|(_, global)| !global.internal);
        let code = program.functions.iter().enumerate().filter(|(_, is)| !is.internal);
        let seen: Vec<Object> = globals
            .map(|(at, _)| self.objects.statics[at])
            .chain(code.map(|(at, _)| self.objects.code[at]))
            .collect();
        for object in seen {
            let node = self.fresh();
            self.constraints.addresses.push((node, object));
            self.constraints.escapes.push(node);
        }
    }
}
