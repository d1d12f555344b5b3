//! The memory of a program: its objects, and the effects of calls by name to functions without a
//! body.
//!
//! An object represents all memory that one declaration or one allocation site creates. Invariant:
//! object 0 is `OUTSIDE`. Left out: targets of pointers; the bytes within an object.

use std::collections::HashMap;

use crate::ir::{Callee, Local, Op, Operand, SourceLine};
use crate::library::{self, Model, Result as Given};
use crate::points::{OUTSIDE, Object};
use crate::program::{Program, Site, Symbol};
use crate::routines::{Gives, Routine, plain};

/// Routines of OpenSHMEM by symbol, without the `p` twins.
pub type Routines = HashMap<String, Routine>;

/// The storage of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Memory that no name of the program denotes.
    Outside,
    /// Code.
    Function(usize),
    /// Static memory, which is symmetric.
    Static(usize),
    /// Thread-local memory.
    Thread(usize),
    /// A variable of a function.
    Frame(usize),
    /// Private memory of the heap.
    Heap,
    /// Memory of the symmetric heap.
    Symmetric,
}

/// Memory with a name or an allocation site.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its storage.
    pub kind: ObjectKind,
    /// Its name in the source, or empty.
    pub name: String,
    /// Its declaration or allocation.
    pub place: SourceLine,
    /// Bytes, if known.
    pub bytes: Option<u64>,
    /// The allocation site, if it is on a heap.
    pub site: Option<Site>,
    /// True if it is never written.
    pub constant: bool,
    /// True if there is a single instance, which exists from the beginning of its function.
    pub single: bool,
}

/// The target of a call to a function without a body.
#[derive(Clone, Debug)]
pub enum Beyond<'a> {
    /// OpenSHMEM.
    Routine(&'a Routine),
    /// A known function of a library.
    Model(Model),
    /// Unknown code.
    Unknown,
}

/// The objects of a program.
pub struct Objects<'a> {
    /// The program.
    pub program: &'a Program,
    /// Every object.
    pub all: Vec<Known>,
    /// The object of each global.
    pub statics: Vec<Object>,
    /// The object of each function.
    pub code: Vec<Object>,
    routines: &'a Routines,
    frames: HashMap<(usize, Local), Object>,
    heap: HashMap<Site, Object>,
}

impl<'a> Objects<'a> {
    /// Finds the objects.
    #[must_use]
    pub fn new(program: &'a Program, routines: &'a Routines) -> Self {
        let mut objects = Self {
            program,
            all: Vec::new(),
            statics: Vec::new(),
            code: Vec::new(),
            routines,
            frames: HashMap::new(),
            heap: HashMap::new(),
        };
        objects.find();
        objects
    }

    fn add(&mut self, kind: ObjectKind, name: &str, place: SourceLine) -> Object {
        let (name, constant) = (name.to_owned(), false);
        self.all.push(Known {
            kind,
            name,
            place,
            bytes: None,
            site: None,
            constant,
            single: false,
        });
        self.all.len() - 1
    }

    fn find(&mut self) {
        self.add(ObjectKind::Outside, "", SourceLine::default());
        for (index, global) in self.program.globals.iter().enumerate() {
            if global.external && !global.thread_local {
                self.statics.push(OUTSIDE);
                continue;
            }
            let local = global.thread_local;
            let kind = if local { ObjectKind::Thread(index) } else { ObjectKind::Static(index) };
            let variable = global.variable.clone().unwrap_or_default();
            let name = if variable.name.is_empty() { &global.name } else { &variable.name };
            let object = self.add(kind, name, variable.place);
            self.all[object].bytes = global.bytes;
            self.all[object].constant = global.constant;
            self.all[object].single = !local;
            self.statics.push(object);
        }
        for (index, function) in self.program.functions.iter().enumerate() {
            let object =
                self.add(ObjectKind::Function(index), &function.name, function.place.clone());
            self.code.push(object);
        }
        for (site, inst) in self.program.sites() {
            match &inst.op {
                Op::Alloca { bytes } => self.find_frame(site, inst.result, *bytes),
                Op::Call { args, .. } => self.find_heap(site, &inst.place, args),
                _ => {}
            }
        }
    }

    fn find_frame(&mut self, site: Site, result: Option<Local>, bytes: Option<u64>) {
        let Some(local) = result else {
            return;
        };
        let variables = &self.program.functions[site.function].variables;
        let variable = variables.iter().find(|variable| variable.0 == local);
        let variable = variable.map(|found| found.1.clone()).unwrap_or_default();
        let object = self.add(ObjectKind::Frame(site.function), &variable.name, variable.place);
        self.all[object].bytes = bytes;
        self.all[object].single = site.block == 0;
        self.frames.insert((site.function, local), object);
    }

    fn find_heap(&mut self, site: Site, place: &SourceLine, args: &[Operand]) {
        let kind = match self.beyond(site) {
            Some(Beyond::Routine(routine)) => match routine.gives {
                Gives::Symmetric | Gives::Moved => ObjectKind::Symmetric,
                _ => return,
            },
            Some(Beyond::Model(model)) if model.result == Given::New => ObjectKind::Heap,
            _ => return,
        };
        let object = self.add(kind, "", place.clone());
        self.all[object].site = Some(site);
        self.all[object].bytes = self.program.called(site).and_then(|name| size(name, args));
        self.heap.insert(site, object);
    }

    /// Returns the target of a call without a body; `None` if it has a body, is not a call, or
    /// is a call through a pointer.
    #[must_use]
    pub fn beyond(&self, site: Site) -> Option<Beyond<'a>> {
        let Op::Call { callee, .. } = &self.program.inst(site).op else {
            return None;
        };
        match callee {
            Callee::Named(name) if self.program.named(site.function, callee).is_none() => {
                if let Some(routine) = self.routines.get(plain(name)) {
                    return Some(Beyond::Routine(routine));
                }
                Some(library::model(name).map_or(Beyond::Unknown, Beyond::Model))
            }
            Callee::Named(_) => None,
            Callee::Assembly => Some(Beyond::Unknown),
            Callee::Through(_) => None,
        }
    }

    /// Returns true for the name of a routine, or of a known library function.
    #[must_use]
    pub fn is_known(&self, name: &str) -> bool {
        self.routines.contains_key(plain(name)) || library::model(name).is_some()
    }

    /// Returns the routine of OpenSHMEM that a call reaches.
    #[must_use]
    pub fn routine(&self, site: Site) -> Option<&'a Routine> {
        match self.beyond(site) {
            Some(Beyond::Routine(routine)) => Some(routine),
            _ => None,
        }
    }

    /// Returns the objects that a constant points to.
    #[must_use]
    pub fn constant(&self, function: usize, operand: &Operand) -> Vec<Object> {
        match operand {
            Operand::Global(name) => vec![self.object(function, name)],
            Operand::Into(names) => names.iter().map(|name| self.object(function, name)).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the object of a function's variable.
    #[must_use]
    pub fn frame(&self, function: usize, local: Local) -> Option<Object> {
        self.frames.get(&(function, local)).copied()
    }

    /// Returns the object whose first byte the operand names directly, if it does.
    #[must_use]
    pub fn direct(&self, function: usize, operand: &Operand) -> Option<Object> {
        let found = match operand {
            Operand::Local(local) => self.frames.get(&(function, *local)).copied(),
            Operand::Global(name) => Some(self.object(function, name)),
            _ => None,
        };
        found.filter(|object| *object != OUTSIDE)
    }

    fn object(&self, function: usize, name: &str) -> Object {
        match self.program.symbol(function, name) {
            Some(Symbol::Function(at)) => self.code[at],
            Some(Symbol::Global(at)) => self.statics[at],
            None => OUTSIDE,
        }
    }

    /// Returns the object that a call allocates.
    #[must_use]
    pub fn allocated(&self, site: Site) -> Option<Object> {
        self.heap.get(&site).copied()
    }
}

/// Returns the numbers whose product is the number of bytes that a call requests.
#[must_use]
pub fn asked<'o>(name: &str, args: &'o [Operand]) -> Option<Vec<&'o Operand>> {
    let at: &[usize] = match plain(name) {
        "calloc" | "shmem_calloc" => &[0, 1],
        "shmem_align" | "shmemalign" | "aligned_alloc" | "memalign" => &[1],
        "realloc" | "shmem_realloc" | "shrealloc" => &[1],
        "strdup" | "strndup" => return None,
        _ => &[0],
    };
    at.iter().map(|at| args.get(*at)).collect()
}

/// Returns the number of bytes that a call requests, if it is constant.
fn size(name: &str, args: &[Operand]) -> Option<u64> {
    asked(name, args)?.into_iter().try_fold(1, |all: u64, factor| match factor {
        Operand::Number(number) => all.checked_mul(u64::try_from(*number).ok()?),
        _ => None,
    })
}
