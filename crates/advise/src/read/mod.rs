//! From the text of a module to `ir`.
//!
//! The input is the output of clang 15 or newer (`-S -emit-llvm`): opaque pointers, debug records
//! or calls of `llvm.dbg.declare`. Anything else is rejected with its line number.

use crate::ir::{Global, Module};
use crate::lex::{Token, logical, parts, tokens};

mod context;
mod debug;
mod exact;
mod function;
mod instruction;
mod operand;

pub use context::Error;
use context::{ModuleContext, context};
use function::function;

/// Reads one module.
///
/// # Errors
///
/// The first line that cannot be read.
pub fn module(text: &str) -> Result<Module, Error> {
    let lines: Vec<&str> = text.lines().collect();
    let context = context(&lines);
    let mut module = Module::default();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        let number = at + 1;
        if line.starts_with("define ") {
            let end = lines[at..].iter().position(|line| *line == "}");
            let end = at + end.ok_or(Error::Open { line: number })?;
            let body = (at + 1..end).map(|index| (index + 1, lines[index]));
            module.functions.push(function(number, line, logical(body), &context)?);
            at = end;
        } else if line.starts_with('@') {
            module.globals.push(global(number, line, &context)?);
        } else if !known(line) {
            return Err(Error::Expected { line: number, expected: "a definition" });
        }
        at += 1;
    }
    Ok(module)
}

/// Returns true for lines outside functions that do not concern memory, or were read before.
fn known(line: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        ";",
        "!",
        "%",
        "$",
        "^",
        "source_filename",
        "target ",
        "declare ",
        "attributes ",
        "module asm",
        "uselistorder",
    ];
    line.trim().is_empty() || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
}

/// Reads `@name = LINKAGE.. global|constant TYPE INITIAL, ..`, or an alias.
fn global(number: usize, line: &str, context: &ModuleContext<'_>) -> Result<Global, Error> {
    let tokens = tokens(line);
    let wrong = Error::Expected { line: number, expected: "a global" };
    let is =
        |token: &Token<'_>, words: &[&str]| matches!(token, Token::Word(w) if words.contains(w));
    let kinds = ["global", "constant", "alias", "ifunc"];
    let Some(at) = tokens.iter().position(|token| is(token, &kinds)) else {
        return Err(wrong);
    };
    let (before, rest) = (&tokens[..at], &tokens[at + 1..]);
    let Some(Token::Global(name)) = before.first() else {
        return Err(wrong);
    };
    let says = |words: &[&str]| before.iter().any(|token| is(token, words));
    let (shape, length) = context.shapes.begins(rest).ok_or(wrong)?;
    if rest.get(length) == Some(&Token::Mark('*')) {
        return Err(Error::TypedPointer { line: number });
    }
    let data = is(&tokens[at], &["global", "constant"]);
    let expression = tokens.windows(2).find_map(|pair| match pair {
        [Token::Meta("dbg"), Token::Meta(node)] => Some(*node),
        _ => None,
    });
    let rest = rest.get(length..).unwrap_or_default();
    // The loader runs code that decides the target of an ifunc.
    let external = says(&["external", "extern_weak"]) || is(&tokens[at], &["ifunc"]);
    let initial = if external { &[] } else { parts(rest).first().copied().unwrap_or(&[]) };
    let aliased = operand::holds(rest);
    Ok(Global {
        name: (*name).to_owned(),
        variable: expression.and_then(|node| context.debug.global(node)),
        bytes: shape.filter(|_| data).map(|shape| shape.0),
        internal: says(&["internal", "private"]),
        external,
        constant: is(&tokens[at], &["constant"]),
        thread_local: says(&["thread_local"]),
        in_section: tokens.contains(&Token::Word("section")),
        holds: if data { operand::holds(initial) } else { aliased },
    })
}
