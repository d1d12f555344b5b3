//! The guests themselves: RDMA's own tools find soft-RoCE in one guest, and between two.

use crate::machine::{Plan, address};
use crate::switch::Switch;

/// Runs `tool` as server in the background and as client until the server listens.
fn both(tool: &str, to: &str) -> String {
    let client = client(tool, to);
    format!("{tool} > /tmp/server 2>&1 & {client} && wait $!")
}

fn client(tool: &str, to: &str) -> String {
    let listens = "netstat -ltn | grep -q :18515";
    format!("for i in $(seq 200); do {listens} && break; usleep 50000; done; {tool} {to}")
}

#[test]
fn soft_roce_in_one_guest() {
    let switch = Switch::new();
    let mut guest = Plan::new(1).boot(&switch);
    guest.ready();
    let devices = guest.must("ibv_devinfo");
    assert!(devices.contains("rxe0") && devices.contains("PORT_ACTIVE"), "{devices}");
    let said = guest.must(&both("ibv_rc_pingpong -d rxe0 -g 1", &address(1)));
    assert!(said.contains("usec/iter"), "{said}");
    let said = guest.must(&both("ib_write_bw -d rxe0 -x 1 -n 200", &address(1)));
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&"65536")
            && words.get(3).is_some_and(|rate| rate.parse().is_ok_and(|rate: f64| rate > 0.0))
    };
    assert!(said.lines().any(row), "no bandwidth of 64 KiB: {said}");
}

#[test]
fn soft_roce_between_two_guests() {
    let switch = Switch::new();
    let mut guests = [1, 2].map(|number| Plan::new(number).boot(&switch));
    guests.iter_mut().for_each(|guest| guest.ready());
    let [server, other] = &mut guests;
    let tool = "ibv_rc_pingpong -d rxe0 -g 1";
    server.must(&format!("{tool} > /tmp/server 2>&1 &"));
    server
        .must("for i in $(seq 200); do netstat -ltn | grep -q :18515 && break; usleep 50000; done");
    let said = other.must(&format!("{tool} {}", address(1)));
    assert!(said.contains("usec/iter"), "{said}");
    server.must("until grep -q usec/iter /tmp/server; do usleep 50000; done");
}
