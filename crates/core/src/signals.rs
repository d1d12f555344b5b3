//! Names of signals, for messages. Pure: a table.

/// Names without `SIG`, from number 1; equal on all Linux machines that this crate is built for.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Returns `SIGKILL`, or `signal 40` for a signal without a name.
pub fn name(signal: i32) -> String {
    let name = usize::try_from(signal - 1).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("signal {signal}"), |name| format!("SIG{name}"))
}

/// Parses `KILL`, `SIGKILL` or `9`, in upper or lower case.
pub fn number(text: &str) -> Option<i32> {
    let text = text.to_ascii_uppercase();
    let bare = text.strip_prefix("SIG").unwrap_or(&text);
    let named = (1..).zip(NAMES).find(|(_, name)| *name == bare).map(|(number, _)| number);
    named.or_else(|| bare.parse().ok().filter(|number| (1..=NAMES.len() as i32).contains(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_the_kernel() {
        assert_eq!([9, 11, 15, 10].map(name), ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGUSR1"]);
        assert_eq!(name(40), "signal 40");
        for text in ["USR1", "SIGUSR1", "sigusr1", "10"] {
            assert_eq!(number(text), Some(10), "{text}");
        }
        for text in ["", "SIG", "NONE", "0", "99", "-1"] {
            assert_eq!(number(text), None, "{text}");
        }
        for signal in 1..32 {
            assert_eq!(number(&name(signal)), Some(signal));
        }
    }
}
