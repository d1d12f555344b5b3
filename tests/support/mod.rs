//! Jobs of real processes: built with `oshcc`, run under `oshrun`, watched, and cleaned up.
//!
//! A [`Job`] is a command line; [`Job::run`] gives its [`Outcome`]. Three things hold for every
//! run, whatever the test checks:
//!
//! - it ends: after [`LIMIT`] every PE (its progress in the protocol) and every process of the job
//!   (state, where it waits in the kernel) is recorded, all are killed, and the test fails with
//!   that and with the job's output;
//! - nothing is left: no process, running or dead and not reaped, no open end of its output, no
//!   entry in `/dev/shm`, no file in its folder (see [`residue`]);
//! - its environment is the test's own without `SHMEM_*`, and without the `LD_LIBRARY_PATH` that
//!   cargo sets: that takes precedence over the path in a program, and names the folder of `cargo
//!   build` first, which may contain an old library.
//!
//! A process belongs to a job if it is in the job's session or has the job's marker in its
//! environment. The test reaps orphans, so that a launcher that leaves a child behind is detected
//! even on a machine whose first process reaps nothing.

#![allow(dead_code)] // every test binary uses its own part of this

mod build;
pub mod built;
pub mod cgroup;
mod farm;
pub mod image;
pub mod jacobi;
pub mod mounts;
pub mod namespaces;
mod outcome;
pub mod prelude;
pub mod processes;
pub mod random;
mod residue;
pub mod schema;
#[macro_use]
mod skip;
pub mod stall;
mod sweep;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use rustix::process::Signal;

pub use build::*;
pub use outcome::Outcome;
pub use skip::*;
#[allow(unused_imports)] // as above
pub use sweep::*;

/// The limit after which a run counts as hung. Runs take well below a second on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// The variable that marks the processes of a job.
pub const MARKER: &str = "PROCESS_TEST_JOB";

/// A command line under construction.
pub struct Job {
    words: Vec<String>,
    env: Vec<(String, OsString)>,
    leaves: Vec<String>,
    orphans: bool,
    after: Option<String>,
    network: Option<PathBuf>,
    input: Option<String>,
    limit: Duration,
}

impl Job {
    /// Runs `oshrun -n pes`.
    pub fn new(pes: usize) -> Job {
        Job::of(&["-n", &pes.to_string()]).env("SHMEM_SYMMETRIC_SIZE", "16M")
    }

    /// Runs `oshrun` with the words of a line, and four PEs if it has no `-n`.
    pub fn line(line: &str) -> Job {
        let counts = line.split(' ').any(|word| word == "-n");
        let job = if counts { Job::of(&[]) } else { Job::new(4) };
        job.env("SHMEM_SYMMETRIC_SIZE", "16M").words(line)
    }

    /// Runs `oshrun` with these arguments.
    pub fn of(words: &[&str]) -> Job {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let (env, leaves) = (Vec::new(), Vec::new());
        let (after, network, input) = (None, None, None);
        Job { words, env, leaves, orphans: false, after, network, input, limit: LIMIT }
    }

    /// Adds arguments.
    pub fn args(mut self, words: &[&str]) -> Job {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Adds the words of a line: a word like `NAME=value` sets a variable, others are arguments.
    pub fn words(self, line: &str) -> Job {
        let name = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        line.split_whitespace().fold(self, |job, word| match word.split_once('=') {
            Some((variable, value)) if name(variable) => job.env(variable, value),
            _ => job.args(&[word]),
        })
    }

    /// Runs `oshrun` after these shell commands, with their effects: limits, for example.
    pub fn after(mut self, commands: &str) -> Job {
        self.after = Some(format!("{commands}; exec \"$@\""));
        self
    }

    /// Sets its standard input, through a pipe.
    pub fn input(mut self, text: &str) -> Job {
        self.input = Some(text.to_owned());
        self
    }

    /// Sets `SHMEM_FT_BACKUP_MODE`.
    pub fn mode(self, mode: &str) -> Job {
        self.env("SHMEM_FT_BACKUP_MODE", mode)
    }

    /// Sets an environment variable; the last of a name counts.
    pub fn env(self, name: &str, value: &str) -> Job {
        self.env_os(name, OsStr::new(value))
    }

    /// Sets a variable that may not be valid text.
    pub fn env_os(mut self, name: &str, value: &OsStr) -> Job {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds `--kill rule` for each.
    pub fn kill(self, rules: &[&str]) -> Job {
        rules.iter().fold(self, |job, rule| job.args(&["--kill", rule]))
    }

    /// Adds `--kill-node rule` for each.
    pub fn kill_node(self, rules: &[&str]) -> Job {
        rules.iter().fold(self, |job, rule| job.args(&["--kill-node", rule]))
    }

    /// Sets the program and its arguments: the end of the command line.
    pub fn program(self, path: &Path, args: &[&str]) -> Job {
        let path = path.to_str().expect("test programs have plain names");
        self.args(&[path]).args(args)
    }

    /// Expects orphans, because their parents are killed: they may take a moment to end, and this
    /// process reaps them.
    pub fn with_orphans(mut self) -> Job {
        self.orphans = true;
        self
    }

    /// Multiplies its limit, for a run under a slow tool.
    pub fn slower(mut self, times: u32) -> Job {
        self.limit = LIMIT * times;
        self
    }

    /// Runs it in that network namespace.
    pub fn inside(mut self, network: &Path) -> Job {
        self.network = Some(network.to_owned());
        self
    }

    /// Expects the program to leave a file or folder of this name in the folder of the run.
    pub fn leaves(mut self, name: &str) -> Job {
        self.leaves.push(name.to_owned());
        self
    }

    /// Runs it to its end, and checks that nothing is left.
    #[track_caller]
    pub fn run(self) -> Outcome {
        self.start().finish()
    }

    /// Starts the job, and waits for a line with `text` on either output.
    #[track_caller]
    pub fn until(self, text: &str) -> Running {
        let mut run = self.start();
        run.wait_for(text);
        run
    }

    /// Starts the job.
    pub fn start(self) -> Running {
        become_reaper();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{marker}"));
        std::fs::create_dir_all(&folder).expect("a folder for the run");
        let mut command = match &self.after {
            None => Command::new(env!("CARGO_BIN_EXE_oshrun")),
            Some(script) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_oshrun")]);
                shell
            }
        };
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("SHMEM_")) {
            command.env_remove(name);
        }
        command.env_remove("LD_LIBRARY_PATH");
        command.args(&self.words).envs(self.env.iter().cloned()).env(MARKER, &marker);
        command.current_dir(&folder).stdin(self.input.as_deref().map_or_else(Stdio::null, piped));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let shm = residue::Shm::new(&folder);
        let enter = shm.entrance();
        let network = self.network.as_ref().map(std::fs::File::open);
        let network = network.transpose().expect("its network namespace is there");
        let prepare = move || {
            use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
            if let Some(network) = &network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            enter()?;
            // A shell's background processes ignore these.
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                // SAFETY: before exec, where no handler is set.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            rustix::process::setsid().map(drop).map_err(Into::into)
        };
        // SAFETY: only system calls, which are allowed after fork.
        unsafe { command.pre_exec(prepare) };
        let shown = self.shown();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let output = Arc::new(JobOutput::default());
        output.listen(false, child.stdout.take().expect("it is piped"));
        output.listen(true, child.stderr.take().expect("it is piped"));
        let begun = Instant::now();
        let (leaves, orphans, limit) = (self.leaves, self.orphans, self.limit);
        let over = false;
        Running { child, marker, folder, shown, output, begun, leaves, orphans, shm, over, limit }
    }

    fn shown(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}='{}'", value.display()));
        let words = self.words.iter().map(|word| match word.contains([' ', ';', '$']) {
            true => format!("'{word}'"),
            false => word.clone(),
        });
        let after = self.after.clone().into_iter();
        env.chain(after).chain(["oshrun".to_owned()]).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// Returns a pipe that holds `text`.
fn piped(text: &str) -> Stdio {
    let (from, mut to) = std::io::pipe().expect("a pipe");
    to.write_all(text.as_bytes()).expect("it fits into the pipe");
    from.into()
}

/// The output of a job so far.
#[derive(Default)]
struct JobOutput {
    text: Mutex<OutputText>,
    news: Condvar,
}

#[derive(Default)]
struct OutputText {
    out: String,
    err: String,
    ends: u32,
}

impl JobOutput {
    fn listen(self: &Arc<Self>, is_error: bool, mut from: impl Read + Send + 'static) {
        let output = Arc::clone(self);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let got = from.read(&mut bytes).unwrap_or(0);
                let mut all = output.text();
                let text = String::from_utf8_lossy(&bytes[..got]);
                if is_error {
                    all.err += &text
                } else {
                    all.out += &text
                }
                all.ends += u32::from(got == 0);
                output.news.notify_all();
                if got == 0 {
                    return;
                }
            }
        });
    }

    fn text(&self) -> MutexGuard<'_, OutputText> {
        self.text.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until `there` holds for the output; returns false if it does not at `end`.
    fn wait(&self, end: Instant, there: impl Fn(&OutputText) -> bool) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        let (all, _) = self
            .news
            .wait_timeout_while(self.text(), left, |all| !there(all))
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        there(&all)
    }
}

/// A started job.
pub struct Running {
    child: Child,
    marker: String,
    folder: PathBuf,
    shown: String,
    output: Arc<JobOutput>,
    begun: Instant,
    leaves: Vec<String>,
    orphans: bool,
    shm: residue::Shm,
    over: bool,
    limit: Duration,
}

impl Running {
    /// Returns the launcher's process id, which is also its session.
    pub fn launcher(&self) -> u32 {
        self.child.id()
    }

    /// Returns the folder it runs in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// True while the launcher runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns every current process of the job.
    pub fn processes(&self) -> Vec<processes::Found> {
        processes::of_job(self.launcher(), &self.marker)
    }

    /// Returns the agents on this machine in the order of their nodes, in which they are started.
    /// Their process ids follow the launcher's, and wrap round once at the kernel's largest.
    pub fn agents(&self) -> Vec<processes::Found> {
        let launcher = self.launcher();
        let mut agents = self.processes();
        agents.retain(|found| found.parent == launcher && !found.is_zombie());
        agents.sort_by_key(|agent| (agent.pid < launcher, agent.pid));
        agents
    }

    /// Returns the first process of PE `pe`; for the program `steps`, which prints it.
    pub fn pid_of(&mut self, pe: usize) -> u32 {
        let line = self.wait_for(&format!("PE {pe} is process "));
        line.rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a process id")
    }

    /// Makes the program `steps` end.
    pub fn stop(&self) {
        std::fs::write(self.folder.join("stop"), "").expect("the file is written");
    }

    /// Makes the program `steps` end, and waits for the end of the job.
    #[track_caller]
    pub fn end(self) -> Outcome {
        self.stop();
        self.finish()
    }

    /// Waits for `text` on either output, and returns the whole line.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let found = self.line_or_end(text);
        found.unwrap_or_else(|| panic!("no line has `{text}`: {}", self.report("ended")))
    }

    /// Waits for `text` on either output, and returns the whole line; `None` if the job ended
    /// before.
    #[track_caller]
    pub fn line_or_end(&mut self, text: &str) -> Option<String> {
        self.nth_line_or_end(text, 0)
    }

    /// Returns the number of lines so far that have `text`, on either output.
    pub fn so_far(&self, text: &str) -> usize {
        let all = self.output.text();
        all.out.lines().chain(all.err.lines()).filter(|line| line.contains(text)).count()
    }

    /// Waits until `times` lines have `text`, on either output.
    #[track_caller]
    pub fn wait_for_nth(&mut self, text: &str, times: usize) {
        let found = self.nth_line_or_end(text, times - 1);
        found.unwrap_or_else(|| panic!("{times} times `{text}`: {}", self.report("ended")));
    }

    #[track_caller]
    fn nth_line_or_end(&mut self, text: &str, nth: usize) -> Option<String> {
        let line = |all: &OutputText| {
            let lines = all.out.lines().chain(all.err.lines());
            lines.filter(|line| line.contains(text)).nth(nth).map(str::to_owned)
        };
        if !self.output.wait(self.begun + self.limit, |all| line(all).is_some() || all.ends == 2) {
            self.hung(&format!("waited for `{text}`"));
        }
        line(&self.output.text())
    }

    /// Waits until `so` holds for the processes of the job.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut so: impl FnMut(&[processes::Found]) -> bool) {
        while !so(&self.processes()) {
            if self.begun.elapsed() > self.limit {
                self.hung(what);
            }
            std::thread::yield_now();
        }
    }

    /// Kills all processes of the job, and waits for its end.
    #[track_caller]
    pub fn kill(self) -> Outcome {
        let kill = |found: &processes::Found| processes::signal(found.pid, Signal::KILL);
        self.processes().iter().for_each(kill);
        let outcome = self.finish();
        outcome.status(137);
        outcome
    }

    /// Sends the launcher a signal.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.launcher(), signal);
    }

    /// Waits for its end, and checks that nothing is left.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        if !processes::ends_before(self.launcher(), self.begun + self.limit) {
            self.hung("the launcher did not end");
        }
        let status = self.child.wait().expect("its own child can be waited for");
        let took = self.begun.elapsed();
        let left = residue::look(&self);
        let (out, err) = {
            let all = self.output.text();
            (all.out.clone(), all.err.clone())
        };
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
        self.over = left.is_empty();
        assert!(left.is_empty(), "left behind: {}\n{}", left.join("\n"), self.report("ended"));
        let _ = std::fs::remove_dir_all(&self.folder);
        Outcome { status: code, out, err, took, shown: self.shown.clone() }
    }

    fn report(&self, how: &str) -> String {
        let all = self.output.text();
        format!(
            "{}\n{how} after {:.1} s\n--- stdout\n{}--- stderr\n{}---",
            self.shown,
            self.begun.elapsed().as_secs_f64(),
            all.out,
            all.err
        )
    }

    #[track_caller]
    fn hung(&mut self, what: &str) -> ! {
        let images = image::all(self.launcher());
        let mut traces: Vec<String> = images.iter().map(image::Image::describe).collect();
        traces.extend(self.processes().iter().map(processes::Found::trace));
        let report = self.report("was killed");
        panic!("HUNG: {what}\n{report}\n{}", traces.join("\n"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            residue::kill_all(self);
            let _ = self.child.wait();
        }
    }
}

/// Makes this process the parent of orphans.
fn become_reaper() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .expect("a process may become a reaper");
    });
}

/// Prints one line on the terminal even if the harness captures output: what was not run, and why.
pub fn note(line: &str) {
    let _ = std::io::stderr().write_all(format!("note: {line}\n").as_bytes());
}
