//! Leftovers that a job may not have, and their removal.

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

/// The folder of a run that serves as its `/dev/shm`.
const SHM: &str = "dev-shm";
/// The time in which orphans must end, and output must close.
const MOMENT: Duration = Duration::from_secs(20);

/// The `/dev/shm` of a job: a folder of its own, hidden from other programs, if the kernel allows
/// that; otherwise the machine's, in which only entries that name this library count.
pub struct Shm {
    folder: PathBuf,
}

impl Shm {
    /// Makes the one for the run in `folder`.
    pub fn new(folder: &Path) -> Shm {
        let folder = folder.join(SHM);
        std::fs::create_dir_all(&folder).expect("a folder for /dev/shm");
        Shm { folder }
    }

    /// Returns the function by which a process enters it after fork. System calls only.
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

/// True if a child may have its own mounts; tried once.
fn may_mount() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let mut command = Command::new("/proc/self/exe");
        let folder = CString::new(env!("CARGO_TARGET_TMPDIR")).expect("no zero in a path");
        // SAFETY: system calls only, after fork.
        unsafe { command.pre_exec(move || mount_over_shm(&folder)) };
        // This test binary, which lists no tests.
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
    // SAFETY: no pointers except to C text; the process was just forked, and its mounts are its
    // own.
    mounts::call(unsafe { libc::mount(from, to, none, libc::MS_BIND, none.cast()) })
}

/// Returns everything the job left, one line each. Its launcher has ended.
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
    if left.is_empty() && !run.output.wait(Instant::now() + MOMENT, |text| text.ends == 2) {
        left.push("its output is still open, so somebody holds it".to_owned());
    }
    left.extend(run.shm.left());
    let files = std::fs::read_dir(&run.folder).into_iter().flatten().flatten();
    let own = |name: &str| name == SHM || run.leaves.iter().any(|leaves| leaves == name);
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| !own(name)).map(|name| format!("file {name}")));
    left
}

/// Reaps those that have ended and are now children of this process.
fn collect(found: &[Found]) {
    for dead in found.iter().filter(|found| found.parent == std::process::id()) {
        let _ = waitpid(Pid::from_raw(dead.pid as i32), WaitOptions::NOHANG);
    }
}

/// Ends a job that is no longer needed.
pub fn kill_all(run: &Running) {
    let end = Instant::now() + MOMENT;
    // The launcher is killed in the first round: processes that it starts meanwhile are found in
    // the second.
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
