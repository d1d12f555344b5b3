//! What signals do to this process: what whoever started it wanted, not what libraries would.
//!
//! UCX handles signals of crashes and SIGHUP from the moment it is loaded. What the process began
//! with is remembered before any library's code runs, and put back after all of it and before
//! `main`, by a program that names both functions for the loader.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// One past the last signal that libraries may care about.
const END: i32 = 32;

static AT_START: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

/// Remembers what every signal does: for the section `.preinit_array` of a program.
pub extern "C" fn remember() {
    AT_START
        .get_or_init(|| (1..END).filter_map(|signal| Some((signal, action(signal)?))).collect());
}

/// Lets every signal do that again: for the section `.init_array`.
pub extern "C" fn restore() {
    for (signal, action) in AT_START.get().into_iter().flatten() {
        // SAFETY: the action is one that was in force, of the same process. Of KILL and STOP the
        // kernel refuses even that.
        unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
    }
}

/// True if this process ignores that signal: who started it may have seen to that, as `nohup` does.
pub fn ignores(signal: i32) -> bool {
    action(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

fn action(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: nothing is changed, and where the call succeeds it has filled `action`.
    unsafe {
        let asked = libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        (asked == 0).then(|| action.assume_init())
    }
}
