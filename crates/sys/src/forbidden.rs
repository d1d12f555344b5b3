//! A message for a write to read-only memory, printed before the process dies of it.
//!
//! Invariant: the signal handler makes only system calls that are allowed there, takes no lock and
//! allocates no memory. It restores the previous action and returns: the write is retried, with the
//! effect that it would have had without this module.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A range of read-only addresses.
#[derive(Debug)]
pub struct Forbidden {
    /// The addresses.
    pub addresses: Range<usize>,
    /// The message, with its newline.
    pub line: String,
}

/// Lists that apply together, newest first. Replaced lists are kept, because a thread may be
/// reading one.
struct Lists {
    all: Vec<Forbidden>,
    before: *const Lists,
}

/// The lists that apply now.
static NEWEST: AtomicPtr<Lists> = AtomicPtr::new(std::ptr::null_mut());
/// The signal's previous action.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes a write to these addresses print its message on standard error from now on; earlier lists
/// still apply if `more`. For one thread at a time.
pub fn forbid(all: Vec<Forbidden>, more: bool) {
    let before = if more { NEWEST.load(Ordering::Acquire) } else { std::ptr::null_mut() };
    NEWEST.store(Box::into_raw(Box::new(Lists { all, before })), Ordering::Release);
    if BEFORE.get().is_none() {
        catch();
    }
}

/// Returns the message for an address. Takes no lock and allocates no memory.
fn line_of(at: usize) -> Option<&'static str> {
    let mut next: *const Lists = NEWEST.load(Ordering::Acquire);
    // SAFETY: null, or a published list, which is never freed nor changed.
    while let Some(lists) = unsafe { next.as_ref() } {
        if let Some(found) = lists.all.iter().find(|one| one.addresses.contains(&at)) {
            return Some(&found.line);
        }
        next = lists.before;
    }
    None
}

fn catch() {
    // SAFETY: all zeroes is a valid action, which the fields below complete; `handle` has the
    // signature that SA_SIGINFO requires and does what a handler may.
    unsafe {
        let mut before = std::mem::zeroed::<libc::sigaction>();
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut before) != 0 {
            return;
        }
        let _ = BEFORE.set(before);
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn handle(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    if let Some(line) = line_of(unsafe { (*info).si_addr() }.addr()) {
        // SAFETY: the pointer and length of `line`.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: an action that was in force before.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_newest_lists_that_hold_together() {
        let one = |start: usize, line: &str| {
            vec![Forbidden { addresses: start..start + 10, line: line.to_owned() }]
        };
        forbid(one(100, "a"), false);
        forbid(one(200, "b"), true);
        assert_eq!([100, 109, 110, 205].map(line_of), [Some("a"), Some("a"), None, Some("b")]);
        forbid(one(300, "c"), false);
        assert_eq!([100, 205, 300].map(line_of), [None, None, Some("c")]);
    }
}
