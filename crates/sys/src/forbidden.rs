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

/// What is forbidden now. A list that was replaced is kept: a thread may be reading it.
static TABLE: AtomicPtr<Vec<Forbidden>> = AtomicPtr::new(std::ptr::null_mut());
/// What the signal did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// From now on a write to one of these addresses has its line on standard error. The list before is
/// replaced.
pub fn forbid(all: Vec<Forbidden>) {
    let replaced = TABLE.swap(Box::into_raw(Box::new(all)), Ordering::AcqRel);
    if replaced.is_null() && BEFORE.get().is_none() {
        catch();
    }
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
    // SAFETY: the kernel gives a valid structure to a handler with SA_SIGINFO, and a list that was
    // shown is never freed.
    let (at, all) = unsafe { ((*info).si_addr().addr(), TABLE.load(Ordering::Acquire).as_ref()) };
    let mut all = all.into_iter().flatten();
    if let Some(found) = all.find(|one| one.addresses.contains(&at)) {
        // SAFETY: as many bytes as the line has.
        unsafe { libc::write(2, found.line.as_ptr().cast(), found.line.len()) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: an action that was in force before.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    }
}
