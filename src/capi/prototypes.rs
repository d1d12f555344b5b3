//! The C spelling of a family: its symbols, parameters and return types.
//!
//! A Rust type in a signature becomes its C spelling by `c_type`, which rejects unknown types.

use super::family::Family;
use super::types;

/// Returns the symbols of a family, without the `p` twins.
pub fn symbols_of(family: &Family) -> Vec<String> {
    let names = types::set(family.set);
    [family.pre, family.ctx]
        .iter()
        .filter(|pre| !pre.is_empty())
        .flat_map(|pre| names.iter().map(move |name| format!("{pre}{name}{}", family.post)))
        .collect()
}

/// Normalizes a Rust type: macros leave blanks between its tokens.
pub fn plain(rust: &str) -> String {
    let words: Vec<&str> = rust.split_whitespace().collect();
    words.join(" ").replace(" <", "<").replace("< ", "<").replace(" >", ">").replace("* ", "*")
}

/// Returns the C spelling of a parameter type, including the `*`; `element` replaces `T`.
fn c_type(rust: &str, element: &str) -> String {
    let rust = plain(rust);
    if let Some(inner) = rust.strip_suffix('>') {
        let (claim, inner) = inner.split_once('<').expect("a claim has an opening bracket");
        let inner = if inner == "u8" { "void".into() } else { c_type(inner, element) };
        let star = if inner.ends_with('*') { "" } else { " " };
        return match claim {
            "In" | "SymIn" => format!("const {inner}{star}*"),
            "Out" | "Sym" => format!("{inner}{star}*"),
            _ => panic!("no C spelling for the claim {claim}"),
        };
    }
    match rust.as_str() {
        "T" => element,
        "" | "c_void" => "void",
        "c_int" => "int",
        "c_long" => "long",
        "c_char" => "char",
        "usize" => "size_t",
        "isize" => "ptrdiff_t",
        "u64" => "uint64_t",
        "Ctx" => "shmem_ctx_t",
        "Team" => "shmem_team_t",
        "Handler" => "shmemx_ft_handler_t",
        "CheckpointCall" => "shmemx_ft_call_t",
        "TeamConfig" => "shmem_team_config_t",
        "SessionConfig" => "shmem_ctx_session_config_t",
        "*mut u8" => "void *",
        "*mut c_int" => "int *",
        "*const c_char" => "const char *",
        _ => panic!("no C spelling for {rust}"),
    }
    .into()
}

/// Returns `type name`, with a star next to the name.
pub fn declare(c_type: &str, name: &str) -> String {
    if c_type.ends_with('*') { format!("{c_type}{name}") } else { format!("{c_type} {name}") }
}

/// Returns the parameters of one function of a family.
pub fn parameters(family: &Family, name: &str, ctx: bool) -> String {
    let element = types::row(name).c;
    let ctx = ctx.then(|| "shmem_ctx_t ctx".to_owned());
    let own = family.args.iter().map(|(arg, ty)| declare(&c_type(ty, element), arg));
    let mut all: Vec<String> = ctx.into_iter().chain(own).collect();
    if family.note("variadic").is_some() {
        all.push("...".into());
    }
    if all.is_empty() { "void".into() } else { all.join(", ") }
}

/// Returns the return type of one function of a family.
pub fn returns(family: &Family, name: &str) -> String {
    c_type(family.ret, types::row(name).c)
}
