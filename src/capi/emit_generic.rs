//! Generation of the type-generic names: `_Generic` macros for C11, overloads for C++.
//!
//! A macro counts its arguments to distinguish the form with a context from the form without, and
//! then selects by the type of the first pointer, read through (`*ptr`), so that `const` and arrays
//! match. A compound literal with commas among the arguments must be put in parentheses. A C type
//! may occur in a `_Generic` only once: of several names for it the first row is used. A name that
//! is a function over one type (`shmem_signal_add`) is only distinguished from its form with a
//! context.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::families::FAMILIES;
use super::family::Family;
use super::prototypes::{parameters, plain, returns, symbols_of};
use super::types;

/// One C type of a generic name: its family, and its name in the type tables.
struct GenericType {
    family: &'static Family,
    name: &'static str,
}

/// Returns the generic names with their entries, each C type once.
fn generics() -> BTreeMap<&'static str, Vec<GenericType>> {
    let mut all: BTreeMap<&str, Vec<GenericType>> = BTreeMap::new();
    for family in FAMILIES.iter().flat_map(|list| list.iter()) {
        let Some(generic) = family.note("generic") else { continue };
        let entries = all.entry(generic).or_default();
        for name in types::set(family.set) {
            let base = types::row(name).base;
            if entries.iter().all(|entry| types::row(entry.name).base != base) {
                entries.push(GenericType { family, name });
            }
        }
    }
    all
}

/// Returns the text below the prototypes.
pub fn generic_names() -> String {
    let mut text = String::from(
        "\n#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n",
    );
    c11(&mut text);
    text.push_str(C11_SYNC);
    text.push_str("\n#elif defined(__cplusplus)\n");
    cxx(&mut text);
    text.push_str(CXX_SYNC);
    text + "\n#endif\n"
}

/// Prints `SHMEMX_PICK_n(arguments, with context, without)`: n arguments are those of the plain
/// form.
fn pick(text: &mut String, plain: usize) {
    let skipped: Vec<String> = (0..=plain).map(|i| format!("a{i}")).collect();
    let _ = writeln!(text, "#define SHMEMX_PICK_{plain}({}, pick, ...) pick", skipped.join(", "));
}

/// Prints the selection by the number of arguments, which are `plain` without a context.
fn by_context(text: &mut String, generic: &str, plain: usize, [ctx, without]: [&str; 2]) {
    let _ = writeln!(
        text,
        "#define {generic}(...) SHMEMX_PICK_{plain}(__VA_ARGS__, {ctx}, {without}, )(__VA_ARGS__)"
    );
}

/// Prints the selection by type among functions; `lead` is an argument before the pointer.
fn selection(text: &mut String, macro_name: &str, entries: &[GenericType], lead: &str) {
    let _ = writeln!(text, "#define {macro_name}({lead}ptr, ...) _Generic(*(ptr), \\");
    for (index, entry) in entries.iter().enumerate() {
        let pre = if lead == CTX { entry.family.ctx } else { entry.family.pre };
        let symbol = format!("{pre}{}{}", entry.name, entry.family.post);
        let end = if index + 1 == entries.len() { ")" } else { "," };
        let _ = writeln!(text, "    {}: {symbol}{end} \\", types::row(entry.name).c);
    }
    let _ = writeln!(text, "    ({lead}ptr, __VA_ARGS__)");
}

/// The arguments before the pointer, in the form with a context and in the collectives.
const CTX: &str = "ctx, ";
const TEAM: &str = "team, ";

/// `shmem_sync` is a C function over an active set, and generic over a team.
const C11_SYNC: &str = r"
#define SHMEMX_PICK_SYNC(a0, a1, a2, a3, pick, ...) pick
#define shmem_sync(...) \
    SHMEMX_PICK_SYNC(__VA_ARGS__, shmem_sync, , , shmem_team_sync, )(__VA_ARGS__)
";
const CXX_SYNC: &str =
    "\nstatic inline int shmem_sync(shmem_team_t team)\n{ return shmem_team_sync(team); }\n";

fn c11(text: &mut String) {
    let all = generics();
    let mut plains: Vec<usize> = all.values().map(|entries| entries[0].family.args.len()).collect();
    plains.sort_unstable();
    plains.dedup();
    plains.into_iter().for_each(|plain| pick(text, plain));
    for (generic, entries) in &all {
        let family = entries[0].family;
        if family.pre == *generic {
            text.push('\n');
            by_context(text, generic, family.args.len(), [family.ctx, family.pre]);
            continue;
        }
        let lead = if plain(family.args[0].1) == "Team" { TEAM } else { "" };
        let chosen = plain(family.args[usize::from(!lead.is_empty())].1);
        assert!(["Sym<T>", "SymIn<T>", "Out<T>"].contains(&chosen.as_str()), "{generic}: {chosen}");
        text.push('\n');
        if family.ctx.is_empty() {
            selection(text, generic, entries, lead);
            continue;
        }
        let (short, plain) = (&generic["shmem_".len()..], family.args.len());
        selection(text, &format!("shmemx_{short}"), entries, lead);
        selection(text, &format!("shmemx_ctx_{short}"), entries, CTX);
        let forms = [format!("shmemx_ctx_{short}"), format!("shmemx_{short}")];
        by_context(text, generic, plain, [&forms[0], &forms[1]]);
    }
}

fn cxx(text: &mut String) {
    let functions: Vec<String> = FAMILIES.iter().copied().flatten().flat_map(symbols_of).collect();
    for (generic, entries) in &generics() {
        text.push('\n');
        for entry in entries {
            for (pre, ctx) in [(entry.family.pre, false), (entry.family.ctx, true)] {
                // `shmem_wait_until(long *, ..)` is a C function, so an overload would duplicate
                // it.
                let is_c = functions.iter().any(|symbol| symbol == generic);
                if pre.is_empty() || (!ctx && is_c && ["long", ""].contains(&entry.name)) {
                    continue;
                }
                let returned = returns(entry.family, entry.name);
                let taken = parameters(entry.family, entry.name, ctx);
                let args = ctx
                    .then_some("ctx")
                    .into_iter()
                    .chain(entry.family.args.iter().map(|(arg, _)| *arg))
                    .collect::<Vec<_>>()
                    .join(", ");
                let symbol = format!("{pre}{}{}", entry.name, entry.family.post);
                let back = if returned == "void" { "" } else { "return " };
                let _ = writeln!(text, "static inline {returned} {generic}({taken})");
                let _ = writeln!(text, "{{ {back}{symbol}({args}); }}");
            }
        }
    }
}
