//! State that a process was started with: each of our processes sets what it relies on, and hands
//! what the user had down to what it starts.
//!
//! The one place for dispositions and the mask of signals, the umask and limits: [`begin`] is the
//! first call of each of our programs, and [`hand_down`] runs between the fork and the exec of
//! whatever [`Process::start`](crate::process::Process::start) starts. So launcher, supervisor,
//! agent and program begin alike, and nothing of this travels in messages.
//!
//! Left out: descriptors 0, 1 and 2, which Rust's runtime opens before `main` where they are
//! closed; [`open_standard_descriptors`] does that for a program that has no such runtime. The
//! locale, which none of our processes sets.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use crate::is_open;

/// Limits that a user sets for a program, and that a process of ours would run into: there are
/// several open files for each PE. The limit on the size of files stays: it holds for the memory
/// file of a node too, and a PE could not use a larger one.
const RAISED: [Resource; 4] = [Resource::Nofile, Resource::Cpu, Resource::As, Resource::Data];

/// All signals that there may be.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// State of a process at its start.
struct Inherited {
    /// Bit `n - 1` is for signal `n`.
    ignored: u64,
    blocked: libc::sigset_t,
    umask: Mode,
    limits: [Rlimit; RAISED.len()],
}

/// Set once [`begin`] has changed something.
static INHERITED: OnceLock<Inherited> = OnceLock::new();

/// SIGPIPE was ignored before Rust's runtime had it ignored.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// The loader calls it before the runtime of Rust begins.
#[used]
// SAFETY: the section of functions without arguments that are called at the start of a program.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    PIPE_IGNORED.store(ignores(libc::SIGPIPE), Ordering::Relaxed);
}

impl Inherited {
    fn of_process() -> Inherited {
        let bit = |signal: i32| u64::from(is_ignored_now(signal)) << (signal - 1);
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: no new mask is given, and the call fills `blocked`, which a mask of zeroes is.
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

/// True if this process ignores that signal, as whoever started it arranged.
fn is_ignored_now(signal: i32) -> bool {
    match signal {
        libc::SIGPIPE => PIPE_IGNORED.load(Ordering::Relaxed),
        _ => ignores(signal),
    }
}

fn ignores(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed, and where the call succeeds it has filled `action`.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// True if this process was started with that signal ignored: its parent may have arranged that,
/// as `nohup` does.
pub fn was_ignored(signal: i32) -> bool {
    INHERITED.get().map_or_else(|| is_ignored_now(signal), |inherited| inherited.ignores(signal))
}

/// Keeps what this process was started with, and sets what it relies on: children that end can be
/// collected, no signal is blocked, a file that grows too long is an error and no death, files that
/// are created can be read by their owner, and limits are as high as they may be.
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

/// From now on the kernel keeps children that have ended until they are collected, which it does
/// not where SIGCHLD is ignored.
pub fn collect_children() {
    dispose(libc::SIGCHLD, libc::SIG_DFL);
}

fn dispose(signal: i32, how: libc::sighandler_t) {
    // SAFETY: to ignore a signal, or to do the default, runs no code of this process. Where there
    // is no such signal, or none may be told what to do, the call fails and changes nothing.
    unsafe { libc::signal(signal, how) };
}

fn unblock_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills what the second reads.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn raise_limits() {
    for resource in RAISED {
        let most = getrlimit(resource).maximum;
        // A limit that cannot be raised stays, and is named by what it is too low for.
        let _ = setrlimit(resource, Rlimit { current: most, maximum: most });
    }
}

/// Gives a process, between its fork and its exec, what this one was started with; nothing if it
/// has changed nothing. Makes system calls only.
///
/// # Errors
/// A limit may no longer be set.
pub(crate) fn hand_down() -> io::Result<()> {
    let Some(inherited) = INHERITED.get() else { return Ok(()) };
    for signal in SIGNALS {
        let ignored = inherited.ignores(signal);
        dispose(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
    // SAFETY: the mask was filled when it was kept.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &inherited.blocked, std::ptr::null_mut()) };
    umask(inherited.umask);
    RAISED
        .into_iter()
        .zip(&inherited.limits)
        .try_for_each(|(resource, limit)| setrlimit(resource, *limit).map_err(io::Error::from))
}

/// Opens `/dev/null` in place of descriptors 0, 1 and 2 that are closed: else the next descriptor
/// that is opened would be what the program prints to.
pub fn open_standard_descriptors() {
    let closed = (0..3).filter(|&fd| !is_open(fd)).count();
    for _ in 0..closed {
        // The kernel gives the lowest number that is free. Without the device nothing can be done.
        if let Ok(file) = open(c"/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(file); // it stays open
        }
    }
}
