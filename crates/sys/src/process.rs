//! Processes that cannot outlive their parent, watched through pidfds; and the library's threads.
//!
//! Invariant: a child started here is killed by the kernel when the thread that started it dies, is
//! the leader of its own process group, starts with the state that this process was started with
//! ([`inherited`]), and (if requested and allowed) runs without address randomisation, so that
//! symmetric addresses are equal in every PE.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use raidshmem_core::ended::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, getppid, getrlimit,
    kill_process_group, pidfd_open, pidfd_send_signal, set_child_subreaper,
    set_parent_process_death_signal, waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::{inherited, threads};

/// A running process, held by a descriptor that can never refer to another one.
#[derive(Debug)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    pidfd: OwnedFd,
}

impl Process {
    /// Starts `command`, keeping the descriptor `kept` open for it. With `fixed_addresses` the
    /// kernel's address randomisation is off for the process and its children, unless a container
    /// forbids that ([`crate::startup`]).
    pub fn start(
        command: &mut Command,
        kept: Option<BorrowedFd>,
        fixed_addresses: bool,
    ) -> io::Result<Process> {
        let fd = kept.map(|fd| fd.as_raw_fd());
        let parent = rustix::process::getpid();
        let ignored = IGNORED.get().copied();
        // SAFETY: between fork and exec the closure makes only system calls, takes no lock and
        // allocates nothing.
        unsafe {
            let act = move || prepare(fd, parent, ignored, fixed_addresses);
            command.process_group(0).pre_exec(act);
        }
        let child = command.spawn()?;
        Process::open(child.id())
    }

    /// Opens a running process by its id.
    pub fn open(pid: u32) -> io::Result<Process> {
        let id = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Process { pid, pidfd: pidfd_open(id, PidfdFlags::empty())? })
    }

    /// Wraps a process whose pidfd was received over a control connection.
    pub fn received(pid: u32, pidfd: OwnedFd) -> Process {
        Process { pid, pidfd }
    }

    /// Duplicates its descriptor, for sending.
    ///
    /// # Errors
    /// This process can open no more descriptors.
    pub fn copy(&self) -> io::Result<Arc<OwnedFd>> {
        self.pidfd.try_clone().map(Arc::new)
    }

    /// Sends SIGKILL, if the process still runs.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Sends the signal, if the process still runs and the signal exists.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = pidfd_send_signal(&self.pidfd, signal);
        }
    }

    /// Sends SIGKILL to the process and its whole process group.
    pub fn kill_group(&self) {
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.kill();
    }

    /// Reaps a child that has ended; None while it runs, or if it is not a child of this process.
    pub fn reap(&self) -> Option<Ended> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Ended::Exited(code)),
            (None, Some(signal)) => Some(Ended::Killed(signal)),
            (None, None) => None,
        }
    }

    /// Returns true if the process has ended or is exiting: its descriptors are then closed, some
    /// time before its end is reported. Must not be called after it was reaped.
    pub fn is_ending(&self) -> bool {
        // A kernel flag; the first thread has it by the time descriptors are closed.
        const PF_EXITING: u32 = 4;
        let flags = || fields_of(self.pid).get(6)?.parse::<u32>().ok();
        self.wait_end(0) || flags().is_some_and(|flags| flags & PF_EXITING != 0)
    }

    /// Waits at most `limit_ms` until it has ended (its descriptor becomes readable).
    pub fn wait_end(&self, limit_ms: i32) -> bool {
        let limit = Timespec {
            tv_sec: i64::from(limit_ms / 1000),
            tv_nsec: i64::from(limit_ms % 1000) * 1_000_000,
        };
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&limit)), Ok(1))
    }
}

/// The choice of clock: both are monotonic and common to all processes of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Counts all time, including suspend: for waits of parties that keep running meanwhile.
    Always,
    /// Counts only while the machine runs: for waits whose parties all sleep with it.
    Awake,
}

impl Clock {
    /// Returns its time.
    pub fn now(self) -> Duration {
        let time = clock_gettime(self.id());
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn id(self) -> ClockId {
        match self {
            Clock::Always => ClockId::Boottime,
            Clock::Awake => ClockId::Monotonic,
        }
    }
}

/// A time at which the kernel kills this process, stopped or not, unless it is postponed.
#[derive(Debug)]
pub struct Deadline(libc::timer_t);

impl Deadline {
    /// Creates an unset deadline on that clock.
    pub fn new(clock: Clock) -> io::Result<Deadline> {
        // SAFETY: plain data, for which all zeroes is a valid value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_SIGNAL, libc::SIGKILL);
        let mut timer = std::ptr::null_mut();
        // SAFETY: both outlive the call.
        match unsafe { libc::timer_create(clock.id() as libc::clockid_t, &mut event, &mut timer) } {
            0 => Ok(Deadline(timer)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the deadline to `at` on its clock, or to never.
    pub fn set(&self, at: Option<Duration>) {
        let at = at.map_or(Duration::ZERO, |at| at.max(Duration::from_nanos(1)));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: at.as_secs() as libc::time_t,
            tv_nsec: at.subsec_nanos() as libc::c_long,
        };
        let time = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: a timer of this process, and a time that outlives the call; the old value is not
        // requested. The call cannot fail for values in range.
        unsafe { libc::timer_settime(self.0, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) };
    }
}

/// A Linux constant that the crate `libc` lacks.
const F_SETSIG: libc::c_int = 10;

/// Creates the two ends of a parent-death pipe: the parent holds the first, the child arms the
/// second.
///
/// # Errors
/// No descriptors are left.
pub fn parent_death_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (armed, held) = io::pipe()?; // never written to
    Ok((held.into(), armed.into()))
}

/// Makes the kernel kill this process, stopped or not, when the other end is closed: at the latest
/// when the process that holds it has ended. Lasts for the rest of its life.
///
/// # Errors
/// An error of the kernel.
pub fn arm(pipe: OwnedFd) -> io::Result<()> {
    let pid = rustix::process::getpid();
    let fd = pipe.into_raw_fd(); // keep it open
    for (command, word) in [
        (libc::F_SETOWN, pid.as_raw_nonzero().get()),
        (F_SETSIG, libc::SIGKILL),
        (libc::F_SETFL, libc::O_ASYNC),
    ] {
        // SAFETY: a descriptor of this process, and commands that take an integer.
        if unsafe { libc::fcntl(fd, command, word) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: it is never closed.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut fds = [PollFd::new(&fd, PollFlags::empty())];
    if poll(&mut fds, Some(&Timespec::default()))? > 0 {
        let _ = rustix::process::kill_process(pid, Signal::KILL); // it was closed before
    }
    Ok(())
}

/// Returns true if that process is stopped by a signal or a debugger.
pub fn is_stopped(pid: u32) -> bool {
    matches!(fields_of(pid).first().map(String::as_str), Some("T" | "t"))
}

/// Returns the fields of `/proc/PID/stat`, from the state on.
fn fields_of(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // They follow the name, which may contain anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().map(str::to_owned).collect()
}

/// The signal that processes started by [`Process::start`] ignore, if any.
static IGNORED: OnceLock<i32> = OnceLock::new();

/// Makes processes started from now on ignore `signal` until they install a handler.
pub fn ignored_by_children(signal: i32) {
    let _ = IGNORED.set(signal); // one per job
}

/// Returns the maximum number of open files of this process.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Makes every descendant that loses its parent a child of this process.
pub fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(rustix::process::getpid())).map_err(Into::into)
}

/// Kills and reaps every child of this process, and every orphan that becomes its child as a
/// result, except for those that do not end: the kernel does not kill a process that waits for a
/// disk.
pub fn end_children() {
    const GENERATIONS: usize = 64; // gives up if processes are started faster than this
    let mut stays = BTreeSet::new();
    for _ in 0..GENERATIONS {
        // A child that was not reaped keeps its number, so these are the intended processes.
        let meant = |pid| Process::open(pid).ok().filter(|child| !stays.contains(&child.pid));
        let children: Vec<Process> = children().into_iter().filter_map(meant).collect();
        if children.is_empty() {
            return;
        }
        children.iter().for_each(Process::kill);
        let _ = children.iter().all(|child| child.wait_end(5_000)); // stops at the first that stays
        stays.extend(children.iter().filter(|it| it.reap().is_none()).map(|child| child.pid));
    }
}

/// Returns the children of this process's threads, as far as the kernel lists them.
fn children() -> Vec<u32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let lists = lists.collect::<Vec<_>>().join(" ");
    lists.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn prepare(
    fd: Option<i32>,
    parent: Pid,
    ignored: Option<i32>,
    fixed_addresses: bool,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        // The parent died before the death signal was set: there is no process to report to.
        // SAFETY: this child has no cleanup to do.
        unsafe { libc::_exit(1) };
    }
    inherited::hand_down()?;
    // SAFETY: the descriptor is open in the parent and was inherited by fork; F_SETFD and
    // personality take integers, and ignoring a signal runs no code.
    unsafe {
        if ignored.is_some_and(|signal| libc::signal(signal, libc::SIG_IGN) == libc::SIG_ERR) {
            return Err(io::Error::last_os_error());
        }
        if fd.is_some_and(|fd| libc::fcntl(fd, libc::F_SETFD, 0) < 0) {
            return Err(io::Error::last_os_error());
        }
        if fixed_addresses {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong); // `startup` checks it
        }
    }
    Ok(())
}

/// Stops this process with SIGSTOP, which cannot be caught, until it receives SIGCONT.
pub fn stop() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Starts a thread of the library in the program's process. The thread never handles the program's
/// signals: the program may wait for them with all its threads, and its handlers may need a larger
/// stack.
pub fn helper(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(stack);
    let (started, here) = sync_channel(1);
    let body = move || as_own(started, body);
    without_signals(|| builder.spawn(body))?;
    let _ = here.recv();
    Ok(())
}

/// Like [`helper`], for a thread that ends with `scope`.
pub fn scoped_helper<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    stack: usize,
    body: impl FnOnce() + Send + 'scope,
) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.into()).stack_size(stack);
    let (started, here) = sync_channel(1);
    let body = move || as_own(started, body);
    without_signals(|| builder.spawn_scoped(scope, body))?;
    let _ = here.recv();
    Ok(())
}

/// Runs `body` on a thread that is registered as the library's before its start returns.
fn as_own(started: SyncSender<()>, body: impl FnOnce()) {
    let _own = threads::own();
    let _ = started.send(());
    body();
}

/// Runs `start` with signals blocked: a thread inherits the signal mask of the thread that starts
/// it.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills `all`, which the second reads; the second fills `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}

/// Gives this process the lowest priority, so that it yields to all others.
pub fn least_priority() {
    // If that fails, it only competes a little more.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Runs `work` with this thread on these processors only; threads it starts meanwhile stay on them.
pub fn on_processors<T>(cpus: &[usize], work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    let moved = sched_setaffinity(None, &set_of(cpus)).is_ok();
    let result = work();
    if let (true, Ok(before)) = (moved, before) {
        let _ = sched_setaffinity(None, &before);
    }
    result
}

/// Returns the processors that this thread may use, ascending.
pub fn usable() -> Vec<usize> {
    let allowed = sched_getaffinity(None).ok();
    let usable = |&cpu: &usize| allowed.as_ref().is_some_and(|allowed| allowed.is_set(cpu));
    (0..CpuSet::MAX_CPU).filter(usable).collect()
}

/// Restricts this thread to these processors, if the list is not empty and they are allowed.
pub fn stay_on(cpus: &[usize]) {
    if !cpus.is_empty() {
        let _ = sched_setaffinity(None, &set_of(cpus));
    }
}

/// Binds every thread of a process; threads started later inherit the binding of the thread that
/// starts them. Threads that have ended meanwhile are skipped.
pub fn bind(pid: u32, cpus: &[usize]) {
    let set = set_of(cpus);
    let mut bound = BTreeSet::new();
    loop {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
        let names = threads.flatten().filter_map(|thread| thread.file_name().into_string().ok());
        let ids = names.filter_map(|name| name.parse().ok());
        let new: Vec<i32> = ids.filter(|id| !bound.contains(id)).collect();
        if new.is_empty() {
            return;
        }
        for id in new {
            bound.insert(id);
            let _ = Pid::from_raw(id).map(|id| sched_setaffinity(Some(id), &set));
        }
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    set
}

/// Moves this thread to the `nth` of the processors it may use, without binding it there: a hint
/// that spreads unbound PEs, and avoids other jobs.
pub fn start_on(nth: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let usable = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let Some(cpu) = usable.cycle().take(CpuSet::MAX_CPU).nth(nth) else { return };
    // If it cannot be moved, it runs where it is, and only time is lost.
    if sched_setaffinity(None, &set_of(&[cpu])).is_ok() {
        let _ = sched_setaffinity(None, &allowed);
    }
}

/// Empties the value of an environment variable. The environment does not move, so threads that
/// read other variables meanwhile are not disturbed, as they would be by a removal.
pub fn blank_variable(name: &str) {
    let name = std::ffi::CString::new(name).expect("a name without zeroes");
    // SAFETY: a C string; the C library's own lookup.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if !value.is_null() {
        // SAFETY: the first byte of a value, which always exists, if only as the terminator; it is
        // changed atomically, so that a concurrent reader gets the old value or an empty one.
        unsafe { AtomicU8::from_ptr(value.cast()) }.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no parent to report to, and the standard library turns an attempt into a crash.
    #[test]
    fn a_child_whose_parent_died_ends_silently() {
        let other = getppid().expect("a test is started by something");
        let mut command = Command::new("/bin/true");
        // SAFETY: system calls only.
        unsafe { command.pre_exec(move || prepare(None, other, None, false)) };
        let output = command.output().expect("no error was sent");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(output.stderr, b"");
    }

    #[test]
    fn one_that_runs_is_not_ending_and_one_that_was_not_collected_is() {
        let mut command = Command::new("/bin/cat");
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(!process.is_ending());
        drop(child.stdin.take());
        assert!(process.wait_end(60_000) && process.is_ending());
        assert_eq!(fields_of(child.id())[0], "Z");
        child.wait().unwrap();
    }
}
