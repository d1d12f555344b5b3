// The layouts and values committed in ucx-sys, rdma-sys and ofi-sys, as a C program that does not
// compile if they differ from this machine's headers: for `tests/bindings.rs`.

/// Converts numbers that the Rust compiler checks in `text` to checks by the C compiler.
///
/// `["Size of ibv_sge"][size_of::<ibv_sge>() - 16usize];` becomes `_Static_assert(sizeof(struct
/// ibv_sge) == 16, ...)`; offsets of fields and constants likewise. Structures in `grow` may be
/// longer in a newer header: the library receives their length, or the set of valid fields, from
/// the caller.
fn claims(text: &str, grow: &[&str]) -> Vec<String> {
    let holds = |claim: String| format!("_Static_assert({claim}, \"differs: {claim}\");");
    let layouts = text.split("[\"").skip(1).filter_map(|piece| {
        let (what, rest) = piece.split_once("\"]")?;
        let number = rest.split_once("usize]")?.0.rsplit_once("- ")?.1;
        if let Some(name) = what.strip_prefix("Size of ") {
            let relation = if grow.contains(&name) { ">=" } else { "==" };
            return Some(format!("sizeof({}) {relation} {number}", in_c(text, name)?));
        }
        let (name, field) = what.split_once(": ")?.1.split_once("::")?;
        let (of, from) = (in_c(text, name)?, format!("offsetof({}, {field})", in_c(text, name)?));
        match what.starts_with("From the end") {
            true => Some(format!("sizeof({of}) - {from} == {number}")),
            false if field.starts_with("__bindgen") => None,
            false => Some(format!("{from} == {number}")),
        }
    });
    let constants = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix("pub const ")?.split_once(": ")?;
        let value = rest.split_once(" = ")?.1.trim_end_matches(';');
        let value = value.rsplit_once('(').map_or(value, |(_, value)| value.trim_end_matches(')'));
        // A newer library supports the interface of an older one.
        (name != "UCP_API_MINOR").then(|| format!("{name} == {value}"))
    });
    let numbers = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub type ")?.split_once(" = ::std::os::raw::c_")?;
        let bytes = match rest.trim_end_matches(';') {
            "schar" => "1",
            "int" | "uint" => "4",
            _ => return None,
        };
        name.ends_with("_t").then(|| format!("sizeof({name}) == {bytes}"))
    });
    layouts.chain(constants).chain(numbers).map(holds).collect()
}

/// Returns the C name of a type; `None` if it has no name there.
fn in_c(text: &str, name: &str) -> Option<String> {
    let unnamed = name.contains("__bindgen");
    let kind = if text.contains(&format!("pub union {name} ")) { "union " } else { "struct " };
    (!unnamed).then(|| if name.ends_with("_t") { name.into() } else { format!("{kind}{name}") })
}

/// Returns the program for all `texts` together.
fn program(header: &str, texts: &[&str], grow: &[&str]) -> String {
    let claims: Vec<String> = texts.iter().flat_map(|text| claims(text, grow)).collect();
    format!("#include <stddef.h>\n#include <{header}>\n{}\n", claims.join("\n"))
}
