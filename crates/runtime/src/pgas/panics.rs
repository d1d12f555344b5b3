//! A panic of the library ends the job: it is reported in one line, and there is no substitute,
//! which would only panic again.
//!
//! ```text
//! in a C program        all panics are the library's
//! in a Rust program     panics located in the sources of this repository, except in the safe API
//!                       (`src/shmem`), whose panics report misuse by the program
//! else                  the program's own: handled by the hook that it installed
//! ```
//!
//! Left out: the launcher and agents, which are not PEs.

#![forbid(unsafe_code)]

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};

use raidshmem_core::ended::UNRECOVERABLE;
use raidshmem_core::message::PeMessage;
use raidshmem_sys::exit;
use raidshmem_sys::socket::Channel;

use super::complain::complain;

/// Path of this file in the repository.
const HERE: &str = "crates/runtime/src/pgas/panics.rs";
/// Folders with sources of the library.
const OURS: &[&str] = &["src/", "crates/", "codec/", "ofi-sys/", "rdma-sys/", "ucx-sys/"];
/// Folder of the safe API.
const API: &str = "src/shmem/";

/// The connection to the agent, which notifies the launcher.
static AGENT: OnceLock<Arc<Channel>> = OnceLock::new();
/// True if the program is in C.
static IS_C: AtomicBool = AtomicBool::new(false);
/// True once a thread ends the job.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Declares that the program is in C, and has no panics of its own.
pub fn all_are_ours() {
    IS_C.store(true, Ordering::Relaxed);
}

/// Sets the agent that is notified of a panic.
pub(super) fn set_agent(agent: &Arc<Channel>) {
    AGENT.get_or_init(|| Arc::clone(agent));
}

/// Sends `message` to the agent, before there is a world. Returns false if no agent receives it.
pub(super) fn send(message: &PeMessage) -> bool {
    AGENT.get().is_some_and(|agent| agent.send(message, &[]).is_ok())
}

/// Makes panics of the library end the job from now on.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match is_ours(panic) {
            true => end(panic),
            false => before(panic),
        }));
    });
}

fn is_ours(panic: &PanicHookInfo) -> bool {
    let file = panic.location().map_or("", |place| place.file());
    IS_C.load(Ordering::Relaxed) || is_of_the_library(file, file!())
}

/// Returns true if `file` is a source of the library, in which this file is called `here`.
fn is_of_the_library(file: &str, here: &str) -> bool {
    let root = here.strip_suffix(HERE).unwrap_or(here);
    let inside = file.strip_prefix(root);
    inside.is_some_and(|inside| {
        OURS.iter().any(|folder| inside.starts_with(folder)) && !inside.starts_with(API)
    })
}

fn end(panic: &PanicHookInfo) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        park(); // another thread reports it
    }
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
    let what = words(panic).replace('\n', " ");
    complain(&format!("a library bug{}: {what}", place.unwrap_or_default()));
    let exit = PeMessage::GlobalExit { status: UNRECOVERABLE, words: None };
    if send(&exit) {
        park(); // the launcher ends every PE
    }
    exit::end(UNRECOVERABLE)
}

fn words<'a>(panic: &'a PanicHookInfo) -> &'a str {
    let payload = panic.payload();
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    payload.downcast_ref::<&str>().copied().or_else(owned).unwrap_or("no words")
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_librarys_or_the_programs() {
        let registry = "/home/u/.cargo/git/checkouts/raidshmem-1/2/";
        let here = format!("{registry}{HERE}");
        for (inside, ours) in [
            ("crates/runtime/src/pgas/remote.rs", true),
            ("codec/src/lib.rs", true),
            ("src/shmem/token.rs", false),
        ] {
            assert_eq!(is_of_the_library(&format!("{registry}{inside}"), &here), ours);
            assert_eq!(is_of_the_library(inside, HERE), ours);
            assert!(!is_of_the_library(inside, &here), "a file of that name of the program");
        }
        assert!(!is_of_the_library("tests/programs/main.rs", HERE));
    }
}
