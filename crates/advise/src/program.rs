//! A whole program: its modules, with every symbol resolved.
//!
//! Invariants: a name visible to other modules resolves identically everywhere, and a definition
//! takes precedence over a declaration. Left out: the symbols that system libraries define.

use std::collections::HashMap;

use crate::ir::{Callee, Function, Global, Inst, Module, Op};

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A function with a body, by number.
    Function(usize),
    /// Memory, by number.
    Global(usize),
}

/// An instruction: function, block, and place in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Its function.
    pub function: usize,
    /// Its block.
    pub block: usize,
    /// Its place in the block.
    pub index: usize,
}

/// All modules.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Every function with a body; one of several equal ones.
    pub functions: Vec<Function>,
    /// Every global that is defined, or known only by its declaration.
    pub globals: Vec<Global>,
    /// The module of each function.
    homes: Vec<usize>,
    /// The module of each global's definition.
    global_homes: Vec<usize>,
    own: HashMap<(usize, String), Symbol>,
    shared: HashMap<String, Symbol>,
}

/// Maximum length of a chain of aliases.
const DEEPEST: usize = 16;

impl Program {
    /// Links modules together.
    #[must_use]
    pub fn link(modules: Vec<Module>) -> Self {
        let mut program = Self::default();
        for (home, module) in modules.into_iter().enumerate() {
            for function in module.functions {
                let symbol = Symbol::Function(program.functions.len());
                if program.define(home, &function.name, function.internal, symbol) {
                    program.functions.push(function);
                    program.homes.push(home);
                }
            }
            for global in module.globals {
                program.add_global(home, global);
            }
        }
        program
    }

    /// Defines a symbol. Returns false if another module has already defined it.
    fn define(&mut self, home: usize, name: &str, internal: bool, symbol: Symbol) -> bool {
        if internal {
            return self.own.insert((home, name.to_owned()), symbol).is_none();
        }
        if matches!(self.shared.get(name), Some(Symbol::Function(_))) {
            return false;
        }
        self.shared.insert(name.to_owned(), symbol);
        true
    }

    fn add_global(&mut self, home: usize, global: Global) {
        let symbol = Symbol::Global(self.globals.len());
        if let (false, Some(Symbol::Global(at))) = (global.internal, self.shared.get(&global.name))
        {
            let there = &mut self.globals[*at];
            if there.external && !global.external {
                *there = global;
                self.global_homes[*at] = home;
            }
        } else if self.define(home, &global.name, global.internal, symbol) {
            self.globals.push(global);
            self.global_homes.push(home);
        }
    }

    /// Returns the meaning of a name in a function.
    #[must_use]
    pub fn symbol(&self, function: usize, name: &str) -> Option<Symbol> {
        self.resolve(self.homes[function], name, 0)
    }

    /// Returns the meaning of a name in the initial value of a global.
    #[must_use]
    pub fn held(&self, global: usize, name: &str) -> Option<Symbol> {
        self.resolve(self.global_homes[global], name, 0)
    }

    fn resolve(&self, home: usize, name: &str, depth: usize) -> Option<Symbol> {
        let own = self.own.get(&(home, name.to_owned()));
        let symbol = *own.or_else(|| self.shared.get(name))?;
        match symbol {
            Symbol::Global(at) if depth < DEEPEST && is_alias(&self.globals[at]) => {
                self.resolve(home, &self.globals[at].holds[0], depth + 1)
            }
            _ => Some(symbol),
        }
    }

    /// Returns the function that a call by name reaches, if it has a body.
    #[must_use]
    pub fn named(&self, function: usize, callee: &Callee) -> Option<usize> {
        let Callee::Named(name) = callee else {
            return None;
        };
        match self.symbol(function, name) {
            Some(Symbol::Function(at)) => Some(at),
            _ => None,
        }
    }

    /// Returns every instruction.
    pub fn sites(&self) -> impl Iterator<Item = (Site, &Inst)> {
        let blocks = self.functions.iter().enumerate().flat_map(|(function, of)| {
            of.blocks.iter().enumerate().map(move |(block, insts)| (function, block, insts))
        });
        blocks.flat_map(|(function, block, insts)| {
            let all = insts.insts.iter().enumerate();
            all.map(move |(index, inst)| (Site { function, block, index }, inst))
        })
    }

    /// Returns the instruction at a site.
    #[must_use]
    pub fn inst(&self, site: Site) -> &Inst {
        &self.functions[site.function].blocks[site.block].insts[site.index]
    }

    /// Returns the name of the called function, if it is a call by name.
    #[must_use]
    pub fn called(&self, site: Site) -> Option<&str> {
        match &self.inst(site).op {
            Op::Call { callee: Callee::Named(name), .. } => Some(name),
            _ => None,
        }
    }
}

/// Returns true for an alias, which has no memory of its own.
fn is_alias(global: &Global) -> bool {
    global.bytes.is_none() && !global.external && global.holds.len() == 1
}
