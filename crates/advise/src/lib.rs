//! Reads the LLVM IR of OpenSHMEM programs, as clang prints it at `-O0` with debug information.
//!
//! Pure: text in, data out. Nothing here needs LLVM; only who makes the text needs clang.
//!
//! ```text
//! lex       tokens and logical lines of textual IR
//! ir        a program as the analysis needs it: objects, accesses, calls, control flow
//! shape     types, and the bytes they take
//! read      from text to `ir`
//! routines  what each routine of OpenSHMEM does to memory
//! points    where pointers may point
//! ```
//!
//! A module imports only from those above it.
//!
//! Left out: running clang, linking of modules, the analysis itself.

#![forbid(unsafe_code)]

pub mod ir;
mod lex;
pub mod points;
pub mod read;
pub mod routines;
mod shape;
