//! Reads the LLVM IR of OpenSHMEM programs, as clang prints it at `-O0` with debug information.
//!
//! Pure: text in, data out. Nothing here needs LLVM; producing the text requires clang.
//!
//! ```text
//! lex       tokens and logical lines of textual IR
//! ir        the analysed form of a program: objects, accesses, calls, control flow
//! shape     types and their sizes
//! read      parser from text to `ir`
//! routines  memory effects of the OpenSHMEM routines
//! points    points-to sets
//! program   linked modules, with every symbol resolved
//! library   memory effects of system functions
//! objects   the memory of a program
//! gather    points-to analysis and call graph of a program
//! memory    memory effects of each instruction
//! steps     the program in the form that flow analyses traverse
//! cycles    changes between one execution of a call and the next
//! fills     loops that overwrite an object completely
//! held      private allocations that are still reachable
//! liveness  objects that may still be read, at each point
//! forward   interprocedural forward dataflow
//! reach     allocations that may exist, and contexts that are not quiet
//! control   control dependence of blocks on branches
//! differ    values that differ between PEs, and calls that some PEs may not reach
//! ways      control-flow paths between checkpoints, call by call
//! restarts  the point at which a program resumes after a restart, and whether that is valid
//! stale     restored static pointers that hold an address of a dead process
//! uses      the line that reads an object next
//! protects  private memory that only some processes of a PE protect
//! report    the findings about a program
//! scratch   memory that a program declares as scratch
//! sizes     allocation sizes in terms of variables, in readable form
//! names     readable names of memory
//! leave     memory that checkpoints may leave out
//! text      a report for a terminal
//! json      a report for programs and editors
//! html      a report as an HTML page
//! advise    the whole analysis, from program to report
//! ```
//!
//! A module imports only from those above it.
//!
//! Left out: running clang.

#![forbid(unsafe_code)]

pub mod advise;
mod control;
mod cycles;
mod differ;
mod fills;
mod forward;
mod gather;
mod held;
pub mod html;
pub mod ir;
pub mod json;
pub mod leave;
mod lex;
mod library;
mod liveness;
mod memory;
mod names;
pub mod objects;
pub mod points;
mod program;
mod protects;
mod reach;
pub mod read;
pub mod report;
mod restarts;
pub mod routines;
pub mod scratch;
mod shape;
pub mod sizes;
mod stale;
mod steps;
pub mod text;
mod uses;
mod ways;
