//! `oshrun`: starts a job and ends with its status.

use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};

use raidshmem::version::own_build;
use raidshmem_launch::cli::args::Args;
use raidshmem_launch::handshake::{AGENT_ARGUMENT, ALL_DEAD, PROBE_ARGUMENT, SUPERVISOR_ARGUMENT};
use raidshmem_launch::launcher::dry_run;
use raidshmem_launch::lines::{news, say, set_quiet};
use raidshmem_launch::query::Asked;
use raidshmem_launch::{agent, launcher, probe, query, supervisor};
use raidshmem_sys::socket::Channel;
use raidshmem_sys::{environment, inherited, is_open};

fn main() {
    inherited::begin();
    let mut words = std::env::args_os().skip(1).map(|word| word.into_string().unwrap_or_default());
    match words.next().as_deref() {
        Some(AGENT_ARGUMENT) => std::process::exit(run_agent(words.next())),
        Some(SUPERVISOR_ARGUMENT) => {
            std::process::exit(run_supervisor(&words.collect::<Vec<String>>()))
        }
        Some(PROBE_ARGUMENT) => std::process::exit(probe::answer(words.next().as_deref())),
        _ => {}
    }
    let args = Args::of(std::env::args_os());
    if let Ok(Ok(Some((what, job)))) = args.as_ref().map(Args::question) {
        std::process::exit(ask(what, job));
    }
    let ready = args.and_then(|args| args.prepare(environment())).unwrap_or_else(|error| {
        say(&error.to_string());
        std::process::exit(2)
    });
    set_quiet(ready.quiet);
    ready.notes.iter().for_each(|note| news(note));
    if ready.protected.survives.is_some() && !ready.settings.checksum {
        news("SHMEM_FT_CHECKSUM=0: damage to a checkpoint goes undetected and is restored as data");
    }
    if ready.dry_run {
        print(&dry_run::text(&ready));
        std::process::exit(0);
    }
    let readers = ready.open_outputs().unwrap_or_else(|error| {
        say(&error.to_string());
        std::process::exit(2)
    });
    match launcher::run(ready, readers, own_build()) {
        Ok(status) => std::process::exit(status),
        Err(error) => {
            say(&error.to_string());
            std::process::exit(error.status());
        }
    }
}

/// Prints an answer; its reader may have seen enough.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn ask(what: Asked, job: &str) -> i32 {
    match query::ask(what, job) {
        Ok(text) => {
            print(&text);
            0
        }
        Err(error) => {
            say(&error.to_string());
            2
        }
    }
}

fn run_agent(fd: Option<String>) -> i32 {
    let Some(fd) = fd.and_then(|fd| fd.parse().ok()).filter(|fd| is_open(*fd)) else {
        say("an agent is started by oshrun itself");
        return 2;
    };
    // SAFETY: the launcher left this descriptor open for this process and named it in the first
    // argument; nothing else here uses it.
    let channel = Channel::inherited(unsafe { OwnedFd::from_raw_fd(fd) });
    match agent::run(channel, own_build()) {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            1
        }
    }
}

fn run_supervisor(words: &[String]) -> i32 {
    match supervisor::run(words) {
        Ok(true) => 0,
        Ok(false) => ALL_DEAD,
        Err(error) => {
            say(&error.to_string());
            2
        }
    }
}
