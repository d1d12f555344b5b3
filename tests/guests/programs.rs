//! Guests with test programs.

use std::path::{Path, PathBuf};

use crate::image;
use crate::machine::{Guest, Plan};
use crate::support::program;
use crate::switch::Switch;

/// Makes an archive of `oshrun` and these test programs.
pub fn archive(name: &str, programs: &[&str]) -> PathBuf {
    let oshrun = PathBuf::from(env!("CARGO_BIN_EXE_oshrun"));
    let programs = programs.iter().map(|name| program(name));
    let files: Vec<PathBuf> = [oshrun].into_iter().chain(programs).collect();
    image::add(name, &files.iter().map(PathBuf::as_path).collect::<Vec<&Path>>())
}

/// Boots a guest, the only one of its switch, with `oshrun` and these test programs.
pub fn alone(name: &str, programs: &[&str]) -> (Switch, Guest) {
    let payload = archive(name, programs);
    let switch = Switch::new();
    let mut plan = Plan::new(1).with(&payload);
    plan.memory = 1024;
    let mut guest = plan.boot(&switch);
    guest.ready();
    (switch, guest)
}
