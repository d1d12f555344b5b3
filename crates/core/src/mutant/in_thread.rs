//! A rule that is broken in one thread: the model checker breaks those that decisions look up
//! themselves, in any build.

use std::cell::Cell;

thread_local! {
    static BROKEN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the number of the rule that is broken in this thread.
pub fn broken() -> Option<usize> {
    BROKEN.get()
}

/// Breaks the rule of this number in this thread while `act` runs.
pub fn with_broken<R>(rule: Option<usize>, act: impl FnOnce() -> R) -> R {
    let before = BROKEN.replace(rule);
    let result = act();
    BROKEN.set(before);
    result
}
