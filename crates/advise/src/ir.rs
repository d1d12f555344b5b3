//! A program as the analysis needs it: memory that has a name, accesses, calls, control flow.
//!
//! Arithmetic is kept as far as pointers may flow through it. Invariants: block 0 is the entry;
//! successors are indices of blocks of the same function; a local is defined at most once.
//! Left out: values of numbers, but for constants and simple arithmetic.

/// A value inside a function, by number: parameters first.
pub type Local = usize;

/// A place in the source; line 0 is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// What an instruction takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A local value.
    Local(Local),
    /// The address of a global or function itself.
    Global(String),
    /// A constant that may point into any of these globals.
    Into(Vec<String>),
    /// A whole number.
    Number(i64),
    /// A constant that points nowhere.
    Nothing,
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function by name.
    Named(String),
    /// Whatever the operand points to.
    Through(Operand),
    /// Inline assembly.
    Assembly,
}

/// What an instruction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Memory of this frame; of one size and made once if it stands in block 0.
    Alloca {
        /// Bytes, where they are constant.
        bytes: Option<u64>,
    },
    /// Reads memory: bytes, where known.
    Load {
        /// Where.
        from: Operand,
        /// Bytes, where known.
        bytes: Option<u64>,
        /// Others may see or do it: never optimised.
        volatile: bool,
    },
    /// Writes memory.
    Store {
        /// What.
        value: Operand,
        /// Where.
        to: Operand,
        /// It is a pointer by its type.
        pointer: bool,
        /// Bytes, where known.
        bytes: Option<u64>,
        /// Others may see or do it: never optimised.
        volatile: bool,
    },
    /// Reads and writes memory in one step.
    Update {
        /// Where.
        at: Operand,
        /// What goes in.
        values: Vec<Operand>,
    },
    /// A result that may point to whatever the operands point to.
    Copy(Vec<Operand>),
    /// A result that depends on the operands, and points nowhere.
    Compare(Vec<Operand>),
    /// A call, or an invoke: then `unwinds` is true and control may go on at a landing pad.
    Call {
        /// What is called.
        callee: Callee,
        /// The arguments, without those for debuggers.
        args: Vec<Operand>,
        /// An exception is caught in this function.
        unwinds: bool,
    },
    /// The end of a block that chooses by the operand.
    Branch(Operand),
    /// The end of the function.
    Return(Option<Operand>),
    /// A result from outside: an exception.
    Caught,
    /// No memory, no pointer.
    Other,
}

/// The value of a result, where it is simple arithmetic on whole numbers or an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Exact {
    /// Not known.
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
    /// True if the first is less.
    Less(Operand, Operand),
    /// True if both are equal.
    Equal(Operand, Operand),
    /// True if they are not.
    Unlike(Operand, Operand),
    /// The lowest bit.
    Bit(Operand),
    /// One bit: that of the block that control came from.
    Joined(Vec<(usize, Operand)>),
    /// An address, and so many bytes times each index behind it.
    Element(Operand, Vec<(u64, Operand)>),
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The value it defines.
    pub result: Option<Local>,
    /// What it does.
    pub op: Op,
    /// What the result is.
    pub exact: Exact,
    /// Where it stands in the source.
    pub place: SourceLine,
}

/// A block of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// In order; the last one ends the block.
    pub insts: Vec<Inst>,
    /// Where control may go.
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
    /// No other module sees it.
    pub internal: bool,
    /// No exception leaves it.
    pub nounwind: bool,
    /// Its parameters are the locals below this.
    pub parameters: usize,
    /// How many locals there are.
    pub locals: usize,
    /// Its blocks, the entry first.
    pub blocks: Vec<Block>,
    /// Which alloca is which variable.
    pub variables: Vec<(Local, Variable)>,
    /// Where it begins in the source.
    pub place: SourceLine,
}

/// Memory with a symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// The name in the source and the declaration, where there is one.
    pub variable: Option<Variable>,
    /// Bytes, where known.
    pub bytes: Option<u64>,
    /// No other module sees it.
    pub internal: bool,
    /// It is defined in another module.
    pub external: bool,
    /// It is never written.
    pub constant: bool,
    /// Each thread has its own.
    pub thread_local: bool,
    /// It lies in a section that has a name, whose begin and end the linker may give.
    pub in_section: bool,
    /// Symbols whose addresses its initial value holds; of an alias, what it stands for.
    pub holds: Vec<String>,
}

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its globals, in the order of the text; aliases too.
    pub globals: Vec<Global>,
    /// Functions with a body.
    pub functions: Vec<Function>,
}
