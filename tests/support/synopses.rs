//! Programs of one call of every synopsis: by its symbol, and by its type-generic name.
//!
//! Each call is the body of a function with exactly the parameters and result of the prototype, so
//! a generic name that selects another function causes a compiler warning.

use raidshmem::capi::emit::{self, Signature};

/// The prototype of a routine in the headers: its result type, and its parameters.
pub struct Prototype<'h> {
    returns: &'h str,
    parameters: &'h str,
}

impl Prototype<'_> {
    /// Returns the parameters, one by one; `...` does not count.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        self.parameters.split(", ").filter(|one| !["void", "..."].contains(one))
    }

    fn names(&self) -> String {
        let name = |one: &str| one.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
        self.each().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Returns a function `own` that only calls `name`.
    fn calling(&self, own: &str, name: &str) -> String {
        let (returns, parameters) = (self.returns, self.parameters);
        let back = if returns.ends_with("void ") { "" } else { "return " };
        format!("{returns}{own}({parameters}) {{ {back}{name}({}); }}\n", self.names())
    }
}

/// Finds the prototype of a routine.
pub fn prototype<'h>(symbol: &str, headers: &'h str) -> Prototype<'h> {
    let found = headers.lines().find_map(|line| {
        let at = line.find(&format!("{symbol}("))?;
        let parameters = line[at..].split_once('(')?.1.strip_suffix(");")?;
        let returns = &line[..at];
        returns.ends_with([' ', '*']).then_some(Prototype { returns, parameters })
    });
    found.unwrap_or_else(|| panic!("no prototype of {symbol}"))
}

/// Returns the text of all headers.
pub fn headers() -> String {
    emit::headers().into_iter().map(|(_, text)| text).collect()
}

/// Returns a program that calls every symbol, and every generic name with every type, also on a
/// context.
pub fn program() -> String {
    let headers = headers();
    let mut text = "#include <shmemx.h>\n".to_owned();
    for (number, Signature { symbol, generic, .. }) in emit::signatures().iter().enumerate() {
        let prototype = prototype(symbol, &headers);
        text += &prototype.calling(&format!("named{number}"), symbol);
        if let Some(name) = generic {
            text += &prototype.calling(&format!("generic{number}"), name);
        }
    }
    text + "int sync_on(shmem_team_t team) { return shmem_sync(team); }\n"
}

/// Counts the type-generic names: those of a routine, and `shmem_sync`.
pub fn generic_names() -> usize {
    let names: std::collections::BTreeSet<&str> =
        emit::signatures().iter().filter_map(|signature| signature.generic).collect();
    names.iter().filter(|name| name.starts_with("shmem_")).count() + 1
}

/// Returns the prototypes in a man page's synopsis. Their words are in two fonts, separated by
/// quotes.
pub fn of_page(page: &str) -> Vec<String> {
    let synopsis = page.split(".SH SYNOPSIS").nth(1).and_then(|text| text.split(".SH ").next());
    let lines = synopsis.unwrap_or_default().lines().filter(|line| !line.contains('#'));
    let words = lines.filter_map(|line| line.strip_prefix(".B")?.split_once(' '));
    let text = words.map(|(_, words)| words.replace('"', "")).collect::<Vec<_>>().join(" ");
    text.split_inclusive(';').map(|one| one.trim().to_owned()).collect()
}

/// Returns the prototypes with types in the first column of a document's tables.
pub fn of_tables(document: &str) -> Vec<String> {
    let cells = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let typed = |cell: &&str| cell.split_once('(').is_some_and(|(head, _)| head.contains(' '));
    cells.filter(typed).map(|cell| format!("{cell};")).collect()
}
