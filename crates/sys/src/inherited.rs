//! Inherited process state: our processes set what they rely on, and pass the user's original state
//! on to the processes that they start.
//!
//! The only place for signal dispositions and masks, the umask and limits: [`begin`] is the first
//! call of each of our programs, and [`hand_down`] runs between the fork and the exec of whatever
//! [`Process::start`](crate::process::Process::start) starts. So launcher, supervisor, agent and
//! program start with equal state, and none of it travels in messages.
//!
//! Left out: descriptors 0, 1 and 2, which Rust's runtime opens before `main` if they are closed;
//! [`open_standard_descriptors`] does that for a program without that runtime. The locale, which
//! none of our processes sets.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use crate::is_open;

/// Limits that a user sets for a program, but that our own processes would hit: they have several
/// open files for each PE. The limit on file size stays: it also applies to the memory file of a
/// node, and a PE could not use a larger one.
const RAISED: [Resource; 4] = [Resource::Nofile, Resource::Cpu, Resource::As, Resource::Data];

/// All possible signals.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// The state of a process at its start.
struct Inherited {
    /// Bit `n - 1` is for signal `n`.
    ignored: u64,
    blocked: libc::sigset_t,
    umask: Mode,
    limits: [Rlimit; RAISED.len()],
}

/// The original state; set once [`begin`] has run.
static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// True if SIGPIPE was ignored before Rust's runtime ignored it.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// A constructor, which the loader calls before the Rust runtime starts.
#[used]
// SAFETY: the section of functions without arguments that run at the start of a program.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    PIPE_IGNORED.store(ignores(libc::SIGPIPE), Ordering::Relaxed);
}

impl Inherited {
    fn of_process() -> Inherited {
        let bit = |signal: i32| u64::from(is_ignored_now(signal)) << (signal - 1);
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: no new mask is given; `blocked` is initialised first, and the call fills it.
        let blocked = unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), blocked.as_mut_ptr());
            blocked.assume_init()
        };
        let mask = umask(Mode::RWXU);
        umask(mask);
        let limits = RAISED.map(getrlimit);
        Inherited { ignored: SIGNALS.map(bit).sum(), blocked, umask: mask, limits }
    }

    fn ignores(&self, signal: i32) -> bool {
        SIGNALS.contains(&signal) && self.ignored >> (signal - 1) & 1 == 1
    }
}

/// Returns true if this process ignores that signal, as arranged by the process that started it.
fn is_ignored_now(signal: i32) -> bool {
    match signal {
        libc::SIGPIPE => PIPE_IGNORED.load(Ordering::Relaxed),
        _ => ignores(signal),
    }
}

fn ignores(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed, and the call has filled `action` if it succeeds.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Returns true if this process was started with that signal ignored, as `nohup` arranges it.
pub fn was_ignored(signal: i32) -> bool {
    INHERITED.get().map_or_else(|| is_ignored_now(signal), |inherited| inherited.ignores(signal))
}

/// Saves the inherited state, and sets the state that this process relies on: ended children can be
/// collected, no signal is blocked, a file that grows too long causes an error and not a signal,
/// created files are readable by their owner, and limits are at their maximum.
pub fn begin() {
    if INHERITED.set(Inherited::of_process()).is_err() {
        return;
    }
    collect_children();
    dispose(libc::SIGXFSZ, libc::SIG_IGN);
    unblock_all();
    raise_limits();
    let others = Mode::RWXG | Mode::RWXO;
    umask(INHERITED.get().map_or(others, |inherited| inherited.umask & others));
}

/// Makes the kernel keep ended children until they are collected, which it does not do while
/// SIGCHLD is ignored.
pub fn collect_children() {
    dispose(libc::SIGCHLD, libc::SIG_DFL);
}

fn dispose(signal: i32, how: libc::sighandler_t) {
    // SAFETY: ignoring a signal, or its default action, runs no code of this process. If the signal
    // does not exist or cannot be changed, the call fails and changes nothing.
    unsafe { libc::signal(signal, how) };
}

fn unblock_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the mask that the second reads.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn raise_limits() {
    for resource in RAISED {
        let most = getrlimit(resource).maximum;
        // A limit that cannot be raised stays; the error that it causes later names it.
        let _ = setrlimit(resource, Rlimit { current: most, maximum: most });
    }
}

/// Restores the inherited state in a process between its fork and its exec; does nothing if
/// [`begin`] has not run. Makes system calls only.
///
/// # Errors
/// A limit can no longer be set.
pub(crate) fn hand_down() -> io::Result<()> {
    let Some(inherited) = INHERITED.get() else { return Ok(()) };
    for signal in SIGNALS {
        let ignored = inherited.ignores(signal);
        dispose(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
    // SAFETY: the mask was filled when it was saved.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &inherited.blocked, std::ptr::null_mut()) };
    umask(inherited.umask);
    RAISED
        .into_iter()
        .zip(&inherited.limits)
        .try_for_each(|(resource, limit)| setrlimit(resource, *limit).map_err(io::Error::from))
}

/// Opens `/dev/null` in place of closed descriptors 0, 1 and 2: otherwise the next descriptor
/// opened would receive the program's output.
pub fn open_standard_descriptors() {
    let closed = (0..3).filter(|&fd| !is_open(fd)).count();
    for _ in 0..closed {
        // The kernel assigns the lowest free number. Without the device nothing can be done.
        if let Ok(file) = open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(file); // keep it open
        }
    }
}
