//! Names of signals, for people. Pure: a table.

#![forbid(unsafe_code)]

/// Names and numbers, without `SIG`.
const NAMES: [(&str, i32); 31] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// `SIGKILL`, or `signal 40` where there is no name.
pub fn name(signal: i32) -> String {
    match NAMES.iter().find(|(_, number)| *number == signal) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

/// `KILL`, `SIGKILL` or `9`, in small letters too.
pub fn number(text: &str) -> Option<i32> {
    let text = text.to_ascii_uppercase();
    let bare = text.strip_prefix("SIG").unwrap_or(&text);
    let named = NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number);
    named.or_else(|| bare.parse().ok().filter(|number| NAMES.iter().any(|(_, n)| n == number)))
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
