//! The processes of a job as `/proc` shows them.

use std::fs;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// A process of a job.
#[derive(Debug, Clone)]
pub struct Found {
    pub pid: u32,
    pub parent: u32,
    /// `R`, `S`, `T`, `Z` and so on.
    pub state: char,
    pub name: String,
    pub words: String,
}

impl Found {
    /// True if it has ended but was not reaped.
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    /// Describes it in one line.
    pub fn line(&self) -> String {
        let Found { pid, parent, state, name, words } = self;
        format!("{pid} (parent {parent}, {name}, state {state}): {words}")
    }

    /// Returns everything that explains why it does not continue.
    pub fn trace(&self) -> String {
        let mut text = format!("=== {}\n", self.line());
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        for task in tasks.into_iter().flatten().flatten() {
            for file in ["comm", "stat", "wchan", "syscall", "stack"] {
                let read = fs::read_to_string(task.path().join(file));
                let read = read.unwrap_or_else(|error| error.to_string());
                text += &format!("  {file:<8} {}\n", read.trim().replace('\n', " | "));
            }
        }
        text
    }
}

/// Returns every process in session `session` or with the job's marker in its environment.
pub fn of_job(session: u32, marker: &str) -> Vec<Found> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| look(pid, session, marker)).collect()
}

fn look(pid: u32, session: u32, marker: &str) -> Option<Found> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}"));
    let stat = read("stat").ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    // pid (name) state parent group session; the name may hold anything.
    let (before, after) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat[after + 1..].split_whitespace().collect();
    let in_session = fields.get(3)?.parse() == Ok(session);
    let mark = format!("{}={marker}", super::MARKER).into_bytes();
    let marked = || read("environ").is_ok_and(|all| all.split(|&b| b == 0).any(|v| v == mark));
    if !in_session && !marked() {
        return None;
    }
    let words = read("cmdline").unwrap_or_default();
    Some(Found {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        name: stat[before + 1..after].to_owned(),
        words: String::from_utf8_lossy(&words).replace('\0', " "),
    })
}

/// Waits until process `pid` has ended; returns false if it is still running at `end`.
pub fn ends_before(pid: u32, end: Instant) -> bool {
    let Some(id) = Pid::from_raw(pid as i32) else { return true };
    let Ok(pidfd) = pidfd_open(id, PidfdFlags::empty()) else { return true };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) => {} // interrupted
        }
    }
}

/// Sends a signal; ignores a process that no longer exists.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}
