//! PEs of different hosts, which reach each other by the engine over UCX and survive a host's loss.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use raidshmem_core::page::PAGE;
use raidshmem_sys::written::Watch;
use rustix::process::Signal;

use super::net::{Net, agent};
use super::support::image::{self, Image};
use super::support::jacobi::{self, TINY};
use super::support::{Job, networks, partly, processes, program, program_with};

fn over_ucx(net: &Net, counts: &[usize]) -> Job {
    over(net, "ucx", counts)
}

fn over(net: &Net, fabric: &str, counts: &[usize]) -> Job {
    net.job(counts).args(&["--fabric", fabric])
}

#[test]
fn transfers_and_order_are_as_promised_between_hosts() {
    for fabric in networks() {
        let net = Net::new(2);
        let outcome = over(&net, fabric, &[1, 1]).program(&program("litmus"), &["apart"]).run();
        outcome.status(0).prints("all as promised");
    }
}

#[test]
fn constants_are_symmetric_between_hosts() {
    for fabric in networks() {
        let net = Net::new(3);
        let job = over(&net, fabric, &[1, 2, 1]).mode("raid5").kill(&["1@3"]);
        let outcome = job.program(&program("constants"), &[]).run();
        outcome.status(0).prints("constants ok");
    }
}

/// The provider that is named is the one that carries the data, and one that no host has is refused
/// in a line.
#[test]
fn the_provider_of_libfabric_is_the_one_that_is_named() {
    needs!(has_ofi);
    let net = Net::new(2);
    let by = |provider: &str| {
        let job = over(&net, "ofi", &[1, 1]).mode("none").env("SHMEM_FT_PROVIDER", provider);
        job.program(&program("litmus"), &["apart"]).run()
    };
    by("tcp;ofi_rxm").status(0);
    let outcome = by("cxi");
    outcome.status(1).says("fabric ofi: provider: SHMEM_FT_PROVIDER=cxi: expected one of");
}

/// Returns the TCP connections of a process, from the kernel's tables.
fn connections(pid: u32) -> usize {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    let of_namespace = read("tcp").expect("a table") + &read("tcp6").unwrap_or_default();
    let established: BTreeSet<String> = of_namespace
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.get(3) == Some(&"01"))
        .map(|words| format!("socket:[{}]", words[9]))
        .collect();
    let own = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let own = own.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    own.filter(|to| established.contains(&*to.to_string_lossy())).count()
}

/// In a barrier one PE of each host meets a logarithm of the hosts; the other knows its neighbours.
#[test]
fn a_ring_makes_no_more_connections_however_many_hosts_there_are() {
    needs!(has_ucx);
    for hosts in [4usize, 8] {
        let net = Net::new(hosts);
        let job = over_ucx(&net, &vec![2; hosts]).mode("none");
        let mut run = job.program(&program("ring"), &[]).start();
        let pids: Vec<u32> = (0..2 * hosts).map(|pe| run.pid_of(pe)).collect();
        run.wait_for("ready");
        let counts: Vec<usize> = pids.into_iter().map(connections).collect();
        run.end().status(0);
        let rounds = hosts.ilog2() as usize;
        for (pe, &count) in counts.iter().enumerate() {
            let most = if pe % 2 == 0 { 2 * rounds + 2 } else { 2 };
            assert!((1..=most).contains(&count), "{hosts} hosts, PE {pe}: {counts:?}");
        }
        println!("{hosts} hosts, connections of each PE: {counts:?}");
    }
}

#[test]
fn a_lost_process_and_a_lost_host_lose_no_byte() {
    let net = Net::new(4);
    for (fabric, mode) in networks().into_iter().flat_map(|net| [(net, "raid5"), (net, "rs")]) {
        let job = || over(&net, fabric, &[1, 1, 1, 1]).mode(mode);
        jacobi::job(job().kill(&["1@3"]), TINY).run().right_sum(TINY);
        let job = job().kill_node(&["2@3"]).with_orphans();
        jacobi::job(job, TINY).run().right_sum(TINY);
    }
}

/// Read-only data is decoded from other hosts, and a put from one is refused at its source.
#[test]
fn read_only_memory_is_decoded_from_other_hosts() {
    needs!(has_ucx);
    let net = Net::new(5);
    let path = program_with("readonly", &["-pthread"]);
    for words in ["--kill-node 1@4", "--kill-node 2@6:encode", "--kill 3@7", "--kill-node 0@8:copy"]
    {
        let job = over_ucx(&net, &[1, 1, 1, 1, 0]).mode("raid5").words(words).with_orphans();
        // Without a spare host groups would become pairs, whose parity takes as much as a copy.
        let job = job.args(&["--spares", "1"]);
        let outcome = job.program(&path, &[]).run();
        outcome.status(0).prints("readonly ok");
    }
    let job = over_ucx(&net, &[1, 1, 1, 1]).mode("raid5").program(&path, &["put"]);
    job.run().status(3).says("PE 1: a write to memory of PE 2 that is read-only");
}

/// The PE on the same host keeps the lost PE's memory mapped, and so does this test: only its
/// host's agent can free it.
#[test]
fn memory_of_a_pe_that_moved_to_a_spare_on_another_host_is_given_back() {
    needs!(has_ucx);
    let net = Net::new(4);
    let job = over_ucx(&net, &[2, 1, 1, 0]).args(&["--verbose", "--spares", "1"]).mode("raid5");
    let job = job.env("SHMEM_FT_SUBSTITUTE", "spare").env("SHMEM_FT_GROUP_SIZE", "4");
    let mut run = job.program(&program("steps"), &[]).start();
    let moves = run.pid_of(0);
    run.wait_for("ready");
    let of_host = |run: &_, host: usize| image::all(agent(run, host).pid);
    let pes = |images: &[Image]| images.iter().map(|image| image.pe).collect::<Vec<_>>();
    let before = of_host(&run, 0);
    assert_eq!(pes(&before), [0, 1]);
    // A process that still maps it may read there once more, which allocates a page.
    let is_given_back = |image: &Image| image.allocated() <= 4 * PAGE;
    assert!(!before.iter().any(is_given_back), "both are in use");
    processes::signal(moves, Signal::KILL);
    run.wait_for("all PEs resume from checkpoint");
    run.wait_until("memory is given back", |_| is_given_back(&before[0]));
    assert!(!is_given_back(&before[1]), "the memory of the PE that stayed is in use");
    assert_eq!(pes(&of_host(&run, 0)), [1]);
    assert_eq!(pes(&of_host(&run, 3)), [0], "it is on the host of the spare");
    let outcome = run.end();
    outcome.status(0).says("PE 0 was killed by SIGKILL").says("rebuilt from PE");
}

/// Hosts on one machine share its processors: the topological equivalents are the same ones.
#[test]
fn substitutes_on_another_host_are_bound_as_they_were() {
    needs!(has_ucx);
    let net = Net::new(4);
    let bound = |name: &str, words: &[&str], faults: &[&str]| {
        let job = over_ucx(&net, &[2, 1, 1, 0]).args(&["--verbose", "--spares", "2"]).mode("rs");
        let job = job.env("SHMEM_FT_SUBSTITUTE", "spare").args(faults);
        let outcome = job.program(&program(name), words).run();
        outcome.status(0);
        let lines = outcome.out.lines().filter(|line| line.starts_with(name));
        let where_to = |line: &str| line.split(" near ").next().map(str::to_owned);
        let mut lines: Vec<String> = lines.filter_map(where_to).collect();
        lines.sort_unstable();
        (lines, outcome)
    };
    for (name, words, lines) in [("moved", &[][..], 4), ("affinity", &["once"], 12)] {
        let (before, _) = bound(name, words, &[]);
        let (after, outcome) = bound(name, words, &["--kill-node", "0@2"]);
        outcome.says("node 0").says("was lost");
        outcome.check(before.len() == lines, "a line for each PE and thread");
        assert_eq!(after, before, "{outcome}");
    }
}

/// Puts from other hosts arrive through the target's own process: its page tables show them.
#[test]
fn pages_that_other_hosts_write_are_in_the_next_checkpoint() {
    let (net, networks) = (Net::new(3), networks());
    let path = program_with("written", &["-pthread"]);
    for (seed, words) in [
        (1, ""),
        (2, "--kill 2@9:copy"),
        (3, "--kill-node 1@8"),
        (4, "--kill 0@5 --kill-node 2@11"),
    ] {
        let Some(fabric) = networks.get(seed % networks.len().max(1)) else { return };
        let job = over(&net, fabric, &[2, 2, 2]).mode("raid5").args(&["--verbose"]).words(words);
        let job = job.env("SHMEM_FT_GROUP_SIZE", "3").env("SHMEM_FT_ADOPT", "0").with_orphans();
        let job = job.env("SHMEM_FT_DELTA", "on").env("SHMEM_FT_TRACK", "pages");
        let outcome = job.program(&path, &[&seed.to_string()]).run();
        outcome.all_print(6, " is right");
        match Watch::new(true) {
            Ok(_) => outcome.check(outcome.count(", by pages") >= 4, "checkpoints by pages"),
            Err(error) => partly("page-watch", &format!("no pages are watched: {error}")),
        }
    }
}

#[test]
fn network_library_settings_of_the_user_apply_on_every_host() {
    needs!(has_ucx);
    let net = Net::new(2);
    let job = over_ucx(&net, &[1, 1]).mode("none").env("UCX_KEEPALIVE_INTERVAL", "3s");
    let outcome = job.program(&program("exits"), &["show"]).run();
    outcome.status(0);
    let count = |word: &str| outcome.out.lines().filter(|line| *line == word).count();
    let counts = ["UCX_KEEPALIVE_INTERVAL=3s", "UCX_MEM_EVENTS=n"].map(count);
    outcome.check(counts == [2, 2], "both PEs should have both");
}

/// Only the loader of host 1 finds no library.
#[test]
fn a_host_that_lacks_the_engine_is_named_in_a_line() {
    needs!(has_ucx);
    let net = Net::new(2);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(net.host(1));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("libucp.so.0"), "").expect("a file that is no library");
    let hide = folder.join("on");
    let script = format!(
        "#!/bin/sh\nhost=$1\nshift\n[ $host = {} ] && export LD_LIBRARY_PATH={}\n\
         exec ip netns exec $host \"$@\"\n",
        net.host(1),
        folder.display()
    );
    std::fs::write(&hide, script).expect("a script");
    std::fs::set_permissions(&hide, PermissionsExt::from_mode(0o755)).expect("it may be run");
    for fabric in ["auto", "ucx"] {
        let job = net.job_by(&format!("{} {{host}}", hide.display()), &[1, 1]);
        let job = job.args(&["--fabric", fabric, "sleep", "1000"]);
        let outcome = job.run();
        let line = format!(
            "oshrun: node 1 ({}): fabric ucx: {}: file too short; expected UCX 1.13 or newer \
             (Debian: apt-get install libucx0)\n",
            net.host(1),
            folder.join("libucp.so.0").display()
        );
        outcome.status(1).check(outcome.err == line, &format!("`{line}` was expected"));
    }
    std::fs::remove_dir_all(folder).expect("it was made");
}
