//! One instruction: turns a logical line of a body into an `Inst` and labels.
//!
//! An unknown instruction is rejected, never skipped: its effects would be missing.

use super::operand::Locals;
use crate::ir::{Callee, Op, Operand};
use crate::lex::{Token, closing, parts};
use crate::shape::Shapes;

/// Instructions whose results may point wherever an operand points.
const COPIES: &[&str] = &[
    "phi",
    "select",
    "freeze",
    "extractvalue",
    "insertvalue",
    "extractelement",
    "insertelement",
    "shufflevector",
    "va_arg",
    "add",
    "sub",
    "mul",
    "udiv",
    "sdiv",
    "urem",
    "srem",
    "shl",
    "lshr",
    "ashr",
    "and",
    "or",
    "xor",
    "fneg",
    "fadd",
    "fsub",
    "fmul",
    "fdiv",
    "frem",
    "trunc",
    "zext",
    "sext",
    "fptrunc",
    "fpext",
    "fptoui",
    "fptosi",
    "uitofp",
    "sitofp",
    "ptrtoint",
    "inttoptr",
    "ptrtoaddr",
    "bitcast",
    "addrspacecast",
];

/// The operation of an instruction, and the labels that it may jump to.
pub struct Read<'a> {
    pub op: Op,
    pub labels: Vec<&'a str>,
}

/// Reads the part after `%result =`. Returns `None` for an unknown instruction.
pub fn instruction<'a>(
    tokens: &[Token<'a>],
    locals: &mut Locals<'a>,
    shapes: &Shapes<'a>,
) -> Option<Read<'a>> {
    let Token::Word(word) = tokens.first()? else {
        return None;
    };
    let rest = &tokens[1..];
    let arguments = parts(rest);
    let first = arguments.first().copied().unwrap_or_default();
    let op = match *word {
        "alloca" => alloca(rest, shapes)?,
        "load" => {
            let shape = shapes.begins(after_words(rest, &["atomic", "volatile"]))?.0;
            let volatile = has(rest, "atomic") || has(rest, "volatile");
            let from = locals.pointer(arguments.get(1)?);
            Op::Load { from, bytes: shape.map(|shape| shape.0), volatile }
        }
        "store" => {
            let stored = after_words(rest, &["atomic", "volatile"]);
            let bytes = shapes.stored(stored);
            let pointer = stored.first() == Some(&Token::Word("ptr"));
            let volatile = has(rest, "atomic") || has(rest, "volatile");
            let (value, to) = (locals.operand(first), locals.pointer(arguments.get(1)?));
            Op::Store { value, to, pointer, bytes, volatile }
        }
        "getelementptr" => match arguments.get(1)? {
            vector @ [Token::Mark(_), ..] => Op::Copy(locals.all(vector)),
            pointer => Op::Copy(vec![locals.pointer(pointer)]),
        },
        "atomicrmw" | "cmpxchg" => {
            Op::Update { at: locals.pointer(first), values: locals.all(&rest[first.len()..]) }
        }
        "icmp" | "fcmp" => Op::Compare(locals.all(rest)),
        "call" | "tail" | "musttail" | "notail" | "invoke" | "callbr" => call(word, rest, locals)?,
        "br" | "switch" | "indirectbr" => Op::Branch(match labels(rest).len() {
            0 => return None,
            1 if *word == "br" => Operand::Nothing,
            _ => locals.operand(first),
        }),
        "ret" => Op::Return(match rest.first()? {
            Token::Word("void") => None,
            _ => Some(locals.operand(first)),
        }),
        "landingpad" => Op::Caught,
        "resume" | "unreachable" | "fence" => Op::Other,
        copy if COPIES.contains(&copy) => Op::Copy(locals.all(rest)),
        _ => return None,
    };
    let ends = ["br", "switch", "indirectbr", "invoke", "callbr"].contains(word);
    Some(Read { op, labels: if ends { labels(rest) } else { Vec::new() } })
}

fn has(tokens: &[Token<'_>], word: &str) -> bool {
    tokens.iter().take(2).any(|token| *token == Token::Word(word))
}

/// Returns the tokens after any of these words.
fn after_words<'t, 'a>(tokens: &'t [Token<'a>], words: &[&str]) -> &'t [Token<'a>] {
    let given = |t: &&Token<'_>| matches!(t, Token::Word(word) if words.contains(word));
    &tokens[tokens.iter().take_while(given).count()..]
}

fn alloca<'a>(tokens: &[Token<'a>], shapes: &Shapes<'a>) -> Option<Op> {
    let shape = shapes.begins(after_words(tokens, &["inalloca"]))?.0;
    let count = parts(tokens).get(1).map_or(Some(1), |part| match part {
        [Token::Word("align" | "addrspace"), ..] => Some(1),
        [Token::Meta(_), ..] => Some(1),
        [.., Token::Word(count)] => count.parse().ok(),
        _ => None,
    });
    let bytes = shape.zip(count).and_then(|(shape, count)| shape.0.checked_mul(count));
    Some(Op::Alloca { bytes })
}

/// Returns the labels of a terminator.
fn labels<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let pairs = tokens.windows(2).filter_map(|pair| match pair {
        [Token::Word("label"), Token::Local(name)] => Some(*name),
        _ => None,
    });
    pairs.collect()
}

/// Reads a call: the callee is the last value outside brackets that precedes a bracket, because a
/// named type may precede the bracket of a function type.
fn call<'a>(word: &str, tokens: &[Token<'a>], locals: &mut Locals<'a>) -> Option<Op> {
    let (mut at, mut found, mut last, mut assembly) = (0, None, None, false);
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Mark('(' | '[' | '{' | '<') => {
                let end = closing(tokens, at)?;
                if *token == Token::Mark('(') && at > 0 {
                    let named = matches!(tokens[at - 1], Token::Local(_) | Token::Global(_));
                    let constant = tokens[at - 1] == Token::Mark(')');
                    if named {
                        found = Some((at, end));
                    } else if constant || assembly {
                        last = last.or(Some((at, end)));
                    }
                }
                at = end;
            }
            Token::Word("asm") => assembly = true,
            _ => {}
        }
        at += 1;
    }
    let (open, end) = if assembly { last? } else { found.or(last)? };
    let callee = match tokens[open - 1] {
        _ if assembly => Callee::Assembly,
        Token::Global(name) => Callee::Named(name.to_owned()),
        Token::Local(_) => Callee::Through(locals.operand(&tokens[open - 1..open])),
        _ => Callee::Through(super::operand::into(&tokens[..open])),
    };
    let arguments = parts(&tokens[open + 1..end]);
    let for_program = |part: &&&[Token<'_>]| part.first() != Some(&Token::Word("metadata"));
    let args = arguments.iter().filter(for_program).map(|part| locals.operand(part)).collect();
    Some(Op::Call { callee, args, unwinds: word == "invoke" })
}
