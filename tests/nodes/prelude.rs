//! Calls before the first checkpoint call, over UCX: a substitute on another host gets the results
//! that the PEs of a lost one got.

use super::net::Net;
use super::support::prelude::table;

#[test]
fn every_routine_gives_a_substitute_what_it_gave_before() {
    needs!(has_ucx);
    for words in [["--kill", "1@2"], ["--kill-node", "2@2"]] {
        let net = Net::new(4);
        let job = net.job(&[1, 1, 1, 1]).args(&["--verbose", "--fabric", "ucx"]).args(&words);
        let outcome = job.mode("raid5").with_orphans().program(&table(), &["table"]).run();
        outcome.all_print(4, " is right").says("all PEs resume from checkpoint");
    }
}
