//! Variables in an executable that belong to the run-time library of a profiler: they point to
//! memory of their process, so each process keeps its own.
//!
//! ```text
//! gcov   what libgcov defines; counters and their tables, which the compiler makes for a function
//!        f as local symbols __gcov0.f, __gcov_.f
//! llvm   the sections __llvm_prf_*, and what the profile library defines
//! ```
//!
//! Invariant: a variable that a program can define itself is never among them, whatever its name:
//! libraries' variables are known by their whole name where the library is linked in, and local
//! ones by the file that they are from.
//!
//! Left out: executables without symbols; run-time libraries that are shared, whose variables no
//! checkpoint holds.

use std::ops::Range;

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _};

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

/// A variable or a section of a run-time library, with its addresses in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVariable {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Range<u64>,
}

/// Finds them in the bytes of an executable.
#[must_use]
pub fn variables(bytes: &[u8]) -> Vec<RuntimeVariable> {
    let own = |name: &str, address: u64, len: u64| RuntimeVariable {
        name: name.to_owned(),
        addresses: address..address.saturating_add(len),
    };
    let all = program::read(bytes).variables;
    let has_gcov = all.iter().any(|it| is_of_gcov(&it.file));
    let variables = all.iter().filter(|it| is_owned(it, has_gcov));
    let variables = variables.map(|it| own(&it.name, it.address, it.len));
    let elf = ElfFile64::<LittleEndian>::parse(bytes).ok();
    let sections = elf.iter().flat_map(|elf| elf.sections()).filter_map(|section| {
        let name = section.name().ok().filter(|name| name.starts_with("__llvm_prf_"))?;
        Some(own(name, section.address(), section.size()))
    });
    variables.chain(sections).collect()
}

fn is_owned(variable: &Variable, has_gcov: bool) -> bool {
    let Variable { name, file, .. } = variable;
    let is_of_llvm = file.starts_with("InstrProfiling") || file == "GCDAProfiling.c";
    let is_counter = has_gcov && !file.is_empty() && is_counter(name);
    is_of_gcov(file) || is_of_llvm || is_counter || has_gcov && GCOV.contains(&name.as_str())
}

/// True for a source or an object of libgcov.
fn is_of_gcov(file: &str) -> bool {
    file.starts_with("libgcov-") || file.starts_with("_gcov") && file.ends_with(".o")
}

/// True for `__gcov`, digits or `_`, a dot and the name of a function. A variable of a program that
/// is local to a function has a number after the dot.
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
        for (name, file) in [
            ("__gcov_root", ""),
            ("__gcov4.main", "a.c"),
            ("__gcov_.main", "a.c"),
            ("fn_buffer", "_gcov.o"),
            ("list_sizes.1", "libgcov-driver.c"),
        ] {
            assert!(is_owned(&variable(name, file), true), "{name}");
        }
        for (name, file) in [
            ("__gcov_x", ""),
            ("__gcov_x.0", "a.c"),
            ("__gcov0.1", "a.c"),
            ("__gcov0.main", ""),
            ("fn_buffer", "a.c"),
        ] {
            assert!(!is_owned(&variable(name, file), true), "{name}");
        }
        assert!(!is_owned(&variable("__gcov_root", ""), false));
    }
}
