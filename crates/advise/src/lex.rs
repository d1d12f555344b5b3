//! Tokens of textual IR, and its logical lines: an instruction is one, even if it is broken over
//! several.
//!
//! Left out: all semantics; escapes in names and strings are kept as they are.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// `%name`: a value, a label or a type.
    Local(&'a str),
    /// `@name`
    Global(&'a str),
    /// `!name`, `!12`, or `!` alone.
    Meta(&'a str),
    /// `#12`, `#dbg_declare`
    Hash(&'a str),
    /// A keyword, a number, a name without a sigil.
    Word(&'a str),
    /// The contents of quotation marks.
    Text(&'a str),
    /// Any other character.
    Mark(char),
}

/// Returns the text up to the closing quotation mark, and the rest after it.
fn quoted(text: &str) -> (&str, &str) {
    match text.find('"') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

/// Returns a name, quoted or not, and the rest after it.
fn name(text: &str) -> (&str, &str) {
    if let Some(rest) = text.strip_prefix('"') {
        return quoted(rest);
    }
    let part = |c: char| c.is_ascii_alphanumeric() || "-$._".contains(c);
    text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
}

/// Returns the tokens of one line; a comment ends it.
pub fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let (token, left) = match first {
            ';' => break,
            '%' => named(Token::Local, after),
            '@' => named(Token::Global, after),
            '!' => named(Token::Meta, after),
            '#' => named(Token::Hash, after),
            '"' => {
                let (text, left) = quoted(after);
                (Token::Text(text), left)
            }
            c if c.is_ascii_alphanumeric() || "-$._+".contains(c) => {
                let (word, left) = number_or_name(rest);
                (Token::Word(word), left)
            }
            other => (Token::Mark(other), after),
        };
        found.push(token);
        rest = left.trim_start();
    }
    found
}

fn named<'a>(make: fn(&'a str) -> Token<'a>, after: &'a str) -> (Token<'a>, &'a str) {
    // `!"text"` is a string and no name, but readers of metadata tokens skip both alike.
    let (name, left) = name(after);
    (make(name), left)
}

/// Returns a word, and the rest after it; a number may contain the sign of its exponent.
fn number_or_name(text: &str) -> (&str, &str) {
    let part = |c: char| c.is_ascii_alphanumeric() || "-$._+".contains(c);
    text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
}

/// A logical line: its number in the text, and its tokens.
pub struct Line<'a> {
    /// The line number, from 1.
    pub number: usize,
    /// The tokens, at least one.
    pub tokens: Vec<Token<'a>>,
}

/// Returns the number of brackets still open after the tokens.
fn open(tokens: &[Token<'_>]) -> usize {
    let count = |marks: &str| {
        tokens.iter().filter(|t| matches!(t, Token::Mark(c) if marks.contains(*c))).count()
    };
    count("([{").saturating_sub(count(")]}"))
}

/// Returns true if the tokens continue the instruction of the previous line.
fn goes_on(tokens: &[Token<'_>]) -> bool {
    let follows = ["to", "catch", "filter", "cleanup", "unwind"];
    matches!(tokens.first(), Some(Token::Word(word)) if follows.contains(word))
        && tokens.get(1) != Some(&Token::Mark(':'))
}

/// Returns the logical lines of the body of a function.
pub fn logical<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Line<'a>> {
    let mut found: Vec<Line<'a>> = Vec::new();
    let mut broken = false;
    for (number, line) in lines {
        let tokens = tokens(line);
        if tokens.is_empty() {
            continue;
        }
        match found.last_mut() {
            Some(last) if broken || goes_on(&tokens) => last.tokens.extend(tokens),
            _ => found.push(Line { number, tokens }),
        }
        broken = found.last().is_some_and(|line| open(&line.tokens) > 0);
    }
    found
}

/// Returns the parts between commas that are not inside brackets.
pub fn parts<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{' | '<') => depth += 1,
            Token::Mark(')' | ']' | '}' | '>') => depth = depth.saturating_sub(1),
            Token::Mark(',') if depth == 0 => {
                found.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if from < tokens.len() {
        found.push(&tokens[from..]);
    }
    found
}

/// Returns the index of the bracket that closes the one at `at`.
pub fn closing(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Mark('(' | '[' | '{' | '<') => depth += 1,
            Token::Mark(')' | ']' | '}' | '>') => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}
