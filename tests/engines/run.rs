//! The part that a process of the suite plays: its driver, a peer, or neither.

use super::bench::{Alone, Processes, ROLE, Simulated, serve};
use super::messages;
use super::suite::{conform, conform_by_device};

/// Seeds of the simulated network, and of the times of death.
const SEEDS: std::ops::Range<u64> = 1..5;

/// Plays the part named in the environment, if any, and returns true if there was one.
pub fn is_part(engine: &str) -> bool {
    match std::env::var(ROLE).as_deref() {
        Ok("peer") => serve(engine),
        Ok(_) => drive(engine),
        Err(_) => return false,
    }
    true
}

fn drive(engine: &str) {
    match engine {
        "self" => conform(&mut Alone::new(), 1),
        "simulated" => SEEDS.for_each(|seed| conform(&mut Simulated::new(seed), seed)),
        "verbs-atomics" => conform_by_device(&mut Processes::new(engine), 1),
        _ => {
            let mut processes = Processes::new(engine);
            conform(&mut processes, 1);
            if engine != "shm" {
                messages::conform(&mut processes, 1);
                if engine != "verbs" {
                    messages::first_words(&mut processes);
                }
            }
        }
    }
    println!("engines: all as promised");
}
