//! Memory that a program declares as scratch, which is not reported as private state.
//!
//! A comment declares it, in the file of its declaration or allocation, by the name of the variable
//! or of a pointer to it: `/* oshadvise: scratch row, column */`.
//!
//! Left out: proof that the program writes it before reading it again; the comment asserts that.

use std::collections::BTreeSet;

use crate::report::Item;

/// The words before the names in a comment.
const MARK: &str = "oshadvise: scratch ";

/// Names of scratch memory, by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scratch(BTreeSet<(String, String)>);

impl Scratch {
    /// Adds the names that the comments of a file declare.
    pub fn add(&mut self, file: &str, text: &str) {
        let lists = text.lines().flat_map(|line| line.split(MARK).skip(1));
        let lists = lists.map(|rest| rest.split("*/").next().unwrap_or_default());
        let names = lists.flat_map(|list| list.split([',', ' '])).filter(|name| !name.is_empty());
        self.0.extend(names.map(|name| (file.to_owned(), name.to_owned())));
    }

    /// Returns true if memory is declared as scratch, under any of its names.
    #[must_use]
    pub fn has(&self, item: &Item) -> bool {
        let file = &item.place.file;
        item.name.split(", ").any(|name| self.0.contains(&(file.clone(), name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::SourceLine;

    #[test]
    fn a_comment_names_what_is_scratch_in_its_file() {
        let mut scratch = Scratch::default();
        scratch
            .add("a.c", "int a; /* oshadvise: scratch a, b */ int c;\n// oshadvise: scratch d\n");
        let item = |file: &str, name: &str| Item {
            name: name.to_owned(),
            storage: "local".to_owned(),
            place: SourceLine { file: file.to_owned(), line: 1 },
            bytes: None,
        };
        for name in ["a", "b", "d", "x, b"] {
            assert!(scratch.has(&item("a.c", name)), "{name}");
            assert!(!scratch.has(&item("b.c", name)), "{name}");
        }
        for name in ["c", "int", "scratch", "", "ab"] {
            assert!(!scratch.has(&item("a.c", name)), "{name}");
        }
    }
}
