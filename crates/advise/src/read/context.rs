//! The module-wide context of functions, and the errors of reading.

use std::collections::HashSet;

use super::debug::Debug;
use crate::lex::{Token, tokens};
use crate::shape::Shapes;

/// The reason why a text is not a readable module; `line` counts from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something unexpected, or a newer form of IR.
    #[error("line {line}: expected {expected} of LLVM IR")]
    Expected {
        /// The line.
        line: usize,
        /// The expected construct.
        expected: &'static str,
    },
    /// Typed pointers: the compiler is too old.
    #[error("line {line}: pointers with types; expected IR of clang 15 or newer")]
    TypedPointer {
        /// The line.
        line: usize,
    },
    /// A function without an end.
    #[error("line {line}: a function without its closing bracket")]
    Open {
        /// Its first line.
        line: usize,
    },
    /// A jump to a block that does not exist.
    #[error("line {line}: no block {label} in this function")]
    NoBlock {
        /// The line.
        line: usize,
        /// Its name.
        label: String,
    },
}

/// The module-wide context of functions.
pub struct ModuleContext<'a> {
    /// Its types.
    pub shapes: Shapes<'a>,
    /// Its debug information.
    pub debug: Debug<'a>,
    /// Groups of attributes that hold `nounwind`.
    pub nounwind: HashSet<&'a str>,
}

/// Reads the lines outside functions.
pub fn context<'a>(lines: &[&'a str]) -> ModuleContext<'a> {
    let mut context = ModuleContext {
        shapes: Shapes::default(),
        debug: Debug::default(),
        nounwind: HashSet::new(),
    };
    for line in lines {
        if line.starts_with('!') {
            context.debug.define(line);
        } else if line.starts_with('%') {
            let tokens = tokens(line);
            if let [Token::Local(name), Token::Mark('='), Token::Word("type"), body @ ..] =
                tokens.as_slice()
            {
                context.shapes.define(name, body.to_vec());
            }
        } else if line.starts_with("attributes ") {
            let tokens = tokens(line);
            if let (Some(Token::Hash(group)), true) =
                (tokens.get(1), tokens.contains(&Token::Word("nounwind")))
            {
                context.nounwind.insert(group);
            }
        }
    }
    context
}
