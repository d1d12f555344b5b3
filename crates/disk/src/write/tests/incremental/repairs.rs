//! Repairs of sets that refer to earlier ones: which files are made again as they were, which get
//! all of their blocks, and which cannot be repaired.

use super::*;

/// The environment variable for a repair to be killed: its folder and its steps.
const KILLED: &str = "RAIDSHMEM_TEST_KILLED_INCREMENTAL_REPAIR";

/// Files of a chain are made again byte by byte, also those of several sets and of a whole node.
#[test]
fn files_that_refer_to_others_are_made_again_byte_by_byte() {
    let lost: [&[&str]; 6] = [
        &["node-2/set-1/pe-2"],
        &["node-2/set-3/pe-2"],
        &["node-1/set-3/parity-1", "node-1/set-2/pe-1"],
        &["node-2/set-1/pe-2", "node-2/set-2/pe-2", "node-2/set-3/parity-2"],
        &["node-0/set-2/pe-0", "node-3/set-3/pe-3", "node-1/set-1/parity-1"],
        &["node-3/set-1", "node-3/set-2", "node-3/set-3"],
    ];
    for (scheme, level) in [("raid5", 0), ("raid5", 3), ("mirror", 0)] {
        let folder = Folder::new();
        let mut writer = Writer::new(&folder.0, Some(scheme), level, HEAP);
        (1..4).for_each(|set| _ = writer.write(set, Some(set - 1), &after(set)));
        let before = folder.bytes();
        for lost in lost {
            for path in lost.iter().map(|path| folder.0.join(path)) {
                match path.is_dir() {
                    true => fs::remove_dir_all(&path).expect("removed"),
                    false => fs::write(&path, &before[&path][..99]).expect("cut"),
                }
            }
            let (text, well) = told(&folder.0, &["--repair"]);
            assert!(well && text.contains("made again: "), "{lost:?}: {text}");
            assert!(folder.bytes() == before, "{scheme} {level} {lost:?}");
        }
        (1..4).for_each(|set| holds(&folder.0, set, cells(), &after(set)));
    }
}

/// Writes sets 1, 3 and 4, of which the third was written after a second one that is gone. Returns
/// the cells of each.
fn without_the_second(folder: &Folder) -> impl Fn(u64) -> Box<dyn Fn(Pe, usize) -> u64> {
    const FAR: usize = 2 * TILE / 8;
    let at = |set: u64| -> Box<dyn Fn(Pe, usize) -> u64> {
        Box::new(move |pe, nth: usize| match nth {
            5 => set.min(3),
            FAR => set,
            _ => cell(pe, nth),
        })
    };
    let mut writer = Writer::new(&folder.0, Some("raid5"), 0, HEAP);
    let written = [1, 2, 3, 4].map(|set| writer.write(set, Some(set - 1), &at(set)));
    // All that the second set has changed changes again: no file refers to it.
    assert_eq!(written[2].bases, [CheckpointNumber(1)]);
    assert_eq!(written[3].bases, [1, 3].map(CheckpointNumber));
    for node in 0..4 {
        fs::remove_dir_all(folder.0.join(format!("node-{node}/set-2"))).expect("removed");
    }
    at
}

/// In the process to be killed, repairs; else kills such a process after every few steps, while
/// files are made whole and the manifests name them. All data can still be had, and the next repair
/// completes it.
#[test]
fn whatever_step_a_repair_with_other_manifests_is_killed_at_nothing_is_worse() {
    if let Ok(words) = std::env::var(KILLED) {
        let (folder, steps) = words.rsplit_once(' ').expect("two words");
        kill_after(steps.parse().expect("a number"));
        repair(Path::new(folder), &WorkerPool::new(1, Vec::new())).expect("a folder");
        return;
    }
    for steps in (0..).step_by(5) {
        let folder = Folder::new();
        let at = without_the_second(&folder);
        let lost = |set: u64| folder.0.join(format!("node-2/set-{set}/pe-2"));
        [3, 4].into_iter().for_each(|set| fs::remove_file(lost(set)).expect("removed"));
        let mut repairer = Command::new(std::env::current_exe().expect("this program"));
        let test = "write::tests::incremental::repairs::whatever_step_a_repair_with_other_\
                    manifests_is_killed_at_nothing_is_worse";
        repairer.args(["--exact", test]);
        repairer.env(KILLED, format!("{} {steps}", folder.0.display()));
        let ended = repairer.output().expect("it runs");
        let killed = ended.status.signal() == Some(libc::SIGKILL);
        assert!(killed || ended.status.success(), "{steps}: {ended:?}");
        [1, 3, 4].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
        let (text, well) = told(&folder.0, &["--repair"]);
        assert!(well, "after {steps} steps: {text}");
        let (text, well) = told(&folder.0, &["--verify"]);
        assert!(well, "after {steps} steps: {text}");
        [1, 3, 4].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
        if !killed {
            assert!(steps > 40, "{steps} steps are too few");
            break;
        }
    }
}

/// A file with an intact head refers to the files that the head names, also if the set before is
/// gone: every damaged block is made again, byte by byte.
#[test]
fn damaged_blocks_of_a_file_that_refers_to_others_are_made_again() {
    let folder = Folder::new();
    let _ = without_the_second(&folder);
    let before = folder.bytes();
    for (path, intact) in &before {
        // Bytes of the last two blocks, of those that the file has.
        let from_end = [1, TILE + 1].into_iter().filter(|&it| intact.len() > it + 8192);
        for at in from_end.map(|it| intact.len() - it) {
            let mut bytes = intact.clone();
            bytes[at] ^= 1;
            fs::write(path, bytes).expect("written");
            let (text, well) = told(&folder.0, &["--repair", "--verify"]);
            assert!(well && text.contains("made again: "), "byte {at} of {path:?}: {text}");
            assert!(folder.bytes() == before, "byte {at} of {path:?}: {text}");
        }
    }
}

/// If the set before is gone, a file without a head gets all of its blocks.
#[test]
fn a_file_whose_references_are_not_known_is_made_whole() {
    let folder = Folder::new();
    let at = without_the_second(&folder);
    let path = |set: u64| folder.0.join(format!("node-2/set-{set}/pe-2"));
    let len = |set: u64| fs::metadata(path(set)).expect("a file").len();
    let lens = [len(3), len(4)];
    for lost in [&[3][..], &[4], &[3, 4]] {
        lost.iter().for_each(|&set| fs::remove_file(path(set)).expect("removed"));
        let (text, well) = told(&folder.0, &["--repair"]);
        assert!(well && text.contains("made again: "), "{text}");
        [1, 3, 4].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
        assert!(len(3) > lens[0] && len(4) > lens[1], "their blocks are there");
        let (text, well) = told(&folder.0, &["--verify"]);
        assert!(well, "{text}");
        let repaired = folder.bytes();
        let (text, well) = told(&folder.0, &["--repair"]);
        assert!(well && folder.bytes() == repaired, "there is nothing to do: {text}");
    }
}

/// A block of the first set cannot be decoded there, but in the third, which refers to it. The file
/// of the third set would become another one, and an intact one of the fourth refers to it.
#[test]
fn a_file_that_an_intact_one_refers_to_becomes_no_other() {
    const IN_OTHERS: usize = TILE / 8;
    let at = |set: u64| {
        move |pe, nth: usize| match nth {
            5 => set.min(3),
            IN_OTHERS.. if set == 4 => cell(pe, nth).rotate_left(1) + 1,
            _ => cell(pe, nth),
        }
    };
    let folder = Folder::new();
    let mut writer = Writer::new(&folder.0, Some("raid5"), 0, HEAP);
    let written = [1, 2, 3, 4].map(|set| writer.write(set, Some(set - 1), &at(set)));
    assert_eq!(written[3].bases, [1, 3].map(CheckpointNumber));
    for node in 0..4 {
        fs::remove_dir_all(folder.0.join(format!("node-{node}/set-2"))).expect("removed");
    }
    // A block that the third set needs and the fourth does not, and its parity in the first.
    let parities = [0, 1, 3].map(|pe| (format!("node-{pe}/set-1/parity-{pe}"), 4096));
    for (path, at) in parities.into_iter().chain([("node-2/set-1/pe-2".into(), 8192 + 2 * TILE)]) {
        let path = folder.0.join(path);
        let mut bytes = fs::read(&path).expect("a file");
        bytes[at] ^= 1;
        fs::write(&path, bytes).expect("written");
    }
    let before = folder.bytes();
    let (text, well) = told(&folder.0, &["--repair"]);
    let told = |line: &str| text.lines().any(|it| it.starts_with(line));
    assert!(!well && told("set 3  not repaired: set 4 refers to it as it was; oshinfo"), "{text}");
    assert!(told("set 1  not repaired: unrecoverable: group 0 lost "), "{text}");
    assert!(folder.bytes() == before, "{text}");
    [3, 4].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
}

/// A set that a kept one refers to stays, but not one that only the former refers to: it holds no
/// longer, and the list says what it is there for.
#[test]
fn a_set_that_is_only_there_for_another_is_neither_damaged_nor_repaired() {
    const NEXT: usize = TILE / 8;
    let at = |set: u64| {
        move |pe, nth: usize| match nth {
            5 if set >= 4 => 4,
            5 if set >= 2 => 2,
            NEXT if set >= 3 => 3,
            _ => cell(pe, nth),
        }
    };
    for scheme in LAYOUTS {
        let folder = Folder::new();
        let mut writer = Writer::new(&folder.0, scheme, 0, HEAP);
        let written = [1, 2, 3, 4, 5].map(|set| writer.write(set, Some(set - 1), &at(set)));
        let bases = [&[][..], &[1], &[1, 2], &[1, 3], &[1, 3, 4]];
        assert_eq!(
            written.map(|it| it.bases.iter().map(|base| base.0).collect::<Vec<u64>>()),
            bases
        );
        sets::prune(&folder.0, 1).expect("they go");
        held::prune(&folder.0, 1).expect("they go");
        let before = folder.bytes();
        let (text, well) = told(&folder.0, &["--repair", "--verify"]);
        let lines = |words: &str| text.lines().filter(|line| line.contains(words)).count();
        let disks = text.lines().count() / 4;
        assert!(well && lines("  only for set 5  ") == disks, "{text}");
        assert!(lines("  whole  ") == 3 * disks && lines("set 2 ") == 0, "{text}");
        assert!(folder.bytes() == before, "there is nothing to do");
        [1, 4, 5].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
        assert!(opened(&folder.0, Some(3)).is_err());
        // Damage of it is found in the sets that it is there for.
        let home = if scheme.is_some() { "node-2/set-3/pe-2" } else { "set-3/pe-2" };
        fs::remove_file(folder.0.join(home)).expect("removed");
        let (text, well) = told(&folder.0, &["--verify"]);
        assert!(!well && text.contains("refers to checkpoint 3, whose file is missing"), "{text}");
        let (text, well) = told(&folder.0, &["--repair", "--verify"]);
        assert_eq!(well, scheme.is_some(), "{text}");
        if scheme.is_some() {
            [4, 5].into_iter().for_each(|set| holds(&folder.0, set, cells(), &at(set)));
        }
    }
}
