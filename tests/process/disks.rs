//! Checkpoints on the disks of their nodes: a job restarts although some are wiped, and reports
//! what is missing if too many are. A folder for each node acts as its disk.

use std::fs;
use std::path::PathBuf;

use super::disk::{LONG, Store, flip_last, refused};
use super::support::{Job, Outcome, jacobi, sample};

/// Four nodes, each with a PE and a disk.
struct Disks(Store);

impl Disks {
    /// Runs a job until it has written at least two sets, and kills all of it.
    fn fill(mode: &str) -> Disks {
        Disks::fill_at(mode, "0")
    }

    /// Like [`Disks::fill`], compressed at that level.
    fn fill_at(mode: &str, level: &str) -> Disks {
        let disks = Disks(Store::new());
        let job = disks.local(disks.0.job(mode, &["--nodes", "4"]));
        // Each set is deleted, damaged and repaired without the others.
        let job = job.env("SHMEM_FT_STORE_INCREMENTAL", "0");
        let job = job.env("SHMEM_FT_STORE_COMPRESS", level);
        let mut run = jacobi::job(job, LONG).with_orphans().start();
        run.wait_for_nth("is on disk", 2); // not set-2, which may be abandoned
        run.kill();
        disks
    }

    fn local(&self, job: Job) -> Job {
        job.env("SHMEM_FT_STORE_LAYOUT", "local")
    }

    fn resume_at(&self, given: &str, mode: &str, words: &[&str]) -> Outcome {
        let job = Job::new(4).mode(mode).args(&["--verbose", "--resume", given]).args(words);
        jacobi::job(self.local(job), LONG).run()
    }

    fn resume(&self, mode: &str) -> Outcome {
        self.resume_at(self.0.text(), mode, &["--nodes", "4"])
    }

    /// Restarts from that set, in any case.
    fn resume_set(&self, set: u64) -> Outcome {
        self.resume_at(&format!("{}@{set}", self.0.text()), "raid5", &["--nodes", "4"])
    }

    fn node(&self, node: usize) -> PathBuf {
        self.0.node(node)
    }

    fn wipe(&self, node: usize) {
        fs::remove_dir_all(self.node(node)).expect("its disk is wiped");
    }

    /// Returns the sets of a node, the newest first.
    fn sets(&self, node: usize) -> Vec<u64> {
        self.0.sets_of(node).into_iter().rev().collect()
    }

    /// Returns the newest set that every node has.
    fn common(&self) -> u64 {
        let all: Vec<Vec<u64>> = (0..4).map(|node| self.sets(node)).collect();
        let everywhere = |set: &&u64| all.iter().all(|sets| sets.contains(set));
        *all[0].iter().find(everywhere).expect("a set that all have")
    }

    /// Deletes everything but one set: the killed job may have left others half written or half
    /// deleted.
    fn keep(&self, set: u64) {
        for node in 0..4 {
            for entry in fs::read_dir(self.node(node)).expect("a disk").flatten() {
                if entry.file_name() != format!("set-{set}").as_str() {
                    fs::remove_dir_all(entry.path()).expect("removed");
                }
            }
        }
    }

    /// Flips a bit in the last tile of a file of a set; a second call restores it.
    fn damage(&self, node: usize, set: u64, name: &str) {
        flip_last(&self.node(node).join(format!("set-{set}")).join(name));
    }
}

/// Fails unless the job reports the source from which that PE was rebuilt.
#[track_caller]
pub(super) fn is_rebuilt(outcome: &Outcome, pe: usize) {
    let of_pe = format!("PE {pe}: ");
    let rebuilt = |line: &str| line.contains(&of_pe) && line.contains(" rebuilt from PE");
    outcome.check(outcome.err.lines().any(rebuilt), &format!("PE {pe} was to be rebuilt"));
}

#[test]
fn a_job_continues_though_as_many_disks_as_parities_are_wiped() {
    let cases = vec![("raid5", &[2][..]), ("raid4", &[3]), ("double", &[1]), ("rs", &[0, 3])];
    for (mode, wiped) in sample(cases, 1) {
        let disks = Disks::fill(mode);
        wiped.iter().for_each(|&node| disks.wipe(node));
        let outcome = disks.resume(mode);
        outcome.right_sum(LONG).says("rebuilt from the parity there").says("all PEs resume from");
        wiped.iter().for_each(|&pe| is_rebuilt(&outcome, pe));
    }
}

#[test]
fn with_all_disks_nothing_is_rebuilt_and_nodes_and_mode_may_be_others() {
    needs!(long);
    let disks = Disks::fill("raid5");
    let whole = disks.resume("raid5");
    whole.right_sum(LONG).says("oshrun: begins from set ");
    whole.check(!whole.err.contains("rebuilt"), "nothing was lost");
    for (mode, words) in [("rs", "4"), ("raid5", "2"), ("double", "1")] {
        let outcome = disks.resume_at(disks.0.text(), mode, &["--nodes", words]);
        outcome.right_sum(LONG).says("oshrun: begins from set ");
    }
}

#[test]
fn a_damaged_tile_counts_as_lost_and_its_file_does_not() {
    needs!(long);
    let disks = Disks::fill("raid5");
    let set = disks.common();
    let resume = || disks.resume_set(set);
    disks.damage(1, set, "parity-1");
    resume().right_sum(LONG).says("parity-1: damaged: the checksum of tile");
    disks.damage(1, set, "parity-1"); // it is intact again
    disks.damage(1, set, "pe-1");
    let outcome = resume();
    outcome.right_sum(LONG).says("pe-1: damaged: the checksum of tile").says("counts as lost");
    is_rebuilt(&outcome, 1);
    // The last tile of another file is in another stripe: two damaged files, and one parity.
    disks.damage(2, set, "pe-2");
    let outcome = resume();
    outcome.right_sum(LONG).says("pe-1: damaged").says("pe-2: damaged");
    is_rebuilt(&outcome, 1);
    is_rebuilt(&outcome, 2);
    // Without a whole third file it is too much: all reach that result once they have read.
    let third = disks.node(3).join(format!("set-{set}")).join("pe-3");
    fs::remove_file(third).expect("removed");
    resume().status(3).says("group 0 lost no PE, parity 1; not usable on PEs 1-3");
}

/// The last tiles of all files are in different stripes: one parity repairs all of them, compressed
/// or not.
#[test]
fn a_damaged_tile_of_every_pe_is_repaired_by_one_parity() {
    needs!(long);
    for level in ["0", "1"] {
        let disks = Disks::fill_at("raid5", level);
        let set = disks.common();
        (0..4).for_each(|node| disks.damage(node, set, &format!("pe-{node}")));
        let outcome = disks.resume_set(set);
        outcome.right_sum(LONG);
        for pe in 0..4 {
            outcome.says(&format!("pe-{pe}: damaged: the checksum of tile"));
            is_rebuilt(&outcome, pe);
        }
    }
}

#[test]
fn damaged_parity_and_lost_disks_of_compressed_sets_are_repaired() {
    needs!(long);
    let disks = Disks::fill_at("raid5", "1");
    let set = disks.common();
    let resume = || disks.resume_set(set);
    disks.damage(3, set, "parity-3");
    resume().right_sum(LONG).says("parity-3: damaged: the checksum of tile");
    disks.damage(3, set, "parity-3");
    disks.wipe(0);
    let outcome = resume();
    outcome.right_sum(LONG).says("rebuilt from the parity there");
    is_rebuilt(&outcome, 0);
}

#[test]
fn more_wiped_disks_than_parities_are_refused_with_one_line() {
    let disks = Disks::fill("raid5");
    disks.wipe(1);
    disks.wipe(2);
    let outcome = disks.resume("raid5");
    refused(&outcome, "unrecoverable: group 0 lost PEs 1,2, parity 1");
    outcome.says("there is no complete checkpoint; set ");
    // Another mode cannot use the parity.
    disks.wipe(3);
    refused(&disks.resume("rs"), "no disk has PEs 1-3, and its parity is of another mode");
    disks.wipe(0);
    refused(&disks.resume("raid5"), "there is no checkpoint on the disk of any node");
    let three = Job::new(3).mode("raid5").args(&["--resume", disks.0.text(), "--nodes", "3"]);
    refused(&jacobi::job(disks.local(three), LONG).run(), "there is no checkpoint on the disk");
}

/// Files missing in the newest set exist in the previous one.
#[test]
fn the_previous_set_is_used_if_too_much_of_the_newest_is_lost() {
    let disks = Disks::fill("raid5");
    let newest = (0..4).filter_map(|node| disks.sets(node).first().copied()).max();
    let newest = newest.expect("a set");
    for node in 1..4 {
        let _ = fs::remove_dir_all(disks.node(node).join(format!("set-{newest}")));
        let entries = fs::read_dir(disks.node(node)).expect("a disk").flatten();
        for part in entries.filter(|it| it.path().extension().is_some_and(|end| end == "part")) {
            fs::remove_dir_all(part.path()).expect("removed");
        }
    }
    let outcome = disks.resume("raid5");
    outcome
        .right_sum(LONG)
        .says(&format!("set {newest} is skipped: unrecoverable: group 0 lost PEs 1-3"));
    outcome.says("is skipped: ").says("oshrun: begins from set ");
}

/// Every byte of the newest set is read before a PE starts. An invalid one is repaired, or the
/// previous set is used.
#[test]
fn a_damaged_byte_in_the_newest_set_is_rebuilt_or_takes_the_previous_one() {
    let disks = Disks(Store::new());
    let job = disks.local(disks.0.job("raid5", &["--nodes", "4"]));
    let job = job.env("SHMEM_FT_STORE_INCREMENTAL", "0").env("SHMEM_FT_STORE_KEEP", "4");
    jacobi::job(job, LONG).run().right_sum(LONG);
    let newest = disks.common();
    for node in 0..4 {
        for newer in disks.sets(node).into_iter().filter(|&set| set > newest) {
            let folder = disks.node(node).join(format!("set-{newer}"));
            fs::remove_dir_all(folder).expect("one that not all have");
        }
    }
    let begins = format!("begins from set {newest},");
    disks.damage(1, newest, "pe-1");
    let outcome = disks.resume("raid5");
    outcome.right_sum(LONG).says("pe-1: damaged: the checksum of tile").says(&begins);
    is_rebuilt(&outcome, 1);
    let older = |outcome: Outcome, why: &str| {
        outcome.right_sum(LONG).says(why).says("oshrun: begins from set ");
        let passed = outcome.count(&format!("set {newest} is skipped: "));
        outcome.check(passed == 1 && outcome.count(&begins) == 0, "the older set, and one line");
        outcome.says("pe-1: damaged: the checksum of tile");
    };
    // Another mode cannot use the parity; other groups of the same mode can.
    older(disks.resume("rs"), "is skipped: /");
    let outcome = disks.resume_at(disks.0.text(), "raid5", &["--nodes", "2"]);
    is_rebuilt(outcome.right_sum(LONG).says(&begins), 1);
    // One parity, and another PE of the stripe has lost both of its files.
    for node in [0, 3] {
        let set = disks.node(node).join(format!("set-{newest}"));
        let moved = disks.0.0.join("moved");
        fs::rename(&set, &moved).expect("moved");
        let outcome = disks.resume("raid5");
        fs::rename(&moved, &set).expect("moved back");
        older(outcome, &format!("group 0 lost PE {node}, parity 1; not usable on PE 1 ("));
    }
}

/// The launcher orders all nodes to commit: one that has done so is enough, even if the others were
/// killed before.
#[test]
fn a_set_that_one_node_has_committed_is_complete() {
    let disks = Disks::fill("raid5");
    let set = disks.common();
    for node in 1..4 {
        let folder = disks.node(node);
        let set = folder.join(format!("set-{set}"));
        fs::remove_file(set.join("manifest")).expect("it has one");
        fs::rename(&set, folder.join(format!("{:016x}-1.part", 7))).expect("renamed");
    }
    let outcome = disks.resume_set(set);
    outcome.right_sum(LONG).says(&format!("begins from set {set}"));
    outcome.check(!outcome.err.contains("rebuilt"), "nothing was lost");
}

/// A PE whose node was lost writes to another node's disk from then on, and restarts there.
#[test]
fn a_pe_that_moved_begins_where_its_file_is() {
    let disks = Disks(Store::new());
    let words = ["--nodes", "4", "--kill-node", "3@3"];
    // A checkpoint made before the agents learn of the previous one overtakes it.
    let job = disks.local(disks.0.job("raid5", &words)).env("SHMEM_FT_INTERVAL", "0.02");
    let mut run = jacobi::job(job, LONG).with_orphans().until("all PEs resume from");
    for _ in 0..2 {
        run.wait_for("is on disk");
    }
    run.kill();
    let outcome = disks.resume("raid5");
    outcome.right_sum(LONG).says("oshrun: begins from set ");
    outcome.check(!outcome.err.contains("rebuilt"), "its file is on another disk");
}

#[test]
fn killed_and_resumed_on_their_own_disks_until_it_is_through() {
    needs!(long);
    let disks = Disks::fill("raid5");
    for more in 1..4 {
        disks.wipe(more);
        let newest = (0..4).filter(|&node| disks.node(node).exists());
        let newest = newest.filter_map(|node| disks.sets(node).first().copied()).max();
        let words = ["--nodes", "4", "--resume", disks.0.text()];
        let job = disks.local(disks.0.job("raid5", &words));
        let mut run = jacobi::job(job, LONG).with_orphans().start();
        let next = format!("set-{},", newest.expect("a set") + 2);
        if run.line_or_end(&next).is_none() {
            run.finish().right_sum(LONG); // it had already ended
            return;
        }
        run.kill();
    }
    disks.resume("raid5").right_sum(LONG);
}

#[test]
fn sets_of_nodes_are_listed_checked_and_deleted() {
    let disks = Disks::fill("raid5");
    let set = disks.common();
    let text = |words: &[&str]| {
        let output = disks.0.oshinfo(words);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, listed) = text(&["--verify"]);
    assert_eq!(status, Some(0), "{listed}");
    for node in 0..4 {
        assert!(listed.contains(&format!("set {set} of node {node}  checkpoint ")), "{listed}");
    }
    disks.damage(3, set, "parity-3");
    let (status, listed) = text(&["--verify"]);
    assert_eq!(status, Some(1), "{listed}");
    assert!(listed.contains(&format!("set {set} of node 3  not whole: ")), "{listed}");
    // A node of an earlier job has an older checkpoint.
    let old = disks.node(9).join("set-0");
    fs::create_dir_all(&old).expect("a disk");
    for name in ["manifest", "pe-3", "parity-3"] {
        let from = disks.node(3).join(format!("set-{}", disks.sets(3).last().expect("a set")));
        fs::copy(from.join(name), old.join(name)).expect("copied");
    }
    let (status, _) = text(&["--prune", "1"]);
    assert_eq!(status, Some(0));
    assert!((0..4).all(|node| disks.sets(node).len() <= 1) && !disks.node(9).exists());
    disks.resume("raid5").right_sum(LONG).says("oshrun: begins from set ");
}

/// Nothing can repair it there: the line names the file, and no PE whose file is intact.
#[test]
fn a_damaged_file_is_named_where_the_parity_is_of_another_mode() {
    let disks = Disks::fill("raid5");
    let set = disks.common();
    disks.damage(1, set, "pe-1");
    let given = format!("{}@{set}", disks.0.text());
    let outcome = disks.resume_at(&given, "rs", &["--nodes", "4"]);
    refused(&outcome, "pe-1: damaged: the checksum of tile");
    outcome.check(!outcome.err.contains("unrecoverable"), "no PE was lost");
}

#[test]
fn a_set_of_which_files_are_missing_is_not_called_complete() {
    let disks = Disks::fill("raid5");
    let set = disks.common();
    let verify = || {
        let output = disks.0.oshinfo(&["--verify"]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let of_node = |listed: &str, node: usize| {
        let begin = format!("set {set} of node {node}  ");
        listed.lines().find(|line| line.starts_with(&begin)).expect("a line").to_owned()
    };
    let (_, listed) = verify();
    assert!(of_node(&listed, 0).contains("  whole  "), "{listed}");
    disks.wipe(2);
    let (status, listed) = verify();
    assert_eq!(status, Some(0), "{listed}");
    assert!(of_node(&listed, 0).contains("  holds, without the files of PE 2  "), "{listed}");
    fs::remove_file(disks.node(1).join(format!("set-{set}")).join("pe-1")).expect("removed");
    let (status, listed) = verify();
    assert_eq!(status, Some(1), "{listed}");
    assert!(of_node(&listed, 1).contains("not whole: "), "{listed}");
    let lost = "  holds, without the files of PEs 1,2  ";
    assert!(of_node(&listed, 0).contains(lost), "{listed}");
}

/// A repair needs no job, and the next job finds every file whole.
#[test]
fn damaged_and_missing_files_are_repaired_and_the_job_resumes() {
    let disks = Disks::fill_at("raid5", "3");
    let set = disks.common();
    disks.keep(set);
    let run = |words: &[&str]| {
        let output = disks.0.oshinfo(words);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    disks.damage(1, set, "parity-1");
    disks.damage(2, set, "pe-2");
    let (status, listed) = run(&["--verify"]);
    assert!(status == Some(1) && listed.contains("; --repair makes it again"), "{listed}");
    let (status, listed) = run(&["--repair"]);
    let made = |name: &str| format!("set {set}  made again: {}/", disks.0.text()) + name;
    assert_eq!(status, Some(0), "{listed}");
    assert!(listed.contains(&made(&format!("node-2/set-{set}/pe-2\n"))), "{listed}");
    assert!(listed.contains(&made(&format!("node-1/set-{set}/parity-1\n"))), "{listed}");
    disks.wipe(3);
    let (status, listed) = run(&["--repair"]);
    assert_eq!(status, Some(0), "{listed}");
    assert!(listed.contains("/pe-3\n") && listed.contains("/manifest\n"), "{listed}");
    let (status, listed) = run(&["--verify"]);
    assert_eq!(status, Some(0), "{listed}");
    assert!(!listed.contains("without the files"), "{listed}");
    let given = format!("{}@{set}", disks.0.text());
    let outcome = disks.resume_at(&given, "raid5", &["--nodes", "4"]);
    outcome.right_sum(LONG).says(&format!("begins from set {set}"));
    outcome.check(!outcome.err.contains("rebuilt"), "nothing was lost any more");
    // More than the parity covers is left as it is.
    disks.damage(0, set, "pe-0");
    fs::remove_file(disks.node(1).join(format!("set-{set}")).join("pe-1")).expect("removed");
    fs::remove_file(disks.node(2).join(format!("set-{set}")).join("pe-2")).expect("removed");
    let (status, listed) = run(&["--repair"]);
    let line = format!("set {set}  not repaired: unrecoverable: group 0 lost ");
    assert!(status == Some(1) && listed.lines().any(|it| it.starts_with(&line)), "{listed}");
}
