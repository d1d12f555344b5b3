//! Debug information: source locations and variables.
//!
//! Nodes are kept as text and parsed on demand. Missing or malformed nodes yield no name and no
//! place, because a program can be read without them.

use std::collections::HashMap;

use crate::ir::{SourceLine, Variable};

/// The metadata nodes of a module by number.
#[derive(Default)]
pub struct Debug<'a> {
    nodes: HashMap<&'a str, &'a str>,
    /// The node of the compilation unit.
    unit: Option<&'a str>,
}

/// Maximum nesting depth of scopes; deeper nesting means that the text is not debug information.
const DEEPEST: usize = 256;

impl<'a> Debug<'a> {
    /// Records a line `!12 = NODE`.
    pub fn define(&mut self, line: &'a str) {
        if let Some((number, node)) = line.trim_start_matches('!').split_once(" = ") {
            self.nodes.insert(number, node);
            if node.contains("!DICompileUnit(") {
                self.unit = Some(number);
            }
        }
    }

    /// Returns a field of a node of the given kind.
    fn field(&self, number: &str, kind: &str, key: &str) -> Option<&'a str> {
        let node = self.nodes.get(number)?;
        let (_, inside) = node.split_once(kind)?.1.split_once('(')?;
        let mut rest = inside;
        loop {
            let (name, value) = rest.split_once(": ")?;
            let (value, after) = match value.strip_prefix('"') {
                Some(text) => text.split_once('"')?,
                None => value.split_at(value.find([',', ')']).unwrap_or(value.len())),
            };
            if name.trim_start_matches([',', ' ']) == key {
                return Some(value);
            }
            rest = after;
        }
    }

    /// Returns the path of a file, relative to where the compiler ran.
    fn path(&self, file: &str) -> Option<String> {
        let name = self.field(file, "DIFile", "filename")?;
        let folder = self.field(file, "DIFile", "directory").unwrap_or_default();
        let unit = self.unit.and_then(|unit| self.field(unit, "DICompileUnit", "file"));
        let home = unit.and_then(|file| self.field(file.strip_prefix('!')?, "DIFile", "directory"));
        let there = name.starts_with('/') || home.is_none_or(|home| home == folder);
        Some(if there { name.to_owned() } else { format!("{folder}/{name}") })
    }

    /// Returns the file of a scope, a variable or a function: its own, or that of the enclosing
    /// scope.
    fn file(&self, number: &str) -> Option<String> {
        let mut number = number;
        for _ in 0..DEEPEST {
            if let Some(file) = self.field(number, "DI", "file") {
                return self.path(file.strip_prefix('!')?);
            }
            number = self.field(number, "DI", "scope")?.strip_prefix('!')?;
        }
        None
    }

    /// Returns the place of a node that has a line.
    pub fn place(&self, number: &str) -> SourceLine {
        let line = self.field(number, "DI", "line").and_then(|line| line.parse().ok());
        let file = self.file(number).unwrap_or_default();
        SourceLine { file, line: line.unwrap_or(0) }
    }

    /// Returns a local variable.
    pub fn variable(&self, number: &str) -> Option<Variable> {
        let name = self.field(number, "DILocalVariable", "name")?.to_owned();
        Some(Variable { name, place: self.place(number) })
    }

    /// Returns a variable outside functions, by the expression at its definition.
    pub fn global(&self, expression: &str) -> Option<Variable> {
        let of = self.field(expression, "DIGlobalVariableExpression", "var")?.strip_prefix('!')?;
        let name = self.field(of, "DIGlobalVariable", "name")?.to_owned();
        Some(Variable { name, place: self.place(of) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_through_the_scopes_round_it() {
        let mut debug = Debug::default();
        for line in [
            "!1 = !DIFile(filename: \"a, b: c.c\", directory: \"/d\")",
            "!2 = distinct !DISubprogram(name: \"f\", scope: !1, file: !1, line: 7)",
            "!3 = distinct !DILexicalBlock(scope: !2, line: 8, column: 3)",
            "!4 = !DILocation(line: 9, column: 5, scope: !3)",
            "!5 = !DILocalVariable(name: \"i\", scope: !3, file: !1, line: 8, type: !6)",
            "!7 = !DILocation(line: 9, scope: !7)",
        ] {
            debug.define(line);
        }
        assert_eq!(debug.place("4"), SourceLine { file: "a, b: c.c".into(), line: 9 });
        let i = debug.variable("5").expect("a variable");
        assert_eq!((i.name.as_str(), i.place.line), ("i", 8));
        assert_eq!(debug.variable("4"), None);
        // A scope that contains itself ends, too.
        assert_eq!(debug.place("7"), SourceLine { file: String::new(), line: 9 });
    }
}
