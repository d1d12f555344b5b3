//! Reads the LLVM IR of OpenSHMEM programs, as clang prints it at `-O0` with debug information.
//!
//! Pure: text in, data out. Nothing here needs LLVM; producing the text requires clang.
//!
//! ```text
//! lex       tokens and logical lines of textual IR
//! ir        a program as the analysis needs it: objects, accesses, calls, control flow
//! shape     types, and the bytes they take
//! read      from text to `ir`
//! routines  what each routine of OpenSHMEM does to memory
//! points    where pointers may point
//! program   modules put together, with every symbol resolved
//! library   what functions of the system do to memory
//! objects   the memory of a program
//! gather    where the pointers of a program point, and what its calls reach
//! memory    what each instruction does to memory
//! steps     the program as the analyses of flow walk it
//! cycles    what changes between one run of a call and the next
//! fills     loops that overwrite an object whole
//! held      which private allocations a program can still come to
//! liveness  which objects may still be read, and where
//! forward   what may hold before each step, over the whole program
//! reach     which allocations there may be, and which contexts are not quiet
//! control   which blocks a branch decides about
//! differ    which values differ from PE to PE, and which calls some PEs may not come to
//! ways      the ways of control between checkpoints, call by call
//! restarts  where a program goes on after a restart, and whether it may
//! stale     static pointers that come back with an address of a dead process
//! uses      which line reads an object next
//! protects  private memory that some processes of a PE protect, and others do not
//! report    what is told of a program
//! scratch   memory that a program declares as scratch
//! sizes     bytes of allocations that follow from values of variables, for people
//! names     what memory is called
//! leave     what checkpoints may leave out
//! text      a report for a terminal
//! json      a report for programs and editors
//! html      a report as a page
//! advise    from a program to a report
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
