//! A program as the analysis needs it: memory that has a name, accesses, calls, control flow.
//!
//! Arithmetic is kept as far as pointers may flow through it. Invariants: block 0 is the entry;
//! successors are indices of blocks of the same function; a local is defined at most once. Left
//! out: values of numbers, except constants and simple arithmetic.

/// A value inside a function, by number: parameters first.
pub type Local = usize;

/// A place in the source; line 0 means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file, as it was passed to the compiler.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A local value.
    Local(Local),
    /// The address of a global or function.
    Global(String),
    /// A constant that may point into any of these globals.
    Into(Vec<String>),
    /// A whole number.
    Number(i64),
    /// A constant that points nowhere.
    Nothing,
}

/// The target of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function by name.
    Named(String),
    /// Whatever the operand points to.
    Through(Operand),
    /// Inline assembly.
    Assembly,
}

/// The operation of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Memory of this frame; if it stands in block 0, it has one size and is allocated once.
    Alloca {
        /// Bytes, if constant.
        bytes: Option<u64>,
    },
    /// Reads memory.
    Load {
        /// The address.
        from: Operand,
        /// Bytes, if known.
        bytes: Option<u64>,
        /// True if the access is observable or may be asynchronous: never optimised.
        volatile: bool,
    },
    /// Writes memory.
    Store {
        /// The value.
        value: Operand,
        /// The address.
        to: Operand,
        /// True if its type is a pointer.
        pointer: bool,
        /// Bytes, if known.
        bytes: Option<u64>,
        /// True if the access is observable or may be asynchronous: never optimised.
        volatile: bool,
    },
    /// Reads and writes memory atomically.
    Update {
        /// The address.
        at: Operand,
        /// The values written.
        values: Vec<Operand>,
    },
    /// A result that may point to whatever the operands point to.
    Copy(Vec<Operand>),
    /// A result that depends on the operands, and points nowhere.
    Compare(Vec<Operand>),
    /// A call, or an invoke: then `unwinds` is true and control may continue at a landing pad.
    Call {
        /// The target.
        callee: Callee,
        /// The arguments, without those for debuggers.
        args: Vec<Operand>,
        /// True if an exception is caught in this function.
        unwinds: bool,
    },
    /// The end of a block that branches on the operand.
    Branch(Operand),
    /// The end of the function.
    Return(Option<Operand>),
    /// A result from outside: an exception.
    Caught,
    /// An operation without memory or pointers.
    Other,
}

/// The value of a result, if it is an address or simple arithmetic on integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Exact {
    /// Unknown.
    #[default]
    Unknown,
    /// The operand, in another width.
    Same(Operand),
    /// A sum.
    Add(Operand, Operand),
    /// A difference.
    Minus(Operand, Operand),
    /// A product.
    Times(Operand, Operand),
    /// A quotient.
    Over(Operand, Operand),
    /// The operand in a smaller width, if it fits.
    Cut(Operand),
    /// True if the first is less than the second.
    Less(Operand, Operand),
    /// True if both are equal.
    Equal(Operand, Operand),
    /// True if both differ.
    Unlike(Operand, Operand),
    /// The lowest bit.
    Bit(Operand),
    /// A bit that depends on the block from which control came.
    Joined(Vec<(usize, Operand)>),
    /// An address, plus a number of bytes times each index.
    Element(Operand, Vec<(u64, Operand)>),
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The value it defines.
    pub result: Option<Local>,
    /// Its operation.
    pub op: Op,
    /// The value of the result.
    pub exact: Exact,
    /// Its place in the source.
    pub place: SourceLine,
}

/// A block of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The instructions, in order; the last one ends the block.
    pub insts: Vec<Inst>,
    /// The blocks to which control may go.
    pub successors: Vec<usize>,
}

/// A variable of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its declaration.
    pub place: SourceLine,
}

/// A function with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// True if no other module sees it.
    pub internal: bool,
    /// True if no exception leaves it.
    pub nounwind: bool,
    /// The number of parameters, which are the first locals.
    pub parameters: usize,
    /// The number of locals.
    pub locals: usize,
    /// Its blocks, the entry first.
    pub blocks: Vec<Block>,
    /// The variables that allocas hold.
    pub variables: Vec<(Local, Variable)>,
    /// Its first line in the source.
    pub place: SourceLine,
}

/// Memory with a symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// The name in the source and the declaration, if any.
    pub variable: Option<Variable>,
    /// Bytes, if known.
    pub bytes: Option<u64>,
    /// True if no other module sees it.
    pub internal: bool,
    /// True if it is defined in another module.
    pub external: bool,
    /// True if it is never written.
    pub constant: bool,
    /// True if each thread has its own.
    pub thread_local: bool,
    /// True if it lies in a named section, whose start and end the linker may provide.
    pub in_section: bool,
    /// Symbols whose addresses its initial value holds; of an alias, its target.
    pub holds: Vec<String>,
}

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its globals, in the order of the text, including aliases.
    pub globals: Vec<Global>,
    /// Functions with a body.
    pub functions: Vec<Function>,
}
