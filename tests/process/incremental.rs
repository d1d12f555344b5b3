//! Sets on disk that hold what changed since earlier ones: a job that was killed completely
//! restarts from them, and from an older one if a set that they refer to is damaged.

use std::fs;
use std::path::{Path, PathBuf};

use super::disk::Store;
use super::support::schema::conforms;
use super::support::{Job, Outcome, program};

/// A set in the list of `oshinfo store --json`.
struct Listed {
    set: u64,
    checkpoint: u64,
    bases: Vec<u64>,
    bytes: u64,
    raw: u64,
}

/// Lists the sets, the newest first; of those of nodes, the part of node 0.
fn listed(store: &Store) -> Vec<Listed> {
    let json = conforms("store", &store.oshinfo(&["--json"]).stdout);
    let sets = json["sets"].as_array().expect("a list").iter();
    let sets = sets.filter(|set| set["node"].as_u64().unwrap_or(0) == 0 && set["error"].is_null());
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let set = |set: &serde_json::Value| Listed {
        set: number(&set["set"]),
        checkpoint: number(&set["checkpoint"]),
        bases: set["bases"].as_array().expect("a list").iter().map(number).collect(),
        bytes: number(&set["bytes"]),
        raw: number(&set["raw"]),
    };
    sets.map(set).collect()
}

/// Restarts from a set, or the newest; the program compares all of its memory.
fn resumed(store: &Store, layout: &str, set: &str) -> Outcome {
    let given = format!("{}{set}", store.text());
    let job = Job::new(4).mode("raid5").args(&["--nodes", "4", "--resume", &given]);
    let outcome =
        job.env("SHMEM_FT_STORE_LAYOUT", layout).program(&program("patches"), &["1"]).run();
    outcome.status(0).all_print(4, "is right after ");
    outcome
}

/// Flips a bit in a block that the program never changes.
fn flip_middle(file: &Path) {
    let mut bytes = fs::read(file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("written");
}

fn remove(file: &Path) {
    fs::remove_file(file).expect("removed");
}

/// Fills a folder, until more sets are written than a chain has, and kills the job.
fn filled(layout: &str, keep: &str) -> Store {
    let store = Store::new();
    let job = store.job("raid5", &["--nodes", "4"]).env("SHMEM_FT_STORE_LAYOUT", layout);
    let job = job.env("SHMEM_FT_STORE_KEEP", keep).env("SHMEM_FT_INTERVAL", "0.03");
    let mut run = job.with_orphans().program(&program("patches"), &["1000000"]).start();
    run.wait_for_nth("is on disk", 10);
    run.kill();
    store
}

fn killed_and_resumed(layout: &str) {
    let store = filled(layout, "7");
    let sets = listed(&store);
    let is_listed = |base: &u64| sets.iter().any(|set| set.checkpoint == *base);
    assert!(sets.iter().all(|set| set.bases.iter().all(is_listed)), "a base was deleted");
    assert!((7..=15).contains(&sets.len()), "{} sets", sets.len());
    // Each refers to the whole set that its chain begins with, and most to that only.
    for Listed { set, bases, .. } in &sets {
        let is_oldest = |of: &&Listed| Some(&of.checkpoint) == bases.first();
        let begins = sets.iter().find(is_oldest).map_or(*set, |of| of.set);
        assert!(set - begins < 8, "the chain that ends with set {set} begins with set {begins}");
    }
    let newest = sets.iter().find(|set| !set.bases.is_empty()).expect("one refers to others");
    let (bytes, raw) = (newest.bytes, newest.raw);
    let most = if layout == "shared" { raw / 10 } else { raw / 5 }; // three PEs change each parity
    assert!(bytes <= most, "{bytes} of {raw} bytes");
    resumed(&store, layout, &format!("@{}", newest.set));
    let is_base = |set: &&Listed| set.checkpoint == newest.bases[0];
    let base = sets.iter().find(is_base).expect("it is listed").set;
    let folder = |node: usize| -> PathBuf {
        store.0.join(format!("node-{node}")).join(format!("set-{base}"))
    };
    match layout {
        "shared" => flip_middle(&store.0.join(format!("set-{base}")).join("pe-2")),
        _ => [1, 2].iter().for_each(|&node| fs::remove_dir_all(folder(node)).expect("removed")),
    }
    let outcome = resumed(&store, layout, "");
    outcome.says(&format!("set {} is skipped: ", newest.set));
    let is_taken = |set: &&Listed| outcome.err.contains(&format!("begins from set {},", set.set));
    let taken = sets.iter().find(is_taken).expect("one is taken");
    outcome.check(taken.set < base, "an older set was expected");
}

#[test]
fn a_job_resumes_from_changes_in_one_folder_and_without_their_base_from_an_older_set() {
    killed_and_resumed("shared");
}

#[test]
fn a_job_resumes_from_changes_on_all_disks_and_without_their_base_from_an_older_set() {
    killed_and_resumed("local");
}

/// Each file of a set that refers to others, and of the set that they are in, is made again as the
/// job had written it. All sets are whole again, also with the few that a job keeps by default.
#[test]
fn files_of_sets_that_refer_to_others_are_repaired_and_the_job_resumes() {
    for keep in ["2", "7"] {
        let store = filled("local", keep);
        let run = |words: &[&str]| {
            let output = store.oshinfo(words);
            let listed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{words:?}: {listed}");
            listed
        };
        // The job was killed, perhaps while nodes deleted a set, or while they named one.
        run(&["--prune", keep, "--repair"]);
        run(&["--verify"]);
        let sets = listed(&store);
        let newest = sets.iter().find(|set| !set.bases.is_empty()).expect("one refers to others");
        let base = sets.iter().find(|set| set.checkpoint == newest.bases[0]).expect("it is there");
        let damages: [fn(&Path); 2] = [flip_middle, remove];
        for (set, name) in [(newest, "pe"), (newest, "parity"), (base, "pe"), (base, "parity")] {
            for (node, damage) in (1..).zip(damages) {
                let file = format!("node-{node}/set-{}/{name}-{node}", set.set);
                let file = store.0.join(file);
                let before = fs::read(&file).expect("a file");
                damage(&file);
                let repaired = run(&["--repair"]);
                let line = format!("made again: {}\n", file.display());
                assert!(repaired.contains(&line), "{repaired}");
                assert!(fs::read(&file).expect("a file") == before, "{}", file.display());
                run(&["--verify"]);
            }
        }
        resumed(&store, "local", &format!("@{}", newest.set));
    }
}
