//! What a job may not leave behind, and clearing it away.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::processes::{self, Found};
use super::{Running, mounts};

/// Folder of a run that is its `/dev/shm`.
const SHM: &str = "dev-shm";
/// How long orphans may take to end, and output to close.
const MOMENT: Duration = Duration::from_secs(20);

/// The `/dev/shm` of a job: a folder of its own, seen by no other program, where the kernel allows
/// that; else the machine's, of which only entries that name this library are looked at.
pub struct Shm {
    folder: PathBuf,
}

impl Shm {
    /// That of the run in `folder`.
    pub fn new(folder: &Path) -> Shm {
        let folder = folder.join(SHM);
        std::fs::create_dir_all(&folder).expect("a folder for /dev/shm");
        Shm { folder }
    }

    /// What a process does after fork to see it. System calls only.
    pub fn entrance(&self) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
        let own = CString::new(self.folder.as_os_str().as_bytes()).expect("no zero in a path");
        let allowed = may_mount();
        move || if allowed { mount_over_shm(&own) } else { Ok(()) }
    }

    fn left(&self) -> Vec<String> {
        let names = |folder: &Path| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let own: Vec<String> = names(&self.folder);
        let mut all: Vec<String> = names(Path::new("/dev/shm"));
        all.retain(|name| name.contains("raidshmem"));
        own.into_iter().chain(all).map(|name| format!("/dev/shm/{name}")).collect()
    }
}

/// Whether a child may have its own mounts; tried once.
fn may_mount() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let mut command = Command::new("/proc/self/exe");
        let folder = CString::new(env!("CARGO_TARGET_TMPDIR")).expect("no zero in a path");
        // SAFETY: system calls only, after fork.
        unsafe { command.pre_exec(move || mount_over_shm(&folder)) };
        // This test binary, asked for the list of no tests.
        let tried = command.args(["--list", "no such test"]).stdout(Stdio::null()).status();
        let may = tried.is_ok_and(|status| status.success());
        if !may {
            super::partly("mounts", "/dev/shm is searched for our names only");
        }
        may
    })
}

fn mount_over_shm(folder: &CString) -> io::Result<()> {
    let none = std::ptr::null();
    mounts::unshare(libc::CLONE_NEWNS)?;
    let (from, to) = (folder.as_ptr(), c"/dev/shm".as_ptr());
    // SAFETY: no pointer but to C text; the process was just forked, and its mounts are its own.
    mounts::call(unsafe { libc::mount(from, to, none, libc::MS_BIND, none.cast()) })
}

/// Everything the job left, a line each. Its launcher has ended.
pub fn look(run: &Running) -> Vec<String> {
    let mut left = Vec::new();
    if run.orphans {
        let end = Instant::now() + MOMENT;
        for found in run.processes() {
            processes::ends_before(found.pid, end);
        }
        collect(&run.processes());
    }
    left.extend(run.processes().iter().map(Found::line));
    if left.is_empty() && !run.heard.wait(Instant::now() + MOMENT, |said| said.ends == 2) {
        left.push("its output is still open, so somebody holds it".to_owned());
    }
    left.extend(run.shm.left());
    let files = std::fs::read_dir(&run.folder).into_iter().flatten().flatten();
    let own = |name: &str| name == SHM || run.leaves.iter().any(|leaves| leaves == name);
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| !own(name)).map(|name| format!("file {name}")));
    left
}

/// Collects those that have ended and are children of this process now.
fn collect(found: &[Found]) {
    for dead in found.iter().filter(|found| found.parent == std::process::id()) {
        let _ = waitpid(Pid::from_raw(dead.pid as i32), WaitOptions::NOHANG);
    }
}

/// Ends a job that is not wanted any more.
pub fn kill_all(run: &Running) {
    let end = Instant::now() + MOMENT;
    // The launcher last but one: those it would start meanwhile are found in the second round.
    for _ in 0..2 {
        for found in run.processes() {
            processes::signal(found.pid, Signal::KILL);
            processes::ends_before(found.pid, end);
        }
    }
    let launcher = run.launcher();
    collect(&run.processes().into_iter().filter(|f| f.pid != launcher).collect::<Vec<_>>());
    let _ = std::fs::remove_dir_all(&run.folder);
}
