//! The value of an instruction's result, if it is simple arithmetic.
//!
//! Left out: everything that is not needed to identify an element of an array.

use super::operand::Locals;
use crate::ir::{Exact, Operand};
use crate::lex::{Token, parts};
use crate::shape::Shapes;

/// Reads the part after `%result =`.
pub fn exact<'a>(tokens: &[Token<'a>], locals: &mut Locals<'a>, shapes: &Shapes<'a>) -> Exact {
    known(tokens, locals, shapes).unwrap_or_default()
}

fn known<'a>(tokens: &[Token<'a>], locals: &mut Locals<'a>, shapes: &Shapes<'a>) -> Option<Exact> {
    let [Token::Word(word), rest @ ..] = tokens else { return None };
    let arguments = parts(rest);
    let vector = rest.contains(&Token::Mark('<'));
    let mut two = |of: fn(Operand, Operand) -> Exact| {
        let [one, other] = arguments[..] else { return None };
        Some(of(locals.operand(one), locals.operand(other)))
    };
    match *word {
        _ if vector => None,
        "add" => two(Exact::Add),
        "sub" => two(Exact::Minus),
        "mul" => two(Exact::Times),
        "sdiv" | "udiv" => two(Exact::Over),
        "icmp" => match rest.first()? {
            Token::Word("slt" | "ult") => two(Exact::Less),
            Token::Word("eq") => two(Exact::Equal),
            Token::Word("ne") => two(Exact::Unlike),
            _ => None,
        },
        "xor" if rest.last() == Some(&Token::Word("true")) => two(Exact::Unlike),
        "trunc" | "sext" | "zext" => {
            let at = rest.iter().position(|token| *token == Token::Word("to"))?;
            let of = locals.operand(&rest[..at]);
            Some(match (*word, rest.get(at + 1)) {
                ("trunc", Some(Token::Word("i1"))) => Exact::Bit(of),
                ("trunc", _) => Exact::Cut(of),
                _ => Exact::Same(of),
            })
        }
        "getelementptr" => {
            let [of, pointer, indices @ ..] = &arguments[..] else { return None };
            let flags = ["inbounds", "nuw", "nusw"];
            let words = of.iter().take_while(|t| flags.iter().any(|flag| **t == Token::Word(flag)));
            let mut of = &of[words.count()..];
            let mut steps = Vec::new();
            for (at, index) in indices.iter().enumerate() {
                if at > 0 {
                    of = element(of)?;
                }
                steps.push((shapes.begins(of)?.0?.0, locals.operand(index)));
            }
            Some(Exact::Element(locals.pointer(pointer), steps))
        }
        _ => None,
    }
}

/// Returns the values of `phi i1 [VALUE, %BLOCK], ..`, each with the name of its block.
pub fn joined<'a>(tokens: &[Token<'a>], locals: &mut Locals<'a>) -> Vec<(&'a str, Operand)> {
    let [Token::Word("phi"), Token::Word("i1"), rest @ ..] = tokens else { return Vec::new() };
    let pair = |part: &&[Token<'a>]| match part {
        [Token::Mark('['), value @ .., Token::Mark(','), Token::Local(block), Token::Mark(']')] => {
            Some((*block, locals.operand(value)))
        }
        _ => None,
    };
    parts(rest).iter().filter_map(pair).collect()
}

/// Returns the element type of `[N x TYPE]`.
fn element<'t, 'a>(of: &'t [Token<'a>]) -> Option<&'t [Token<'a>]> {
    match of {
        [Token::Mark('['), Token::Word(_), Token::Word("x"), inside @ .., Token::Mark(']')] => {
            Some(inside)
        }
        _ => None,
    }
}
