//! Control groups with a memory limit, of either version; removed when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use raidshmem_sys::cgroup;

/// A group without processes.
pub struct Group(PathBuf);

impl Group {
    /// Makes a group of at most `limit` bytes, below a group of this process.
    ///
    /// # Errors
    /// The reason why this machine allows none.
    pub fn new(limit: u64) -> Result<Group, String> {
        let mut why = "no memory controller is mounted".to_owned();
        for above in cgroup::own("memory") {
            match Group::below(&above, limit) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("{}: {error}", above.display()),
            }
        }
        Err(why)
    }

    fn below(above: &Path, limit: u64) -> std::io::Result<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        clear(above);
        let folder = above.join(format!("rshm{}-{nth}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group(folder);
        let limits = ["memory.max", "memory.limit_in_bytes"].map(|file| group.0.join(file));
        let file = limits.iter().find(|file| file.exists());
        let file = file.ok_or_else(|| std::io::Error::other("it does not limit memory"))?;
        fs::write(file, limit.to_string())?;
        Ok(group)
    }

    /// Returns a command with which a shell moves into the group, with all its children, or ends.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs || exit 9", self.0.display())
    }
}

/// Removes the groups of killed tests, unless a process is in them.
fn clear(above: &Path) {
    for group in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = group.file_name();
        let maker = || name.to_str()?.strip_prefix("rshm")?.split_once('-')?.0.parse::<u32>().ok();
        if maker().is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}
