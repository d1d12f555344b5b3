//! Generates the per-type files of the conformance programs from the specification's symbols.
//!
//! - `types.h`: for each set a list of its types, `#define TYPES_RMA(X) X(float, float) ...`;
//! - `each_<set>.h`: includes the file `BODY` once for each type, with `NAME`, `TYPE` and `UNIT`;
//! - `trampolines.s`: every function, which records its call and continues in its twin.
//!
//! A set's types are found through one family of functions: the names that match `{T}` in
//! `shmem_{T}_put`.

use std::fmt::Write;
use std::path::Path;

const SPECIFICATION: &str = include_str!("../spec/openshmem-1.6-symbols.txt");

/// Bytes for records: one for each symbol, rounded up to a page.
pub const NOTES_LEN: usize = 4096;

/// A set and a family that has it: before and after the type's name.
const SETS: &[(&str, &str, &str)] = &[
    ("RMA", "shmem_", "_put"),
    ("SIZES", "shmem_ibput", ""),
    ("EXT", "shmem_", "_atomic_swap"),
    ("AMO", "shmem_", "_atomic_inc"),
    ("BIT", "shmem_", "_atomic_xor"),
    ("P2P", "shmem_", "_wait_until"),
    ("SUM", "shmem_", "_sum_reduce"),
    ("AND", "shmem_", "_and_reduce"),
    ("SETS", "shmem_fcollect", ""),
    ("OLDEXT", "shmem_", "_set"),
    ("OLDAMO", "shmem_", "_finc"),
    ("OLDWAIT", "shmem_", "_wait"),
    ("OLDAND", "shmem_", "_and_to_all"),
    ("OLDMAX", "shmem_", "_max_to_all"),
    ("OLDSUM", "shmem_", "_sum_to_all"),
];

/// C spellings of types; the sizes are integers of that many bits.
const SPELLINGS: &[(&str, &str)] = &[
    ("longdouble", "long double"),
    ("schar", "signed char"),
    ("longlong", "long long"),
    ("uchar", "unsigned char"),
    ("ushort", "unsigned short"),
    ("uint", "unsigned int"),
    ("ulong", "unsigned long"),
    ("ulonglong", "unsigned long long"),
    ("complexd", "double _Complex"),
    ("complexf", "float _Complex"),
    ("128", "unsigned __int128"),
];

fn spelling(name: &str) -> String {
    if let Some((_, c)) = SPELLINGS.iter().find(|(known, _)| *known == name) {
        return (*c).to_owned();
    }
    match name {
        "8" | "16" | "32" | "64" => format!("uint{name}_t"),
        "float" | "double" | "char" | "short" | "int" | "long" => name.to_owned(),
        _ => format!("{name}_t"),
    }
}

/// Returns every function of the specification.
pub fn symbols() -> Vec<&'static str> {
    SPECIFICATION.lines().filter(|line| !line.is_empty()).collect()
}

/// Returns the types for which a family has a function.
fn types(symbols: &[&'static str], before: &str, after: &str) -> Vec<&'static str> {
    let name = |symbol: &&'static str| symbol.strip_prefix(before)?.strip_suffix(after);
    let plain = |name: &&str| {
        let size = name.starts_with(|c: char| c.is_ascii_digit());
        !name.contains('_') && (size == after.is_empty()) && !["", "signal"].contains(name)
    };
    symbols.iter().filter_map(name).filter(plain).collect()
}

fn trampolines(symbols: &[&str]) -> String {
    let mut text = "\t.section .note.GNU-stack,\"\",@progbits\n\t.text\n".to_owned();
    for (number, symbol) in symbols.iter().enumerate() {
        let _ = write!(
            text,
            "\t.globl {symbol}\n\t.type {symbol}, @function\n{symbol}:\n\
             \tmovq called(%rip), %r11\n\tmovb $1, {number}(%r11)\n\
             \tjmp *p{symbol}@GOTPCREL(%rip)\n"
        );
    }
    text
}

/// Writes all files.
pub fn write(folder: &Path, symbols: &[&'static str]) {
    assert!(symbols.len() <= NOTES_LEN, "{} notes", symbols.len());
    std::fs::create_dir_all(folder).expect("a folder for what is generated");
    let save = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("it can be written");
    };
    let mut lists = String::new();
    for (set, before, after) in SETS {
        let (mut list, mut each) = (String::new(), String::new());
        let types = types(symbols, before, after);
        assert!(!types.is_empty(), "no types for {before}*{after}");
        for name in types {
            let c = spelling(name);
            let unit = if c.contains("_Complex") { "(1 + 2 * I)" } else { "1" };
            let _ = write!(list, " X({name}, {c})");
            let _ = write!(
                each,
                "#define NAME {name}\n#define TYPE {c}\n#define UNIT {unit}\n#include BODY\n\
                 #undef NAME\n#undef TYPE\n#undef UNIT\n"
            );
        }
        let _ = writeln!(lists, "#define TYPES_{set}(X){list}");
        save(&format!("each_{set}.h"), &each);
    }
    save("types.h", &lists);
    save("trampolines.s", &trampolines(symbols));
}
