//! Tests with sets as agents write them, with real parity: every damage that parity covers is
//! undone byte by byte, every other is left alone, and so it is if the repair is killed.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::parity::ParityHead;

use super::super::made::{self, Folder, MadeSet};
use super::super::step::kill_after;
use super::*;

/// The environment variable for a process to be killed: its folder and its steps.
const KILLED: &str = "RAIDSHMEM_TEST_KILLED_REPAIR";

fn pool() -> WorkerPool {
    WorkerPool::new(2, Vec::new())
}

/// Repairs all sets; returns the files made again, and the reasons for those that were not.
fn repaired(folder: &Folder) -> (usize, Vec<String>) {
    let repairs = repair(&folder.0, &pool()).expect("a folder");
    let made = repairs.iter().map(|repair| repair.made.len()).sum();
    (made, repairs.into_iter().filter_map(|it| Some(it.failed?.to_string())).collect())
}

/// Returns true if all data of the sets can be read or decoded.
fn holds(folder: &Folder) -> bool {
    let mut sets = StoredSet::list(&folder.0).expect("a folder");
    sets.iter_mut().for_each(|set| set.read(&pool()));
    !sets.is_empty() && sets.iter().all(|set| set.judge(true).is_ok())
}

/// The damage of a tile: a parity file has none if its PE keeps no parity, as in RAID 4.
const LAST_TILE: &str = "a bit of its last tile";

type FileChange = fn(&Path);

/// Ways to damage a file.
const DAMAGES: [(&str, FileChange); 5] = [
    ("missing", |path| fs::remove_file(path).expect("removed")),
    ("cut", |path| change(path, |bytes| bytes.truncate(bytes.len() - 9))),
    ("empty", |path| change(path, Vec::clear)),
    ("a bit of its head", |path| change(path, |bytes| bytes[40] ^= 1)),
    (LAST_TILE, |path| change(path, |bytes| *bytes.last_mut().expect("one") ^= 1)),
];

/// Returns true if a file holds tiles, and not only a head.
fn has_tiles(path: &Path) -> bool {
    let bytes = fs::read(path).expect("a file");
    ParityHead::decode(&bytes).map_or(true, |head| !head.sums.is_empty())
}

fn change(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("written");
}

#[test]
fn every_damaged_file_is_made_again_byte_by_byte() {
    for (mode, level) in [("raid5", 0), ("rs", 3), ("raid4", 0), ("mirror", 1)] {
        let folder = Folder::new();
        let set = made::local(&folder, mode, level);
        let before = folder.bytes();
        for file in set.files() {
            for (what, damage) in DAMAGES {
                if what == LAST_TILE && !has_tiles(&file) {
                    continue;
                }
                damage(&file);
                assert_eq!(repaired(&folder), (1, Vec::new()), "{mode} {what} {file:?}");
                assert!(folder.bytes() == before, "{mode} {what} {file:?}");
            }
        }
        assert_eq!(repaired(&folder), (0, Vec::new()), "there is nothing to do");
    }
}

/// With two parities, any two files, or all of two nodes.
#[test]
fn as_much_as_the_parity_covers_is_made_again() {
    let folder = Folder::new();
    let set = made::local(&folder, "rs", 0);
    let before = folder.bytes();
    let files = set.files();
    for one in 0..files.len() {
        let other = (one * 3 + 1) % files.len();
        DAMAGES[one % 5].1(&files[one]);
        if other != one {
            DAMAGES[(one + 2) % 5].1(&files[other]);
        }
        assert_eq!(repaired(&folder).1, [""; 0], "{:?} {:?}", files[one], files[other]);
        assert!(folder.bytes() == before, "{:?} {:?}", files[one], files[other]);
    }
    for wiped in [[0, 1], [3, 1], [2, 3]] {
        wiped.iter().for_each(|&node| fs::remove_dir_all(set.node(node)).expect("wiped"));
        assert_eq!(repaired(&folder), (6, Vec::new()), "nodes {wiped:?}");
        assert!(holds(&folder));
        // Each of both PEs has its files in a folder of its own: the numbers follow no node.
        let mut names: Vec<PathBuf> = before.keys().cloned().collect();
        names.sort();
        assert_eq!(folder.bytes().into_keys().collect::<Vec<_>>(), names);
        fs::remove_dir_all(&folder.0).expect("removed");
        made::local(&folder, "rs", 0);
    }
}

#[test]
fn a_manifest_that_is_lost_or_damaged_is_taken_from_another_node() {
    let folder = Folder::new();
    let set = made::local(&folder, "raid5", 0);
    let before = folder.bytes();
    for (what, damage) in DAMAGES {
        damage(&set.folder(2).join(MANIFEST));
        DAMAGES[0].1(&set.folder(1).join("pe-1"));
        assert_eq!(repaired(&folder), (2, Vec::new()), "{what}");
        assert!(folder.bytes() == before, "{what}");
    }
    (1..4).for_each(|node| DAMAGES[0].1(&set.folder(node).join(MANIFEST)));
    assert_eq!(repaired(&folder), (3, Vec::new()));
    assert!(folder.bytes() == before);
}

#[test]
fn what_cannot_be_repaired_is_said_and_left_as_it_is() {
    let folder = Folder::new();
    let set = made::local(&folder, "raid5", 0);
    fs::remove_file(set.folder(1).join("pe-1")).expect("removed");
    change(&set.folder(2).join("pe-2"), |bytes| bytes[20] ^= 1);
    let before = folder.bytes();
    let (made, why) = repaired(&folder);
    assert_eq!((made, why.len()), (0, 1));
    assert!(why[0].starts_with("unrecoverable: group 0 lost "), "{why:?}");
    assert!(folder.bytes() == before);
    let folder = Folder::new();
    let set = made::shared(&folder, 0);
    change(&set.join("pe-2"), |bytes| bytes[20] ^= 1);
    let before = folder.bytes();
    let (made, why) = repaired(&folder);
    assert!(made == 0 && why[0].ends_with("; a set in one folder has no parity"), "{why:?}");
    assert!(folder.bytes() == before);
}

/// The manifest names another file than parity gives: nothing is replaced.
#[test]
fn a_file_that_is_not_the_one_of_the_manifest_replaces_none() {
    let folder = Folder::new();
    let set = made::local(&folder, "raid5", 0);
    for node in 0..4 {
        let path = set.folder(node).join(MANIFEST);
        let mut manifest = Manifest::decode(&fs::read(&path).expect("a file")).expect("it holds");
        manifest.entries[1].sum ^= 1;
        fs::write(&path, manifest.encode()).expect("written");
    }
    let before = folder.bytes();
    let (made, why) = repaired(&folder);
    assert!(made == 0 && why[0].contains("other files than those of the manifest"), "{why:?}");
    assert!(folder.bytes() == before);
}

#[test]
fn no_two_processes_repair_a_folder() {
    let folder = Folder::new();
    let set = made::local(&folder, "raid5", 0);
    DAMAGES[0].1(&set.folder(1).join("pe-1"));
    let held = sets::hold(&set.folder(1)).expect("a folder");
    let (made, why) = repaired(&folder);
    assert!(made == 0 && why[0].ends_with("another process is at work there"), "{why:?}");
    drop(held);
    assert_eq!(repaired(&folder), (1, Vec::new()));
}

/// In the process to be killed, repairs; else kills such a process after every number of steps.
/// All data can still be had, and the next repair makes everything whole.
#[test]
fn whatever_step_a_repair_is_killed_at_nothing_is_worse() {
    if let Ok(words) = std::env::var(KILLED) {
        let (folder, steps) = words.rsplit_once(' ').expect("two words");
        kill_after(steps.parse().expect("a number"));
        repair(Path::new(folder), &pool()).expect("a folder");
        return;
    }
    let folder = Folder::new();
    let mut set: MadeSet = made::local(&folder, "rs", 3);
    let before = folder.bytes();
    for steps in 0.. {
        change(&set.folder(0).join("parity-0"), |bytes| bytes[40] ^= 1);
        DAMAGES[0].1(&set.folder(0).join("pe-0"));
        fs::remove_dir_all(set.node(2)).expect("wiped");
        let mut repairer = Command::new(std::env::current_exe().expect("this program"));
        let test = "repair::tests::whatever_step_a_repair_is_killed_at_nothing_is_worse";
        repairer.args(["--exact", test]);
        repairer.env(KILLED, format!("{} {steps}", folder.0.display()));
        let ended = repairer.output().expect("it runs");
        let killed = ended.status.signal() == Some(libc::SIGKILL);
        assert!(killed || ended.status.success(), "{steps}: {ended:?}");
        assert!(holds(&folder), "after {steps} steps");
        assert_eq!(repaired(&folder).1, [""; 0], "after {steps} steps");
        let mut after = folder.bytes();
        // A repair that was killed may have left a folder that is no set, but counts.
        let is_part = |path: &PathBuf| path.to_string_lossy().contains(".part/");
        after.retain(|path, _| !is_part(path));
        assert!(after == before || after.len() < before.len(), "after {steps} steps");
        assert!(holds(&folder));
        if !killed {
            assert!(steps > 20 && after == before, "{steps} steps are too few");
            break;
        }
        fs::remove_dir_all(&folder.0).expect("removed");
        set = made::local(&folder, "rs", 3);
    }
}
