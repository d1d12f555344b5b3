//! The suite of `tests/engines` over verbs, inside a guest with soft-RoCE.

#[path = "../engines/bench.rs"]
mod bench;
#[path = "../engines/mapped.rs"]
mod mapped;
#[path = "../engines/messages.rs"]
mod messages;
#[path = "../engines/node.rs"]
mod node;
#[path = "../engines/roles.rs"]
mod roles;
#[path = "../engines/run.rs"]
mod run;
#[path = "../engines/sim.rs"]
mod sim;
#[path = "../engines/suite.rs"]
mod suite;

use crate::image;
use crate::machine::Plan;
use crate::support::random;
use crate::switch::Switch;

/// The engine's name, in the environment inside the guest. `verbs-atomics` uses the device's
/// atomics, although soft-RoCE promises that they are atomic only with one another: so jobs do not
/// use them.
const ENGINE: &str = "ENGINE_NAME";
/// Rounds of a litmus test on an emulated processor.
const ROUNDS: u32 = 200;

#[test]
fn verbs() {
    let engine = std::env::var(ENGINE).unwrap_or("verbs".to_owned());
    if run::is_part(&engine) {
        return;
    }
    let exe = std::env::current_exe().expect("the test has a path");
    let payload = image::add("engines", &[&exe]);
    let switch = Switch::new();
    let mut plan = Plan::new(1).with(&payload);
    plan.memory = 1024;
    let mut guest = plan.boot(&switch);
    guest.ready();
    let role = format!("{}=driver ENGINE_ROUNDS={ROUNDS}", bench::ROLE);
    let words = format!("{} engines::verbs --exact --nocapture", exe.display());
    // Over the device, too, some memory cannot be pinned.
    let refused =
        "raidshmem: PE 1: fabric verbs: locked memory: 1048576 bytes cannot be registered";
    for (engine, line) in [("verbs", None), ("verbs-atomics", Some(refused))] {
        let said = guest.must(&format!("ulimit -l unlimited; {ENGINE}={engine} {role} {words}"));
        assert!(said.contains("engines: all as promised"), "{said}");
        assert!(said.contains("cannot be registered") == line.is_some(), "{said}");
        assert!(line.is_none_or(|line| said.contains(line)), "{said}");
    }
}
