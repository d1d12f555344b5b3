//! `oshrun`: starts a job and ends with its status.

use std::os::fd::{FromRawFd, OwnedFd};

use clap::Parser;
use raidshmem::launch::args::Args;
use raidshmem::launch::{agent, launcher};
use raidshmem::sys::socket::Channel;

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(launcher::AGENT_ARGUMENT) {
        std::process::exit(run_agent(words.next()));
    }
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let ready = match Args::parse().prepare(environment) {
        Ok(ready) => ready,
        Err(error) => {
            eprintln!("oshrun: {error}");
            std::process::exit(2);
        }
    };
    if let Some(survives) =
        ready.survives.as_ref().filter(|_| ready.fragile || ready.settings.report)
    {
        eprintln!("oshrun: {}: {survives}", ready.settings.backup_mode.name());
    }
    for (name, value) in ready.settings.to_env() {
        // SAFETY: this process has one thread; its children must see the settings in force.
        unsafe { std::env::set_var(name, value) };
    }
    let (shape, settings) = (&ready.shape, &ready.settings);
    match launcher::run(shape, settings, ready.site, ready.heap_len, &ready.program) {
        Ok(status) => std::process::exit(status),
        Err(error) => {
            eprintln!("oshrun: {error}");
            std::process::exit(1);
        }
    }
}

fn run_agent(fd: Option<String>) -> i32 {
    let Some(fd) = fd.and_then(|fd| fd.parse().ok()) else {
        eprintln!("oshrun: an agent is started by oshrun itself");
        return 2;
    };
    // SAFETY: the launcher left this descriptor open for this process and named it in the first
    // argument; nothing else here uses it.
    let channel = Channel::inherited(unsafe { OwnedFd::from_raw_fd(fd) });
    match agent::run(channel) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("oshrun: agent: {error}");
            1
        }
    }
}
