//! Variables in an executable that belong to the run-time library of a profiler: they point to
//! memory of their process, so each process keeps its own.
//!
//! ```text
//! gcov   symbols of libgcov; counters and their tables, which the compiler emits for a function f
//!        as local symbols __gcov0.f, __gcov_.f
//! llvm   the sections __llvm_prf_*, and symbols of the profile library
//! ```
//!
//! Invariant: a variable that a program can define itself is never among them, whatever its name:
//! a library's global variables are matched by their full names, if the library is linked in, and
//! local ones by the file that they are from.
//!
//! Left out: executables without symbols; shared run-time libraries, whose variables are in no
//! checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;

use memchr::memmem::find;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, ReadRef,
    SymbolKind,
};

use crate::program::{self, Variable};

/// Global variables of libgcov.
const GCOV: [&str; 9] = [
    "__gcov_error_file",
    "__gcov_kvp_dynamic_pool",
    "__gcov_kvp_dynamic_pool_index",
    "__gcov_kvp_dynamic_pool_size",
    "__gcov_kvp_pool",
    "__gcov_master",
    "__gcov_root",
    "__gcov_time_profiler_counter",
    "__gcov_var",
];

/// Global variables of LLVM's profile library, by the source that defines them.
const LLVM: [(&str, &[&str]); 8] = [
    ("GCDAProfiling.c", &["reset_fn_list", "writeout_fn_list"]),
    ("InstrProfilingFile.c", &["__llvm_profile_counter_bias"]),
    ("InstrProfilingMerge.c", &["VPMergeHook"]),
    ("InstrProfilingPlatformLinux.c", &["CurrentVNode", "EndVNode"]),
    ("InstrProfilingRuntime.cpp", &["__llvm_profile_runtime"]),
    ("InstrProfilingUtil.c", &["lprofDirMode"]),
    ("InstrProfilingValue.c", &["VPMaxNumValsPerSite", "lprofValueProfNodes"]),
    ("InstrProfilingWriter.c", &["DynamicBufferIOBuffer", "FreeHook", "VPBufferSize"]),
];

/// A variable or a section of a run-time library, with its addresses in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVariable {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Range<u64>,
}

/// Returns true if such a library may be linked into an executable, by the names of its sections
/// and symbols. It reads little more than these names.
#[must_use]
pub fn may_be_in(executable: File) -> bool {
    names_one(&ReadCache::new(executable))
}

fn names_one<'a>(data: impl ReadRef<'a>) -> bool {
    let Ok(elf) = ElfFile64::<LittleEndian, _>::parse(data) else { return false };
    let has_sections = elf.sections().any(|it| it.name().is_ok_and(is_section_of_llvm));
    let names = || elf.section_by_name(".strtab").and_then(|names| names.data().ok());
    let is_named =
        |names: &[u8]| find(names, b"gcov_").is_some() || find(names, b"__llvm_profile_").is_some();
    has_sections || names().is_some_and(is_named)
}

fn is_section_of_llvm(name: &str) -> bool {
    name.starts_with("__llvm_prf_")
}

/// Returns the names of variables for display: each once, in order. Counters, which each function
/// has, appear without their functions.
#[must_use]
pub fn names(variables: &[RuntimeVariable]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for RuntimeVariable { name, .. } in variables {
        let kind = name.split('.').next().unwrap_or(name);
        *kinds.entry(kind).or_default() += 1;
    }
    let named = kinds.into_iter().map(|(kind, count)| match count {
        1 => kind.to_owned(),
        _ => format!("{kind} ({count})"),
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Finds these variables in the bytes of an executable.
#[must_use]
pub fn variables(bytes: &[u8]) -> Vec<RuntimeVariable> {
    let own = |name: &str, address: u64, len: u64| RuntimeVariable {
        name: name.to_owned(),
        addresses: address..address.saturating_add(len),
    };
    let Ok(elf) = ElfFile64::<LittleEndian>::parse(bytes) else { return Vec::new() };
    let sources = elf.symbols().filter(|it| it.kind() == SymbolKind::File);
    let sources: BTreeSet<&str> = sources.filter_map(|it| it.name().ok().map(source)).collect();
    let all = program::read(bytes).variables;
    let variables = all.iter().filter(|it| is_owned(it, &sources));
    let variables = variables.map(|it| own(&it.name, it.address, it.len));
    let sections = elf.sections().filter_map(|section| {
        let name = section.name().ok().filter(|name| is_section_of_llvm(name))?;
        Some(own(name, section.address(), section.size()))
    });
    variables.chain(sections).collect()
}

/// Returns the name of a source; an object's name may represent it.
fn source(file: &str) -> &str {
    file.strip_suffix(".o").filter(|it| it.contains('.')).unwrap_or(file)
}

/// Returns true for a variable of a run-time library, in a program that is made from `sources`.
fn is_owned(variable: &Variable, sources: &BTreeSet<&str>) -> bool {
    let (name, file) = (variable.name.as_str(), source(&variable.file));
    let is_of_llvm = file.starts_with("InstrProfiling") || file == "GCDAProfiling.c";
    let mut globals = LLVM.iter().filter(|(source, _)| sources.contains(source));
    let is_known = file.is_empty() && globals.any(|(_, names)| names.contains(&name));
    let has_gcov = sources.iter().any(|it| is_of_gcov(it));
    let is_counter = has_gcov && !file.is_empty() && is_counter(name);
    let is_global = has_gcov && GCOV.contains(&name);
    is_of_gcov(file) || is_of_llvm || is_known || is_counter || is_global
}

/// Returns true for a source or an object of libgcov.
fn is_of_gcov(file: &str) -> bool {
    file.starts_with("libgcov-") || file.starts_with("_gcov") && file.ends_with(".o")
}

/// Returns true for `__gcov`, digits or `_`, a dot and the name of a function. A program's own
/// variable that is local to a function has a number after the dot.
fn is_counter(name: &str) -> bool {
    let Some((kind, function)) = name.strip_prefix("__gcov").and_then(|it| it.split_once('.'))
    else {
        return false;
    };
    let is_kind = kind == "_" || !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_digit());
    is_kind && function.starts_with(|first: char| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_theirs() {
        let variable = |name: &str, file: &str| Variable {
            name: name.into(),
            file: file.into(),
            address: 0,
            len: 8,
        };
        let both = BTreeSet::from(["_gcov.o", "InstrProfilingPlatformLinux.c", "a.c"]);
        for (name, file) in [
            ("__gcov_root", ""),
            ("__gcov4.main", "a.c"),
            ("__gcov_.main", "a.c"),
            ("fn_buffer", "_gcov.o"),
            ("list_sizes.1", "libgcov-driver.c"),
            ("CurrentVNode", ""),
            ("lprofCurFilename", "InstrProfilingFile.c.o"),
            ("write_buffer", "GCDAProfiling.c"),
        ] {
            assert!(is_owned(&variable(name, file), &both), "{name}");
        }
        for (name, file) in [
            ("__gcov_x", ""),
            ("__gcov_x.0", "a.c"),
            ("__gcov0.1", "a.c"),
            ("__gcov0.main", ""),
            ("fn_buffer", "a.c"),
            ("FreeHook", ""),
            ("CurrentVNode", "a.c"),
        ] {
            assert!(!is_owned(&variable(name, file), &both), "{name}");
        }
        for name in ["__gcov_root", "CurrentVNode"] {
            assert!(!is_owned(&variable(name, ""), &BTreeSet::from(["a.c"])), "{name}");
        }
    }

    #[test]
    fn names_are_listed_once_with_their_counts() {
        let all = ["__gcov0.main", "__gcov_root", "__gcov0.next", "list_sizes.1"];
        let all = all.map(|name| RuntimeVariable { name: name.into(), addresses: 0..8 });
        assert_eq!(names(&all), "__gcov0 (2), __gcov_root, list_sizes");
    }

    #[test]
    fn a_file_is_searched_by_name() {
        let own = std::env::current_exe().expect("a program");
        let bytes = std::fs::read(&own).expect("its bytes");
        // These tests name functions of gcov, and the symbol table contains their names.
        let there = find(&bytes, b"gcov_").is_some();
        assert_eq!(may_be_in(File::open(&own).expect("a file")), names_one(&bytes[..]));
        assert!(there && !names_one(&b"#!/bin/sh gcov_"[..]));
        for cut in (0..bytes.len()).step_by(bytes.len() / 50 + 1) {
            names_one(&bytes[..cut]);
        }
    }
}
