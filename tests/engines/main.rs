//! One suite for the engine trait, over every engine that this machine can run.
//!
//! - [`suite`]: the cases     - [`roles`]: protocols between two PEs
//! - [`bench`]: the PEs, as processes that can be killed, or threads     - [`node`]: one of them
//! - [`mapped`]: `self` and `shm` behind the trait     - [`sim`]: a network with seeded delays
//! - [`messages`]: bytes for the events of a peer
//!
//! The suite runs over verbs in a guest (`tests/guests/engines.rs`). A test starts itself again as
//! the driver, because network libraries read their environment before `main`; the driver starts
//! its peers in the same way.

#[path = "../support/random.rs"]
mod random;
#[macro_use]
#[path = "../support/skip.rs"]
mod support;

mod bench;
mod mapped;
mod messages;
mod node;
mod roles;
mod run;
mod sim;
mod suite;

use std::process::Command;

use raidshmem_core::settings::Fabric;
use raidshmem_engines::environment;

use bench::ROLE;

/// Runs the suite over an engine in its own process.
fn over(engine: &str) {
    if run::is_part(engine) {
        return;
    }
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    let exe = std::env::current_exe().expect("the test has a path");
    let fabric =
        Fabric::ALL.into_iter().find(|fabric| Some(fabric.name()) == engine.split(':').next());
    let mut driver = Command::new("timeout");
    driver.args(["-s", "KILL", "240"]).arg(exe).args([&name, "--exact", "--nocapture"]);
    driver.envs(fabric.into_iter().flat_map(environment));
    let ended = driver.env(ROLE, "driver").output().expect("the driver is started");
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{engine}: {}\n{out}\n{err}", ended.status);
    assert!(out.contains("engines: all as promised"), "{engine}: it did nothing\n{out}\n{err}");
}

#[test]
fn a_pe_alone() {
    over("self");
}

#[test]
fn shared_memory() {
    over("shm");
}

#[test]
fn a_simulated_network() {
    over("simulated");
}

#[test]
fn ucx() {
    needs!(has_ucx);
    over("ucx");
}

#[test]
fn libfabric_over_tcp() {
    needs!(has_ofi);
    over("ofi:tcp;ofi_rxm");
}
