//! The program's threads in this process, in the order of their creation, and their masks.
//!
//! /proc/self/task is not read: the kernel caches the entries read, and whatever reaps a killed
//! process must then wait until its last thread was scheduled. Instead, thread ids are probed one
//! by one, each only once: the kernel assigns them in ascending order, and /proc/loadavg names the
//! last.
//!
//! Invariants: a thread of this library ([`own`]) is never listed, nor is a thread that has ended.
//! A thread id that is reused in this process, or more new threads than [`LOOKS`] ids cover, can
//! hide a thread for a while; only its mask is lost.

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock};

use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use crate::lock;

/// Maximum number of ids probed in one call.
const LOOKS: i32 = 1 << 16;
/// The lowest thread id that the kernel reuses after a wrap.
const RESERVED: i32 = 300;

/// Threads of this library.
static OWN: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Marks this thread as the library's, for as long as the value lives.
#[derive(Debug)]
pub struct Own(i32);

/// Marks this thread as the library's.
pub fn own() -> Own {
    let id = gettid().as_raw_nonzero().get();
    lock(&OWN).push(id);
    Own(id)
}

impl Drop for Own {
    fn drop(&mut self) {
        lock(&OWN).retain(|id| *id != self.0);
    }
}

/// The known threads of the program.
#[derive(Debug)]
pub struct Threads {
    /// Thread ids in the order of creation.
    known: Vec<i32>,
    /// The next id to probe.
    next: i32,
}

impl Threads {
    /// Creates the list for this process, with its first thread.
    pub fn new() -> Threads {
        let process = std::process::id() as i32;
        Threads { known: vec![process], next: process + 1 }
    }

    /// Returns the program's current threads.
    pub fn look(&mut self) -> Vec<i32> {
        let process = std::process::id() as i32;
        self.known.retain(|id| *id == process || exists(process, *id));
        if count().is_some_and(|count| count > self.known.len()) {
            self.search(process);
        }
        let own = lock(&OWN);
        self.known.iter().copied().filter(|id| !own.contains(id)).collect()
    }

    fn search(&mut self, process: i32) {
        let Some((last, end)) = last_given() else { return };
        for _ in 0..LOOKS {
            if self.next == last + 1 || (self.next >= end && last < RESERVED) {
                return;
            }
            if self.next >= end {
                self.next = RESERVED;
            }
            if exists(process, self.next) && !self.known.contains(&self.next) {
                self.known.push(self.next);
            }
            self.next += 1;
        }
    }
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::new()
    }
}

/// Returns the processors that a thread may use, ascending; empty if it has ended.
pub fn mask(thread: i32) -> Vec<usize> {
    let mask = Pid::from_raw(thread).and_then(|id| sched_getaffinity(Some(id)).ok());
    let set = |&cpu: &usize| mask.as_ref().is_some_and(|mask| mask.is_set(cpu));
    (0..CpuSet::MAX_CPU).filter(set).collect()
}

/// Restricts a thread to these processors. False if the kernel refuses it.
pub fn set_mask(thread: i32, cpus: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    Pid::from_raw(thread).is_some_and(|id| sched_setaffinity(Some(id), &set).is_ok())
}

/// Returns true if `thread` is one of `process`.
fn exists(process: i32, thread: i32) -> bool {
    // SAFETY: signal 0 is not delivered; the call reports if the thread exists.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

/// Returns the number of threads of this process.
fn count() -> Option<usize> {
    status("Threads:")?.parse().ok()
}

/// Returns a field of the kernel's status of this process and its first thread.
fn status(field: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().to_owned())
}

/// The callback for the end of a thread that called [`note_end`].
static AT_END: OnceLock<fn()> = OnceLock::new();

unsafe extern "C" fn ended(_: *mut c_void) {
    AT_END.get().into_iter().for_each(|call| call());
}

/// Registers `call` to run when the calling thread ends by returning or by `pthread_exit`, even if
/// it is the first thread. Rust and C++ destructors do not run for the first thread; those of keys
/// do. Only the first `call` counts.
pub fn note_end(call: fn()) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    AT_END.get_or_init(|| call);
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the call fills `key`; the function stays in place, as the library is never
        // unloaded, and does not use its argument.
        (unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0).then_some(key)
    });
    if let Some(key) = *key {
        // SAFETY: a key that was created; the value is never used, and only must not be null.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) };
    }
}

/// Returns true if only threads of this library are left: the C library would end the process now
/// if they did not exist.
pub fn program_has_ended() -> bool {
    // The kernel keeps the first thread, and counts it, until the process ends.
    let first_ended = status("State:").is_some_and(|state| state.starts_with('Z'));
    first_ended && count() == Some(lock(&OWN).len() + 1)
}

/// Returns the last thread id that the kernel assigned, and the end of its range.
fn last_given() -> Option<(i32, i32)> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let last = load.split_whitespace().next_back()?.parse().ok()?;
    let end = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    Some((last, end.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn threads_are_found_in_the_order_of_their_creation_and_own_ones_are_not() {
        let mut threads = Threads::new();
        let before = threads.look();
        let (ids, found) = channel();
        let mut ends = Vec::new();
        for at in 0..4 {
            let (end, wait) = channel::<()>();
            let ids = ids.clone();
            let thread = std::thread::spawn(move || {
                let _own = (at == 1).then(own);
                ids.send(gettid().as_raw_nonzero().get()).expect("it is waited for");
                let _ = wait.recv();
            });
            ends.push((end, thread));
        }
        let all: Vec<i32> = found.iter().take(4).collect();
        let own_one = *lock(&OWN).last().expect("it is there");
        assert!(all.contains(&own_one));
        let mut wanted: Vec<i32> = all.iter().copied().filter(|id| *id != own_one).collect();
        wanted.sort_unstable(); // no wrap in so short a time, or one test in thousands looks again
        // Other tests start and end threads meanwhile.
        let ours = |seen: Vec<i32>| -> Vec<i32> {
            seen.into_iter().filter(|id| all.contains(id) && !before.contains(id)).collect()
        };
        assert_eq!(ours(threads.look()), wanted);
        let (end, thread) = ends.remove(0);
        drop(end);
        thread.join().expect("it ends");
        let left = ours(threads.look());
        assert!(left.len() >= wanted.len() - 1 && left.iter().all(|id| wanted.contains(id)));
        ends.into_iter().for_each(|(end, thread)| {
            drop(end);
            thread.join().expect("it ends");
        });
        assert!(ours(threads.look()).is_empty());
    }

    #[test]
    fn a_mask_is_what_was_set() {
        let own = gettid().as_raw_nonzero().get();
        let all = mask(own);
        let first = &all[..1];
        assert!(set_mask(own, first));
        assert_eq!(mask(own), first);
        assert!(!set_mask(own, &[]), "no processor at all");
        assert!(set_mask(own, &all));
        assert_eq!(mask(i32::MAX), Vec::<usize>::new());
    }
}
