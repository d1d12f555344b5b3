//! Circles of files: files that need each other, directly or through further files.
//!
//! An edge goes from a file that names an item to the file that defines it. Paths are followed
//! through every `use`, so an item that a parent only re-exports counts for its source file. A
//! parent that declares its children and re-exports them is therefore in no circle, however much
//! the children share through it. A parent that also defines an item that a child names is in one
//! as soon as it names an item of that child: then the shared item belongs in a file below both.
//!
//! Not an edge: the declaration of a module; a module that is imported and not used in a path;
//! names in `#[cfg(test)] mod tests { ... }` inside a file.
//!
//! Left out: methods, macros found by their place in the text, and macro expansions.

use std::collections::{BTreeMap, BTreeSet};

/// The most `use` steps that a path may take.
const HOPS_MAX: usize = 16;

type Names = Vec<String>;

/// The contents of a file that matter for paths.
#[derive(Default)]
struct Module {
    file: String,
    /// The imports of `use`, by their local names.
    aliases: BTreeMap<String, Names>,
    globs: Vec<Names>,
    defined: BTreeSet<String>,
    /// Every path in it, those of `use` first.
    paths: Vec<Names>,
}

/// The modules of a crate by their paths.
struct Crate(BTreeMap<Names, Module>);

/// Returns the circles among the files of one crate, each with the edges inside it.
///
/// `files` are paths from the folder of the crate's `lib.rs`, with their code, comments blanked.
pub fn circles(files: &[(String, String)]) -> Vec<Circle> {
    let modules = files.iter().map(|(path, code)| (module_path(path), module(path, code)));
    let edges = Crate(modules.collect()).edges();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        files.iter().map(|(path, _)| (path.as_str(), reachable(&edges, path))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (&file, from_here) in &reached {
        let mutual = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<&str> = from_here.iter().filter(mutual).copied().collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    let circle = |files: BTreeSet<&str>| {
        let inside = edges
            .iter()
            .filter(|(from, to, _)| files.contains(from.as_str()) && files.contains(to.as_str()));
        Circle {
            edges: inside.map(|(from, to, item)| format!("{from} -> {to}: {item}")).collect(),
            files: files.into_iter().map(str::to_owned).collect(),
        }
    };
    found.into_iter().map(circle).collect()
}

/// A circle: files that need each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    pub files: Vec<String>,
    pub edges: Vec<String>,
}

type Edges = BTreeSet<(String, String, String)>;

fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        let next = edges.iter().filter(|(from, _, _)| from == file).map(|(_, to, _)| to.as_str());
        open.extend(next.filter(|to| seen.insert(*to)));
    }
    seen
}

fn module_path(file: &str) -> Names {
    let names = file.trim_end_matches(".rs").trim_end_matches("/mod");
    names.split('/').filter(|name| *name != "lib").map(str::to_owned).collect()
}

impl Crate {
    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (own, module) in &self.0 {
            for path in &module.paths {
                let Some(path) = self.absolute(own, path, 0) else { continue };
                for (file, item) in self.homes(&path, 0) {
                    if file != module.file {
                        edges.insert((module.file.clone(), file, item));
                    }
                }
            }
        }
        edges
    }

    /// Resolves `path`, as written in the module `own`, from the root of the crate; `None` if it
    /// leaves it.
    fn absolute(&self, own: &[String], path: &[String], hops: usize) -> Option<Names> {
        let is_up = |name: &&String| ["self", "super"].contains(&name.as_str());
        let (up, rest) = path.split_at(path.iter().take_while(is_up).count());
        if !up.is_empty() {
            let levels = up.iter().filter(|name| *name == "super").count();
            return Some([&own[..own.len().checked_sub(levels)?], rest].concat());
        }
        let (first, rest) = path.split_first()?;
        if first == "crate" {
            return Some(rest.to_vec());
        }
        let child = [own, &path[..1]].concat();
        if self.0.contains_key(&child) {
            return Some([&child, rest].concat());
        }
        let alias = self.0.get(own)?.aliases.get(first)?;
        if hops > HOPS_MAX || alias.first() == Some(first) {
            return None; // the name of another crate
        }
        Some([&self.absolute(own, alias, hops + 1)?, rest].concat())
    }

    /// Returns the files that define the items named by `path`, each with the item's name.
    fn homes(&self, path: &[String], hops: usize) -> Vec<(String, String)> {
        let depth = (0..=path.len()).rev().find(|&end| self.0.contains_key(&path[..end]));
        let Some((own, rest)) = depth.map(|end| path.split_at(end)) else { return Vec::new() };
        let (module, Some(name)) = (&self.0[own], rest.first()) else { return Vec::new() };
        let here = |name: &str| vec![(module.file.clone(), name.to_owned())];
        if hops > HOPS_MAX {
            return Vec::new();
        }
        if name == "*" {
            let passed = module.aliases.values().filter_map(|path| self.absolute(own, path, 0));
            let passed = passed.flat_map(|path| self.homes(&path, hops + 1));
            return here(name).into_iter().chain(passed).collect();
        }
        if let Some(alias) = module.aliases.get(name) {
            return match self.absolute(own, alias, 0) {
                Some(passed_on) if passed_on != path => self.homes(&passed_on, hops + 1),
                Some(_) => here(name), // a module inside the file names items of the file
                None => Vec::new(),
            };
        }
        let mut through = module.globs.iter().filter_map(|path| self.absolute(own, path, 0));
        let defines = |path: &Names| self.0.get(path).is_some_and(|m| m.defined.contains(name));
        match through.find(defines).filter(|_| !module.defined.contains(name)) {
            Some(path) => vec![(self.0[&path].file.clone(), name.clone())],
            None => here(name),
        }
    }
}

// ---- reading ------------------------------------------------------------------------------------

/// Splits code into words and signs; `::` is one sign.
fn tokens(code: &str) -> Vec<&str> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if part(first) => rest.find(|c| !part(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        found.push(token);
        rest = after.trim_start();
    }
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn module(file: &str, code: &str) -> Module {
    let tokens = tokens(code);
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    // The depths at which modules inside the file end.
    let (mut depth, mut inner, mut at) = (0, Vec::new(), 0);
    while at < tokens.len() {
        let next = tokens.get(at + 1).copied().unwrap_or_default();
        let after = tokens.get(at + 2).copied().unwrap_or_default();
        match tokens[at] {
            "mod" if after == "{" && next == "tests" => at = block_end(&tokens, at + 2),
            "mod" if after == "{" => inner.push(depth),
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inner.retain(|&end| end < depth);
            }
            "use" => at = use_tree(&tokens, at + 1, &Names::new(), &mut module, inner.len()),
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                module.defined.insert(next.to_owned());
            }
            "macro_rules" => drop(module.defined.insert(after.to_owned())),
            name if is_name(name) && next == "::" && (at == 0 || tokens[at - 1] != "::") => {
                let mut path = vec![name.to_owned()];
                while tokens.get(at + 1) == Some(&"::") && is_name(tokens[at + 2]) {
                    path.push(tokens[at + 2].to_owned());
                    at += 2;
                }
                module.paths.push(outside(path, inner.len()));
            }
            _ => {}
        }
        at += 1;
    }
    module
}

/// Returns the position of the `}` for the `{` at `open`.
fn block_end(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// Rewrites a path in a module inside a file as it would be written in the file.
fn outside(mut path: Names, inner: usize) -> Names {
    for _ in 0..inner {
        if path.first().is_some_and(|name| name == "super") {
            path[0] = "self".into();
            if path.get(1).is_some_and(|name| name == "super") {
                path.remove(0);
            }
        }
    }
    path
}

/// Reads one branch of a `use`; returns its end.
fn use_tree(
    tokens: &[&str],
    mut at: usize,
    prefix: &[String],
    module: &mut Module,
    inner: usize,
) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    loop {
        match tokens.get(at).copied().unwrap_or(";") {
            "{" => {
                while !matches!(tokens.get(at), None | Some(&"}")) {
                    at = use_tree(tokens, at + 1, &path, module, inner);
                }
                return at + 1;
            }
            "," | "}" | ";" => break,
            "as" => {
                name = tokens.get(at + 1).map(|name| name.to_string());
                at += 1;
            }
            "self" if !prefix.is_empty() => {}
            "::" => {}
            token => path.push(token.to_owned()),
        }
        at += 1;
    }
    let path = outside(path, inner);
    if let Some(last) = path.last() {
        match last.as_str() {
            "*" => module.globs.push(path[..path.len() - 1].to_vec()),
            last => {
                module.aliases.insert(name.unwrap_or(last.to_owned()), path.clone());
            }
        }
        module.paths.push(path);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<(String, String)> =
            files.iter().map(|(path, code)| (path.to_string(), code.to_string())).collect();
        circles(&files).into_iter().map(|circle| circle.files).collect()
    }

    #[test]
    fn files_that_name_each_other_are_found() {
        let b = ("b.rs", "fn f() { crate::a::g() }");
        assert_eq!(found(&[("a.rs", "use super::b::f;"), b]), [["a.rs", "b.rs"]]);
        assert_eq!(found(&[("a.rs", "use crate::{x, b};\nfn g() { b::f() }"), b]).len(), 1);
        assert_eq!(found(&[("a.rs", "use crate::b::{self as c}; fn g() { c::f() }"), b]).len(), 1);
        assert_eq!(found(&[("a.rs", "use crate::b::*;"), b]).len(), 1);
        assert!(found(&[("a.rs", "use crate::b;"), b]).is_empty(), "no path through it");
        assert!(found(&[("a.rs", "mod tests { use crate::b::f; }"), b]).is_empty());
        assert!(found(&[("a.rs", "use b::f;"), b]).is_empty(), "another crate");
    }

    #[test]
    fn circles_are_found_however_long() {
        let files = [
            ("a/mod.rs", "mod b; mod c; mod d;"),
            ("a/b.rs", "use super::c::C;"),
            ("a/c.rs", "struct C(super::d::D);"),
            ("a/d.rs", "fn f() { super::super::a::b::g() }"),
            ("e.rs", "use crate::a::b::g;"),
        ];
        assert_eq!(found(&files), [["a/b.rs", "a/c.rs", "a/d.rs"]]);
    }

    #[test]
    fn a_parent_that_only_passes_on_is_in_none_and_one_that_defines_is() {
        let child = [("a/b.rs", "use super::C; struct B(C);"), ("a/c.rs", "struct C;")];
        let passes_on = ("a/mod.rs", "mod b; mod c; pub use b::B; use c::C;");
        assert!(found(&[passes_on, child[0], child[1]]).is_empty());
        let defines = ("a/mod.rs", "mod b; pub use b::B; struct C;");
        assert_eq!(found(&[defines, child[0]]), [["a/b.rs", "a/mod.rs"]]);
    }

    #[test]
    fn modules_inside_a_file_are_the_file() {
        let b = ("b.rs", "use crate::a::A;");
        let inner = "struct A; mod inner { use super::A; fn f() { super::super::b::B } }";
        assert_eq!(found(&[("a.rs", inner), b]), [["a.rs", "b.rs"]]);
        let own = "struct A; mod inner { fn f() { super::b::B } } use crate::c::b;";
        assert!(found(&[("a.rs", own), b, ("c.rs", "fn b() {}")]).is_empty());
    }
}
