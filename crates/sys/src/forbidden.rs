//! A line for a write to memory that may only be read, before the process ends by it.
//!
//! Invariant: the handler of the signal makes system calls that are allowed there, takes no lock
//! and no memory. It puts back the action that was there before and returns: the write is tried
//! again, and what happens then is what would have happened without it.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Addresses that may only be read.
#[derive(Debug)]
pub struct Forbidden {
    /// The addresses.
    pub addresses: Range<usize>,
    /// The line, with its end.
    pub line: String,
}

/// Lists that hold together, the newest first. One that was replaced is kept: a thread may be
/// reading it.
struct Lists {
    all: Vec<Forbidden>,
    before: *const Lists,
}

/// What is forbidden now.
static NEWEST: AtomicPtr<Lists> = AtomicPtr::new(std::ptr::null_mut());
/// What the signal did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// From now on a write to one of these addresses has its line on standard error, and one to those
/// that were forbidden before, if they are `more`. One thread at a time.
pub fn forbid(all: Vec<Forbidden>, more: bool) {
    let before = if more { NEWEST.load(Ordering::Acquire) } else { std::ptr::null_mut() };
    NEWEST.store(Box::into_raw(Box::new(Lists { all, before })), Ordering::Release);
    if BEFORE.get().is_none() {
        catch();
    }
}

/// The line of an address. It takes no lock and no memory.
fn line_of(at: usize) -> Option<&'static str> {
    let mut next: *const Lists = NEWEST.load(Ordering::Acquire);
    // SAFETY: null, or a list that was shown, which is never freed nor changed.
    while let Some(lists) = unsafe { next.as_ref() } {
        if let Some(found) = lists.all.iter().find(|one| one.addresses.contains(&at)) {
            return Some(&found.line);
        }
        next = lists.before;
    }
    None
}

fn catch() {
    // SAFETY: all zeroes is a valid action, which the fields below complete; `handle` has the shape
    // that SA_SIGINFO asks for and does what a handler may.
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
    // SAFETY: the kernel gives a valid structure to a handler with SA_SIGINFO.
    if let Some(line) = line_of(unsafe { (*info).si_addr() }.addr()) {
        // SAFETY: as many bytes as the line has.
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
