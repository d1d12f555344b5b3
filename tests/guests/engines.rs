//! The suite of `tests/engines` over verbs, inside a guest with soft-RoCE.

#[path = "../engines/bench.rs"]
mod bench;
#[path = "../engines/mapped.rs"]
mod mapped;
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

/// Rounds of a litmus test on an emulated processor.
const ROUNDS: u32 = 200;

#[test]
fn verbs() {
    if run::is_part("verbs") {
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
    let words = "engines::verbs --exact --nocapture";
    let said = guest.must(&format!("ulimit -l unlimited; {role} {} {words}", exe.display()));
    assert!(said.contains("engines: all as promised"), "{said}");
}
