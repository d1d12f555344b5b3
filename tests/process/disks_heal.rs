//! Sets on the disks of their nodes, of a job that has formed new parity groups after a loss: each
//! set is decoded with the groups that it was encoded with. A folder for each node acts as its
//! disk.

use std::collections::BTreeSet;
use std::fs;

use super::HEAL;
use super::disk::{LONG, Store, refused};
use super::disks::is_rebuilt;
use super::falls::{FELL, kill_nodes};
use super::heal::{ANEW, SURVIVES};
use super::support::{Job, Outcome, Running, jacobi, sample, sample_long};

/// The node that is lost. Its PE moves, and its disk keeps only sets from before.
const LOST: usize = 2;

/// A job that lasts until it is killed.
const LONGER: &[&str] = &["--bytes", "2M", "--sweeps", "16384", "--halo", "16"];

/// A job of a PE on each node, with a disk each.
struct Disks {
    store: Store,
    pes: usize,
}

impl Disks {
    fn new(pes: usize) -> Disks {
        Disks { store: Store::new(), pes }
    }

    fn job(&self) -> Job {
        let nodes = self.pes.to_string();
        let job = Job::new(self.pes).mode("raid5").args(&["--verbose", "--nodes", &nodes]);
        job.env("SHMEM_FT_STORE_LAYOUT", "local")
    }

    /// Returns a job that keeps every set, each by itself.
    fn storing(&self) -> Job {
        let job =
            self.job().env("SHMEM_FT_STORE", self.store.text()).env("SHMEM_FT_INTERVAL", "0.02");
        let job = job.env("SHMEM_FT_STORE_EVERY", "1").env("SHMEM_FT_STORE_KEEP", "999");
        job.env("SHMEM_FT_STORE_INCREMENTAL", "0")
    }

    /// Starts a job that writes sets, loses a node, forms new groups and writes further sets.
    fn healed(&self) -> Running {
        let mut run = jacobi::job(self.storing(), LONG).with_orphans().start();
        run.wait_for_nth("is on disk", 2);
        kill_nodes(&run, &[LOST]);
        run.wait_for(ANEW);
        let before = run.so_far("is on disk");
        run.wait_for_nth("is on disk", before + 3); // two at least began after that
        run
    }

    /// Runs such a job, and kills all of it.
    fn fill(&self) {
        self.healed().kill().says(SURVIVES);
    }

    fn resume(&self, given: &str) -> Outcome {
        jacobi::job(self.job().args(&["--resume", given]), LONG).run()
    }

    fn resume_set(&self, set: u64) -> Outcome {
        self.resume(&self.at(set))
    }

    fn at(&self, set: u64) -> String {
        format!("{}@{set}", self.store.text())
    }

    /// Returns the first set, of the initial groups, and the last that all nodes left have.
    fn sets(&self) -> [u64; 2] {
        let others =
            (0..self.pes).filter(|&node| node != LOST).map(|node| self.store.sets_of(node));
        let all = others.reduce(|all, sets| all.intersection(&sets).copied().collect());
        let (all, before) = (all.expect("nodes"), self.store.sets_of(LOST));
        let old = all.intersection(&before).next().copied().expect("one of the initial groups");
        [old, *all.difference(&before).last().expect("one of new groups")]
    }

    /// Returns the node that the lost PE moved to: that which has its file in this set.
    fn home(&self, set: u64) -> usize {
        let name = format!("set-{set}/pe-{LOST}");
        let has = |node: &usize| self.store.node(*node).join(&name).exists();
        (0..self.pes).find(has).expect("a node has its file")
    }

    /// True while a set is being written to the disk of a node.
    fn writes(&self, node: usize) -> bool {
        let entries = fs::read_dir(self.store.node(node)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
    }

    /// Runs `run` while a node has no disk.
    fn without<R>(&self, node: usize, run: impl FnOnce() -> R) -> R {
        let away = self.store.0.join(format!("away-{node}"));
        fs::rename(self.store.node(node), &away).expect("moved");
        let result = run();
        fs::rename(&away, self.store.node(node)).expect("moved back");
        result
    }

    fn oshinfo(&self, given: &str, words: &[&str]) -> (Option<i32>, String) {
        let (status, out, err) = self.store.oshinfo_of(given, words);
        (status, out + &err)
    }

    /// Returns the checkpoint of a set.
    fn checkpoint_of(&self, set: u64) -> u64 {
        let (_, listed) = self.oshinfo(self.store.text(), &[]);
        let begin = format!("set {set} of node 0  checkpoint ");
        let line = listed.lines().find_map(|line| line.strip_prefix(&begin));
        let rest = line.unwrap_or_else(|| panic!("{begin} in {listed}"));
        rest.split_whitespace().next().and_then(|it| it.parse().ok()).expect("a number")
    }

    /// Returns the bytes of all PEs' static variables, as `--extract` writes them.
    fn extract(&self, set: u64) -> Vec<u8> {
        let (status, listed) = self.oshinfo(&self.at(set), &["--objects"]);
        let names = listed.split_whitespace().filter(|word| word.starts_with("static:"));
        let names: BTreeSet<&str> = names.collect();
        assert!(status == Some(0) && !names.is_empty(), "{listed}");
        let mut bytes = Vec::new();
        for name in names {
            let (status, said) = self.oshinfo(&self.at(set), &["--extract", name]);
            assert_eq!(status, Some(0), "{said}");
            let (_, file) = said.split_once("  ").expect("the name of a file");
            let (file, _) = file.split_once(": ").expect("its contents");
            let path = self.store.0.join(file);
            bytes.extend(fs::read(&path).unwrap_or_else(|error| panic!("{said}: {error}")));
            fs::remove_file(path).expect("removed");
        }
        bytes
    }
}

/// The disk that has the files of two PEs, of one initial group, is wiped: the new groups decode
/// both. An older set is decoded with the initial ones.
#[test]
fn each_set_is_decoded_with_the_groups_of_its_own_time() {
    for pes in sample(vec![4, 6], 1) {
        let disks = Disks::new(pes);
        disks.fill();
        let [old, new] = disks.sets();
        let home = disks.home(new);
        disks.without(home, || {
            let outcome = disks.resume_set(new);
            outcome.right_sum(LONG).says(&format!("begins from set {new},"));
            [home, LOST].into_iter().for_each(|pe| is_rebuilt(&outcome, pe));
            let outcome = disks.resume_set(old);
            is_rebuilt(outcome.right_sum(LONG), home);
        });
        // Two disks of four are beyond the initial group.
        let other = (0..pes).find(|node| ![home, LOST].contains(node)).expect("a node");
        disks.without(home, || {
            disks.without(other, || {
                refused(&disks.resume_set(old), "unrecoverable: group 0 lost PEs ");
            });
        });
        let outcome = disks.without(other, || disks.resume(disks.store.text()));
        is_rebuilt(outcome.right_sum(LONG), other);
    }
}

/// A job that decoded a set with the set's groups has groups of its own then, and survives a loss.
#[test]
fn a_resumed_job_forms_its_own_groups() {
    let disks = Disks::new(4);
    disks.fill();
    let [_, new] = disks.sets();
    let home = disks.home(new);
    disks.without(home, || {
        let job = disks.job().args(&["--resume", &disks.at(new)]).kill_node(&["0@400"]);
        let outcome = jacobi::job(job, LONG).run();
        outcome.right_sum(LONG).says(ANEW).says("node 0 was lost");
        is_rebuilt(&outcome, LOST);
    });
}

/// Until all PEs have agreed on groups of the job's own, those of the set decide, also for
/// processes that did not read it.
#[test]
fn a_loss_while_a_set_of_other_groups_is_decoded_is_survived() {
    let disks = Disks::new(4);
    disks.fill();
    let [_, new] = disks.sets();
    let (home, number) = (disks.home(new), disks.checkpoint_of(new));
    let steps = ["rebuild", "reencode", "resume"].into_iter().chain(HEAL);
    let kills = steps.flat_map(|step| {
        let processes = [0, home].map(|pe| ("--kill", format!("{pe}@{number}:{step}")));
        let healing = HEAL.contains(&step);
        let node = healing.then(|| ("--kill-node", format!("3@{number}:{step}")));
        processes.into_iter().chain(node)
    });
    disks.without(home, || {
        for (option, rule) in sample_long(kills.collect(), 2, 6) {
            let given = ["--resume", &disks.at(new), option, &rule];
            let outcome = jacobi::job(disks.job().args(&given), LONG).run();
            outcome.right_sum(LONG).says(ANEW);
            outcome.says("oshrun: lost 1 ");
        }
    });
}

/// More is lost than the new groups cover, and the disk of one node is gone: the job falls back to
/// a set that only the parity of the new groups completes.
#[test]
fn a_job_falls_back_to_a_set_of_new_groups() {
    for pes in sample(vec![4, 6], 1) {
        let disks = Disks::new(pes);
        let mut run = disks.healed();
        let home = disks.home(disks.sets()[1]);
        // Another file in its place: that node writes no set any more.
        fs::rename(disks.store.node(home), disks.store.0.join("away")).expect("moved");
        fs::write(disks.store.node(home), "no folder").expect("written");
        run.wait_for("is not on disk");
        let other = (0..pes).find(|node| ![home, LOST].contains(node)).expect("a node");
        let nth = |node| node - usize::from(node > LOST); // among the agents that are left
        kill_nodes(&run, &[nth(home), nth(other)]);
        run.wait_for(FELL);
        let outcome = run.finish();
        outcome.right_sum(LONG);
        [home, LOST].into_iter().for_each(|pe| is_rebuilt(&outcome, pe));
    }
}

/// A set is being written when a node is lost, and the job is killed as a whole once it has formed
/// new groups, while it writes a set under them, or when that is on disk. It begins, without the
/// disk of a node, from the newest set that was on disk, or a newer one, and every set is whole.
#[test]
fn a_set_begun_before_groups_change_leaves_only_whole_sets() {
    for stage in sample(vec!["changed", "begun", "written"], 1) {
        let disks = Disks::new(4);
        let begun = || (0..4).any(|node| node != LOST && disks.writes(node));
        let job = disks.storing().env("SHMEM_FT_STORE_RATE", "1M");
        let mut run = jacobi::job(job, LONGER).with_orphans().start();
        run.wait_for_nth("is on disk", 1);
        run.wait_until("a set is being written", |_| disks.writes(LOST) && begun());
        kill_nodes(&run, &[LOST]);
        run.wait_for(ANEW);
        let before = run.so_far("is on disk");
        match stage {
            "begun" => run.wait_until("a set is being written", |_| begun()),
            "written" => run.wait_for_nth("is on disk", before + 1),
            _ => {}
        }
        let outcome = run.kill();
        let newest = numbers(&outcome, "/set-").next_back().expect("a set is on disk");
        let (status, listed) = disks.oshinfo(disks.store.text(), &["--verify"]);
        assert_eq!(status, Some(0), "{stage}: {listed}");
        let job = disks.job().args(&["--resume", disks.store.text()]);
        let outcome = disks.without(1, || jacobi::job(job, LONGER).run());
        let from = numbers(outcome.right_sum(LONGER), "begins from set ").next();
        outcome.check(from.is_some_and(|from| from >= newest), "the newest set that is whole");
    }
}

/// Returns the number behind each of these words in what a job reported.
fn numbers(outcome: &Outcome, words: &str) -> impl DoubleEndedIterator<Item = u64> {
    let number = |rest: &str| rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok();
    let all: Vec<u64> = outcome.err.split(words).skip(1).filter_map(number).collect();
    all.into_iter()
}

/// Sets of both groupings are verified, repaired and read without a job.
#[test]
fn sets_of_old_and_new_groups_are_verified_repaired_and_extracted() {
    let disks = Disks::new(4);
    disks.fill();
    let sets = disks.sets();
    let home = disks.home(sets[1]);
    for node in 0..4 {
        for set in disks.store.sets_of(node).into_iter().filter(|set| !sets.contains(set)) {
            fs::remove_dir_all(disks.store.node(node).join(format!("set-{set}"))).expect("removed");
        }
    }
    let text = disks.store.text();
    let (status, listed) = disks.oshinfo(text, &["--verify"]);
    assert_eq!(status, Some(0), "{listed}");
    let whole = sets.map(|set| disks.extract(set));
    assert_ne!(whole[0], whole[1]);
    fs::remove_dir_all(disks.store.node(home)).expect("its disk is wiped");
    let (status, listed) = disks.oshinfo(text, &["--verify"]);
    assert_eq!(status, Some(0), "{listed}");
    for (set, lost) in sets.into_iter().zip([format!("PE {home}"), format!("PEs {home},{LOST}")]) {
        let (begin, words) =
            (format!("set {set} of node "), format!("without the files of {lost} "));
        let has = |line: &str| line.starts_with(&begin) && line.contains(&words);
        assert!(listed.lines().any(has), "{words} in {listed}");
    }
    assert_eq!(sets.map(|set| disks.extract(set)), whole);
    let (status, listed) = disks.oshinfo(text, &["--repair"]);
    assert_eq!(status, Some(0), "{listed}");
    assert_eq!(sets.map(|set| disks.extract(set)), whole);
    let (_, listed) = disks.oshinfo(text, &["--verify"]);
    assert!(!listed.contains("without the files"), "{listed}");
    for set in sets {
        let outcome = disks.resume_set(set);
        outcome.right_sum(LONG).says(&format!("begins from set {set},"));
        outcome.check(!outcome.err.contains("rebuilt"), "nothing was lost any more");
    }
}
