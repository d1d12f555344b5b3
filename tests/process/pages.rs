//! Huge pages for large heaps and their checkpoints: with the right to mount, with a namespace's
//! instead, and without either; also in substitutes.

use raidshmem_sys::huge::HugeFiles;
use raidshmem_sys::memory;

use super::support::{Job, Outcome, program};

/// KiB of live data of a PE.
const LIVE: u64 = 24 << 10;
/// No loss, one PE with adopted memory, one that is rebuilt, and several in turn.
const LOSSES: [&str; 4] =
    ["", "--kill 1@2", "--nodes 4 --kill-node 1@2", "--nodes 4 --kill 2@2 --kill-node 0@3:copy"];

fn job(losses: &str) -> Job {
    let job = Job::line(losses).mode("raid5").env("SHMEM_SYMMETRIC_SIZE", "64M");
    job.program(&program("pages"), &[])
}

/// Returns KiB of heap and of store in huge pages, for each PE.
#[track_caller]
fn pages(outcome: &Outcome) -> Vec<[u64; 2]> {
    let lines = outcome.status(0).out.lines().filter(|line| line.starts_with("pages "));
    let pages: Vec<[u64; 2]> = lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            [3, 5].map(|at| words[at].parse::<u64>().expect("KiB"))
        })
        .collect();
    outcome.check(pages.len() == 4, "a line of each PE");
    pages
}

/// Checks for a snapshot and two slots of a third of it, apart from the ends of the parts.
#[track_caller]
fn all_large(outcome: &Outcome) {
    let large = |&[heap, store]: &[u64; 2]| heap >= LIVE - 4096 && store >= LIVE * 5 / 3 - 6144;
    outcome.check(pages(outcome).iter().all(large), "huge pages everywhere");
}

#[track_caller]
fn all_small(outcome: &Outcome) {
    outcome.check(pages(outcome).iter().all(|kib| *kib == [0, 0]), "no huge pages");
}

/// Returns commands that drop the right to mount and, if `namespaces` is false, also the right to
/// make a namespace that has it.
fn without_rights(namespaces: bool) -> String {
    let bare = "exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin";
    match namespaces {
        true => format!("{bare} -- \"$@\""),
        false => {
            let forbid = "echo 0 > /proc/sys/user/max_user_namespaces";
            let inside = format!("{forbid} && {bare} -- \"$0\" \"$@\"");
            format!("exec unshare --user --map-root-user sh -c '{inside}' \"$@\"")
        }
    }
}

/// True if the administrator allows huge pages in memory files without a file system of their own.
fn others_have_them() -> bool {
    let word = memory::huge_pages().unwrap_or_default();
    ["always", "within_size", "advise", "force"].contains(&word.as_str())
}

#[test]
fn heaps_and_checkpoints_have_huge_pages_whichever_node_is_lost() {
    needs!(long, huge_pages_are_free);
    let large = HugeFiles::new().is_ok() || others_have_them();
    for losses in LOSSES {
        let outcome = job(losses).run();
        if large { all_large(&outcome) } else { all_small(&outcome) }
    }
}

#[test]
fn without_mounts_a_namespace_serves_and_without_that_small_pages() {
    needs!(long, huge_pages_are_free);
    for losses in [LOSSES[0], LOSSES[3]] {
        let outcome = job(losses).after(&without_rights(true)).run();
        let large = HugeFiles::by_namespace().is_ok() || others_have_them();
        if large {
            all_large(&outcome)
        } else {
            all_small(&outcome)
        }
        if HugeFiles::by_namespace().is_ok() {
            let outcome = job(losses).after(&without_rights(false)).run();
            if others_have_them() { all_large(&outcome) } else { all_small(&outcome) }
        } else {
            super::support::partly(
                "mounts",
                "no user namespaces: huge pages need the right to mount",
            );
        }
    }
}

#[test]
fn small_heaps_and_users_who_ask_for_it_have_small_pages() {
    needs!(long);
    let forced = ["always", "force"].map(|word| memory::huge_pages().as_deref() == Some(word));
    if forced.contains(&true) {
        return super::support::skip("small-pages", "all shared memory here has huge pages");
    }
    all_small(&job("").env("SHMEM_FT_PAGES", "small").run());
    all_small(&job("").env("SHMEM_SYMMETRIC_SIZE", "31M").run());
    Job::new(1)
        .env("SHMEM_FT_PAGES", "large")
        .program(&program("pages"), &[])
        .run()
        .status(2)
        .says("SHMEM_FT_PAGES=large: expected auto, small");
}

/// Memory that a program allocates costs the same in every mode, until its first checkpoint.
#[test]
fn memory_that_is_allocated_takes_none_before_a_checkpoint_does() {
    needs!(long);
    for mode in ["none", "single", "raid5", "rs"] {
        for pages in ["auto", "small"] {
            let job = Job::new(4).mode(mode).env("SHMEM_SYMMETRIC_SIZE", "160M");
            let outcome = job.env("SHMEM_FT_PAGES", pages).program(&program("lazy"), &[]).run();
            outcome.status(0).check(outcome.out == "lazy ok\n", "one line");
        }
    }
}
