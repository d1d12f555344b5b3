//! Types of textual IR, and their sizes in bytes on 64-bit Linux (LP64, x86-64 and aarch64).
//!
//! Left out: the meaning of types; scalable vectors have no size.

use std::collections::HashMap;

use crate::lex::{Token, closing, parts};

/// Bytes and alignment.
pub type SizeAlign = (u64, u64);

/// The named types of a module; types without a size are absent.
#[derive(Default)]
pub struct Shapes<'a> {
    named: HashMap<&'a str, Vec<Token<'a>>>,
}

/// Maximum nesting depth of types; deeper nesting means that the text is not IR.
const DEEPEST: usize = 64;

impl<'a> Shapes<'a> {
    /// Records `%name = type BODY`.
    pub fn define(&mut self, name: &'a str, body: Vec<Token<'a>>) {
        self.named.insert(name, body);
    }

    /// Returns the shape of the type at the beginning of the tokens, and the number of tokens it
    /// takes.
    ///
    /// The outer option is empty if there is no type, the inner one if its size is unknown.
    pub fn begins(&self, tokens: &[Token<'a>]) -> Option<(Option<SizeAlign>, usize)> {
        self.shape(tokens, 0)
    }

    /// Returns the bytes that a store of the type certainly writes: fewer than its size if padding
    /// follows its bits; `None` if it may have gaps.
    pub fn stored(&self, tokens: &[Token<'a>]) -> Option<u64> {
        match tokens.first()? {
            Token::Word("x86_fp80") => Some(10),
            Token::Word(word) => {
                let bits = word.strip_prefix('i').and_then(|bits| bits.parse::<u64>().ok());
                bits.map(|bits| bits.div_ceil(8)).or_else(|| Some(self.begins(tokens)?.0?.0))
            }
            Token::Mark('<') => match &tokens[1..closing(tokens, 0)?] {
                [Token::Word(count), Token::Word("x"), element @ ..] => {
                    let (bytes, all) = (self.stored(element)?, self.begins(element)?.0?.0);
                    (bytes == all).then_some(bytes)?.checked_mul(count.parse().ok()?)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn shape(&self, tokens: &[Token<'a>], depth: usize) -> Option<(Option<SizeAlign>, usize)> {
        if depth > DEEPEST {
            return None;
        }
        match tokens.first()? {
            Token::Word("ptr") => {
                let space = tokens.get(1) == Some(&Token::Word("addrspace"));
                Some((Some((8, 8)), if space { 5 } else { 1 }))
            }
            Token::Word(word) => Some((scalar(word)?, 1)),
            Token::Local(name) => {
                let body = self.named.get(name).map(Vec::as_slice).unwrap_or_default();
                Some((self.shape(body, depth + 1).and_then(|found| found.0), 1))
            }
            Token::Mark('<') if tokens.get(1) == Some(&Token::Mark('{')) => {
                let end = closing(tokens, 0)?;
                Some((self.fields(&tokens[2..end.checked_sub(1)?], true, depth), end + 1))
            }
            Token::Mark('{') => {
                let end = closing(tokens, 0)?;
                Some((self.fields(&tokens[1..end], false, depth), end + 1))
            }
            Token::Mark(open @ ('[' | '<')) => {
                let end = closing(tokens, 0)?;
                Some((self.repeated(&tokens[1..end], *open == '<', depth), end + 1))
            }
            _ => None,
        }
    }

    fn repeated(&self, inside: &[Token<'a>], vector: bool, depth: usize) -> Option<SizeAlign> {
        let [Token::Word(count), Token::Word("x"), element @ ..] = inside else {
            return None;
        };
        let (bytes, align) = self.shape(element, depth + 1)?.0?;
        let all = bytes.checked_mul(count.parse().ok()?)?;
        Some((all, if vector { all.checked_next_power_of_two()?.max(1) } else { align }))
    }

    fn fields(&self, inside: &[Token<'a>], packed: bool, depth: usize) -> Option<SizeAlign> {
        let (mut end, mut widest) = (0_u64, 1);
        for field in parts(inside) {
            let (bytes, align) = self.shape(field, depth + 1)?.0?;
            let align = if packed { 1 } else { align };
            end = end.checked_next_multiple_of(align)?.checked_add(bytes)?;
            widest = widest.max(align);
        }
        Some((end.checked_next_multiple_of(widest)?, widest))
    }
}

/// Returns the type of a word; the outer `None` if the word is not a type.
fn scalar(word: &str) -> Option<Option<SizeAlign>> {
    let same = |bytes| Some(Some((bytes, bytes)));
    match word {
        "half" | "bfloat" => same(2),
        "float" => same(4),
        "double" => same(8),
        "x86_fp80" | "fp128" | "ppc_fp128" => same(16),
        "void" | "label" | "metadata" | "token" | "opaque" | "x86_amx" => Some(None),
        _ => {
            let bits: u64 = word.strip_prefix('i')?.parse().ok()?;
            let bytes = bits.div_ceil(8).checked_next_power_of_two()?.max(1);
            Some(Some((bits.div_ceil(8).checked_next_multiple_of(bytes.min(16))?, bytes.min(16))))
        }
    }
}
