//! What signals do to this process.

use std::mem::MaybeUninit;

/// True if this process ignores that signal: its parent may have arranged that, as `nohup` does.
pub fn ignores(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed, and where the call succeeds it has filled `action`.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
