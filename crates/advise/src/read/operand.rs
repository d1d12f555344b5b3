//! Operands: a value, the address of a global, a constant.

use std::collections::HashMap;

use crate::ir::{Local, Operand};
use crate::lex::Token;

/// The locals of one function, numbered by name in order of appearance.
#[derive(Default)]
pub struct Locals<'a> {
    numbers: HashMap<&'a str, Local>,
}

impl<'a> Locals<'a> {
    /// Returns the number of a name.
    pub fn number(&mut self, name: &'a str) -> Local {
        let next = self.numbers.len();
        *self.numbers.entry(name).or_insert(next)
    }

    /// Returns the number of locals.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the operand denoted by the last token of `TYPE ATTRIBUTES VALUE`.
    pub fn operand(&mut self, tokens: &[Token<'a>]) -> Operand {
        match tokens.last() {
            Some(Token::Local(name)) => Operand::Local(self.number(name)),
            Some(Token::Global(name)) => Operand::Global((*name).to_owned()),
            Some(Token::Word("true")) => Operand::Number(1),
            Some(Token::Word("false")) => Operand::Number(0),
            Some(Token::Word(word)) => word.parse().map_or(Operand::Nothing, Operand::Number),
            _ => handle(tokens).map_or_else(|| into(tokens), Operand::Number),
        }
    }

    /// Returns the operand after the word `ptr`, whatever follows it.
    pub fn pointer(&mut self, tokens: &[Token<'a>]) -> Operand {
        let at = tokens.iter().position(|token| *token == Token::Word("ptr"));
        let mut rest = &tokens[at.map_or(0, |at| at + 1)..];
        if rest.first() == Some(&Token::Word("addrspace")) {
            rest = &rest[4.min(rest.len())..];
        }
        match rest.first() {
            Some(first @ (Token::Local(_) | Token::Global(_))) => self.operand(&[*first]),
            _ => into(rest),
        }
    }

    /// Returns every value and global among the tokens. Types and labels look like values; treating
    /// them as values that point nowhere does no harm.
    pub fn all(&mut self, tokens: &[Token<'a>]) -> Vec<Operand> {
        let named = tokens.iter().filter(|t| matches!(t, Token::Local(_) | Token::Global(_)));
        named.map(|token| self.operand(&[*token])).collect()
    }
}

/// Returns the number in `inttoptr (i64 NUMBER to ptr)`: a handle.
fn handle(tokens: &[Token<'_>]) -> Option<i64> {
    match tokens {
        [
            ..,
            Token::Word("inttoptr"),
            Token::Mark('('),
            Token::Word(_),
            Token::Word(number),
            Token::Word("to"),
            Token::Word("ptr"),
            Token::Mark(')'),
        ] => number.parse().ok(),
        _ => None,
    }
}

/// Returns the globals among the tokens as a constant that may point into them.
pub fn into(tokens: &[Token<'_>]) -> Operand {
    let globals = holds(tokens);
    if globals.is_empty() { Operand::Nothing } else { Operand::Into(globals) }
}

/// Returns the globals among the tokens.
pub fn holds(tokens: &[Token<'_>]) -> Vec<String> {
    let named = tokens.iter().filter_map(|token| match token {
        Token::Global(name) => Some((*name).to_owned()),
        _ => None,
    });
    named.collect()
}
