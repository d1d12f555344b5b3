//! Daemons on the hosts of a test's network, with a folder for their configuration and output. All
//! processes on the hosts, and the folder, are removed with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::net::Net;

pub struct Daemons {
    pub net: Net,
    folder: PathBuf,
    running: Vec<Child>,
}

impl Daemons {
    /// Makes a network of this many hosts, and an empty folder whose name begins with `name`.
    pub fn new(name: &str, hosts: usize) -> Daemons {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Daemons { net: Net::new(hosts), folder, running: Vec::new() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).into_os_string().into_string().expect("a plain name")
    }

    /// Starts the next daemon.
    pub fn start(&mut self, mut command: Command) {
        self.running.push(command.spawn().expect("ip runs"));
    }

    /// Waits until `so`.
    #[track_caller]
    pub fn wait_for(&self, what: &str, limit: Duration, so: impl Fn() -> bool) {
        let end = Instant::now() + limit;
        while !so() {
            assert!(Instant::now() < end, "no {what} (see .ci/setup)\n{}", self.report());
            std::thread::yield_now();
        }
    }

    /// Returns all text in the folder.
    pub fn report(&self) -> String {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let text = files.filter_map(|file| {
            let text = fs::read_to_string(file.path()).ok()?;
            Some(format!("--- {}\n{text}", file.file_name().display()))
        });
        text.collect()
    }

    /// Returns the process id of the `nth` daemon started.
    pub fn id(&self, nth: usize) -> u32 {
        self.running[nth].id()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.net.kill_all();
        for daemon in &mut self.running {
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
