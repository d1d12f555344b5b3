//! Forks of this process: detection, and private variables for the child.
//!
//! A shared file mapping is shared with a child as well. For some memory that is wrong
//! ([`keep_private`]): a child's variables must be a copy of its parent's.
//!
//! ```text
//! parent   opens a pipe, forks          waits for a byte           continues
//! child              copies the bytes, maps the copy over them, writes the byte, continues
//! ```
//!
//! Invariants: code that was registered after this library was loaded runs in the child only
//! afterwards. The thread that forks writes nothing meanwhile; if the child dies, it continues.
//! Between fork and the end of its handler the child takes no lock, since a thread that exists only
//! in the parent may hold it.
//!
//! Left out: writes by other threads of the parent and by other processes while the child copies,
//! which may or may not be in the copy; `vfork`, `_Fork` and `clone`, which call no handler.

use std::cell::Cell;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use rustix::io::Result;

use crate::memory::{self, Part};

/// A shared mapping of part of a memory file.
#[derive(Debug)]
pub struct SharedPiece {
    /// The memory that it maps.
    pub part: Part,
    /// Its offset in that memory.
    pub offset: usize,
    /// The addresses that it is mapped at.
    pub at: Range<usize>,
}

static FORKED: AtomicBool = AtomicBool::new(false);
static REGISTERED: AtomicBool = AtomicBool::new(false);
static SHARED: OnceLock<Vec<SharedPiece>> = OnceLock::new();
/// True in a child, whose children get copies of its own bytes anyway.
static PRIVATE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The pipe of the fork in progress on this thread.
    static PIPE: Cell<Option<(PipeReader, PipeWriter)>> = const { Cell::new(None) };
}

/// Registers the handlers at load time. A child runs them in the order of registration, so these
/// run before those of the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = register;

extern "C" fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions of that signature, which stay in place and do not unwind.
        let code = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        REGISTERED.store(code == 0, Ordering::SeqCst);
    });
}

/// Starts to record forks.
pub fn note() {
    register();
    FORKED.store(false, Ordering::SeqCst);
}

/// Returns true if the process has called `fork` since [`note`]; a child's writes are not tracked.
/// Children that run another program at once (`posix_spawn`, `system`) do not count.
pub fn has_forked() -> bool {
    FORKED.load(Ordering::SeqCst) || !REGISTERED.load(Ordering::SeqCst)
}

/// Gives each child of this process a copy of these bytes from now on. Only the first call counts.
///
/// # Safety
/// They must stay mapped there as long as the process lives, in whole pages, and in a child between
/// `fork` and its first handler no reference to any of them may exist.
pub unsafe fn keep_private(pieces: Vec<SharedPiece>) {
    register();
    let _ = SHARED.set(pieces);
}

extern "C" fn before() {
    FORKED.store(true, Ordering::SeqCst);
    if !shared().is_empty() {
        // Without a pipe the parent does not wait.
        let _ = PIPE.try_with(|pipe| pipe.set(std::io::pipe().ok()));
    }
}

/// Returns the memory that a child must get a copy of.
fn shared() -> &'static [SharedPiece] {
    let is_private = PRIVATE.load(Ordering::SeqCst);
    SHARED.get().filter(|_| !is_private).map_or(&[], Vec::as_slice)
}

/// Takes the pipe of this fork.
fn pipe() -> Option<(PipeReader, PipeWriter)> {
    PIPE.try_with(Cell::take).ok().flatten()
}

extern "C" fn in_parent() {
    if let Some((mut reader, writer)) = pipe() {
        drop(writer); // so that the end of the child, or a failed fork, ends the wait
        let _ = reader.read_exact(&mut [0]);
    }
}

extern "C" fn in_child() {
    for piece in shared() {
        if let Err(error) = piece.make_private() {
            refuse(&format!("a child of fork gets no memory for its static variables: {error}"));
        }
    }
    PRIVATE.store(true, Ordering::SeqCst);
    if let Some((_reader, mut writer)) = pipe() {
        let _ = writer.write_all(&[1]); // the reader is open here as well: no SIGPIPE
    }
}

impl SharedPiece {
    /// Replaces the mapping with a private copy.
    fn make_private(&self) -> Result<()> {
        // SAFETY: whole mapped pages, to which no reference exists (`keep_private`).
        unsafe { memory::replace(self.at.clone(), |copy| self.part.read_at(self.offset, copy)) }
    }
}

/// Ends this child, which would otherwise write to the variables of its parent.
fn refuse(words: &str) -> ! {
    let line = format!("raidshmem: {words}\n");
    // SAFETY: reads `line` within its length, and ends the process. Avoids Rust's standard error,
    // whose lock a thread of the parent may hold.
    unsafe {
        libc::write(2, line.as_ptr().cast(), line.len());
        libc::_exit(1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use raidshmem_core::page::PAGE;

    use super::*;

    /// Forks, runs `child` in the child and returns its status.
    fn fork(child: impl FnOnce() -> i32) -> i32 {
        let mut status = 0;
        // SAFETY: the child makes only loads, stores and `_exit`.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::_exit(child());
            }
            assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        }
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_fork_is_noted_and_a_child_has_bytes_of_its_own() {
        note();
        fork(|| 0);
        assert!(has_forked());
        let file = Arc::new(memory::create("fork", 4 * PAGE).unwrap());
        let part = Part::new(file, PAGE, 3 * PAGE);
        let map = part.map(PAGE, 2 * PAGE, None, true).unwrap();
        let at = map.base() as usize..map.base() as usize + 2 * PAGE;
        // SAFETY: a mapping that is never unmapped (`forget`), to which no reference exists.
        unsafe { keep_private(vec![SharedPiece { part: part.clone(), offset: PAGE, at }]) };
        let word = map.base().cast::<AtomicBool>();
        std::mem::forget(map);
        // SAFETY: a byte of it, which is used only as an atomic, in either process.
        let byte = unsafe { &*word };
        byte.store(true, Ordering::SeqCst);
        let swap = || i32::from(byte.swap(false, Ordering::SeqCst));
        assert_eq!(fork(swap), 1, "the child has what was there");
        let mut found = [0];
        part.read_at(PAGE, &mut found).unwrap();
        assert_eq!((found, byte.load(Ordering::SeqCst)), ([1], true), "and changes its own copy");
    }
}
