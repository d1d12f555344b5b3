//! Sets that refer to earlier ones: their sizes, reading them, and what becomes of them if an
//! earlier one is damaged, deleted, or forged, or if their writer is killed.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use super::super::super::answer::answer;
use super::super::super::made::{Cells, Folder, HEAP, PES, Writer, cell};
use super::super::super::reader::SetReader;
use super::super::super::repair::repair;
use super::*;

/// The environment variable for a process to be killed: its folder, its layout, and its steps.
const KILLED: &str = "RAIDSHMEM_TEST_KILLED_INCREMENTAL";
const LAYOUTS: [Option<&str>; 2] = [None, Some("raid5")];

/// Returns the cells after `step` steps, each of which changes one, of one tile after another.
fn after(step: u64) -> impl Fn(Pe, usize) -> u64 {
    const CELLS: usize = TILE / 8;
    move |pe, nth| match nth % CELLS {
        of if of < step as usize && of % 4 == nth / CELLS => !cell(pe, nth),
        _ => cell(pe, nth),
    }
}

/// Opens a set, or the newest that holds; returns its number.
fn opened(folder: &Path, set: Option<u64>) -> Result<(SetReader, u64), String> {
    let set = set.map(|set| format!("@{set}")).unwrap_or_default();
    let reader = SetReader::open(&format!("{}{set}", folder.display()));
    let reader = reader.map_err(|error| error.to_string())?;
    let number = reader.number();
    Ok((reader, number))
}

/// Fails unless the set holds these cells.
#[track_caller]
fn holds(folder: &Path, set: u64, cells: usize, cell: Cells) {
    let (reader, _) = opened(folder, Some(set)).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; cells * 8];
    for pe in Pe::all(PES as usize) {
        reader.read("heap:cells", pe, 0, &mut bytes).unwrap_or_else(|error| panic!("{error}"));
        let wrong = (0..cells).find(|&nth| bytes[nth * 8..][..8] != cell(pe, nth).to_le_bytes());
        assert_eq!(wrong, None, "PE {pe} in set {set}");
    }
}

/// Returns the answer of `oshinfo store` in one text, and if all is well.
fn told(folder: &Path, words: &[&str]) -> (String, bool) {
    let words = std::iter::once(folder.to_str().expect("plain")).chain(words.iter().copied());
    match answer(words.map(str::to_owned)) {
        Ok(answer) => (answer.text, answer.well),
        Err(error) => (error.to_string(), false),
    }
}

/// Returns the bytes of all files of a set.
fn bytes(folder: &Folder, set: u64) -> usize {
    let of_set =
        |path: &&PathBuf| path.parent().is_some_and(|it| it.ends_with(format!("set-{set}")));
    let files = folder.bytes();
    let files = files.keys().filter(of_set);
    files.map(|path| fs::metadata(path).expect("a file").len() as usize).sum()
}

#[test]
fn a_set_takes_a_tenth_if_a_twentieth_of_the_memory_changed() {
    for (scheme, level) in [(None, 0), (Some("raid5"), 0), (None, 1)] {
        let folder = Folder::new();
        let mut writer = Writer::new(&folder.0, scheme, level, 8 << 20);
        let cells = writer.cells();
        let changed = |pe, nth| match nth >= cells / 2 && nth < cells / 2 + cells / 20 {
            true => !cell(pe, nth),
            false => cell(pe, nth),
        };
        writer.write(1, None, &cell);
        let second = writer.write(2, Some(1), &changed);
        assert_eq!(second.bases, [CheckpointNumber(1)]);
        let third = writer.write(3, None, &changed);
        let raw = third.raw.unwrap_or_else(|| third.bytes());
        assert!(
            second.raw.is_some_and(|it| it.abs_diff(raw) <= 8 * 4096),
            "heads have other sizes"
        );
        writer.write(4, Some(3), &changed);
        let sizes = [1, 2, 3, 4].map(|set| bytes(&folder, set));
        assert!(sizes[1] * 10 <= sizes[0] && sizes[3] * 50 <= sizes[2], "{scheme:?}: {sizes:?}");
        holds(&folder.0, 1, cells, &cell);
        (2..5).for_each(|set| holds(&folder.0, set, cells, &changed));
        let (text, well) = told(&folder.0, &["--verify"]);
        assert!(well && text.contains(" instead of "), "{text}");
    }
}

/// A chain as an agent and the launcher make it, in which another cell changes in each set.
fn chain(folder: &Folder, scheme: Option<&str>, sets: std::ops::Range<u64>) {
    let (first, mut writer) = (sets.start, Writer::new(&folder.0, scheme, 0, HEAP));
    for number in sets {
        let base = (number > first).then(|| number - 1);
        writer.write(number, base, &after(number));
    }
}

fn cells() -> usize {
    super::super::super::made::CELLS
}

#[test]
fn without_its_base_a_set_does_not_hold() {
    let folder = Folder::new();
    chain(&folder, None, 1..4);
    chain(&folder, None, 4..6);
    (1..6).for_each(|set| holds(&folder.0, set, cells(), &after(set)));
    let base = folder.0.join("set-4/pe-2");
    let intact = fs::read(&base).expect("a file");
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, &str); 3] = [
        (|bytes| *bytes.last_mut().expect("one") ^= 1, "set-4/pe-2: damaged: the checksum of tile"),
        (|bytes| bytes[30] ^= 1, "refers to checkpoint 4, whose file is missing or damaged"),
        (|bytes| bytes.truncate(9000), "refers to checkpoint 4, whose file is missing or damaged"),
    ];
    for (damage, why) in damages {
        let mut bytes = intact.clone();
        damage(&mut bytes);
        fs::write(&base, bytes).expect("written");
        let (text, well) = told(&folder.0, &["--verify"]);
        let of_5 = text.lines().find(|line| line.starts_with("set 5 ")).expect("a line");
        assert!(!well && of_5.contains("not whole") && of_5.contains(why), "{text}");
        assert_eq!(text.matches("  whole  ").count(), 3, "{text}");
        let repairs = repair(&folder.0, &WorkerPool::new(1, Vec::new())).expect("a folder");
        let failed = repairs.iter().filter(|repair| repair.failed.is_some()).map(|it| it.set);
        assert_eq!(failed.collect::<Vec<u64>>(), [5, 4]);
    }
    fs::write(&base, intact).expect("written");
    holds(&folder.0, 5, cells(), &after(5));
    // No link is followed, and the newest set that holds is taken.
    let (set, away) = (folder.0.join("set-4"), folder.0.with_extension("away"));
    fs::rename(&set, &away).expect("moved");
    symlink(&away, &set).expect("a link");
    let error = opened(&folder.0, Some(5)).err().expect("there is no base");
    assert!(error.contains("pe-0: refers to checkpoint 4, whose file is missing"), "{error}");
    assert_eq!(opened(&folder.0, None).expect("an older one").1, 3);
    fs::remove_dir_all(&away).expect("removed");
}

#[test]
fn parity_covers_a_lost_base_and_a_copy_is_whole() {
    for (scheme, level) in [(None, 1), (Some("raid5"), 0)] {
        let folder = Folder::new();
        let mut writer = Writer::new(&folder.0, scheme, level, HEAP);
        (1..4).for_each(|set| _ = writer.write(set, Some(set - 1), &after(set)));
        if scheme.is_some() {
            fs::remove_file(folder.0.join("node-2/set-1/pe-2")).expect("removed");
            holds(&folder.0, 3, cells(), &after(3));
            let (text, _) = told(&folder.0, &["--verify"]);
            let line = text.lines().find(|line| line.starts_with("set 3 of node 2")).expect("one");
            assert!(
                line.contains("refers to checkpoint 1, whose file is missing or damaged; --rep")
            );
        }
        let copy = Folder::new();
        let from = format!("{}@3", folder.0.display());
        let to = copy.0.to_str().expect("plain");
        let (text, well) = told(Path::new(&from), &["--copy", to]);
        assert!(well && text.starts_with("set 3  copied whole: "), "{text}");
        let (text, well) = told(Path::new(&from), &["--copy", to]);
        assert!(!well && text.contains("it has this checkpoint"), "{text}");
        let (of, bases) = (folder.0.with_extension("gone"), copy.bytes());
        fs::rename(&folder.0, &of).expect("moved");
        holds(&copy.0, 3, cells(), &after(3));
        let (text, well) = told(&copy.0, &["--verify"]);
        assert!(well && text.contains("  whole  ") && !text.contains("instead of"), "{text}");
        assert!(copy.bytes() == bases, "nothing is written there");
        fs::rename(&of, &folder.0).expect("moved");
        // A copy that fails leaves nothing.
        let other = Folder::new();
        for node in ["set-2", "node-0/set-2", "node-1/set-2"] {
            let _ = fs::remove_dir_all(folder.0.join(node));
        }
        let (_, well) = told(Path::new(&from), &["--copy", other.0.to_str().expect("plain")]);
        assert!(!well && other.bytes().is_empty());
    }
}

#[test]
fn no_set_that_a_kept_one_refers_to_is_deleted() {
    for scheme in LAYOUTS {
        let folder = Folder::new();
        chain(&folder, scheme, 1..4);
        chain(&folder, scheme, 4..8);
        let left = |keep: usize| {
            sets::prune(&folder.0, keep).expect("they go");
            held::prune(&folder.0, keep).expect("they go");
            let sets = sets::everywhere(&folder.0).expect("a folder");
            sets.iter().map(|set| set.number).collect::<BTreeSet<u64>>()
        };
        assert_eq!(left(5), BTreeSet::from_iter(1..8), "set 3 refers to 1 and 2");
        assert_eq!(left(2), BTreeSet::from_iter(4..8));
        assert_eq!(left(1), BTreeSet::from_iter(4..8));
        holds(&folder.0, 7, cells(), &after(7));
        chain(&folder, scheme, 8..9);
        assert_eq!(left(1), BTreeSet::from([8]));
    }
}

/// Rewrites the head of a file, whose length must not change, and names it in the manifest.
fn forge(set: &Path, change: impl Fn(&mut Head)) {
    let mut head = files::PeFile::<Head>::open(set, Pe(0)).expect("a file").head;
    change(&mut head);
    let (path, head) = (set.join("pe-0"), head.encode());
    let mut bytes = fs::read(&path).expect("a file");
    bytes[..head.len()].copy_from_slice(&head);
    fs::write(&path, &bytes).expect("written");
    let mut manifest = sets::read_manifest(set).expect("a manifest");
    manifest.entries[0].sum = head.last_chunk().copied().map_or(0, u32::from_le_bytes);
    fs::write(set.join("manifest"), manifest.encode()).expect("written");
}

#[test]
fn forged_references_are_refused_with_one_line() {
    let folder = Folder::new();
    chain(&folder, None, 1..4);
    let set = folder.0.join("set-3");
    let head = files::PeFile::<Head>::open(&set, Pe(0)).expect("a file").head;
    assert_eq!(head.references.bases.len(), 2);
    let tile = head.references.sources.iter().position(|&source| source == 1).expect("of set 1");
    type Forgery<'a> = &'a dyn Fn(&mut Head);
    let forgeries: [(Forgery, &str); 5] = [
        (&|head| head.references.sources[tile] = 2, "refers to a block that is not in that file"),
        (&|head| head.sums[tile] ^= 1, "refers to a block that is not in that file"),
        (&|head| head.references.bases[1].number = CheckpointNumber(3), "not an earlier one"),
        (&|head| head.references.bases[1].entry.len += 1, "refers to checkpoint 2, whose file"),
        (&|head| head.references.bases[1].entry.sum += 1, "refers to checkpoint 2, whose file"),
    ];
    let intact = folder.bytes();
    for (forgery, why) in forgeries {
        forge(&set, forgery);
        let error = opened(&folder.0, Some(3)).err().expect("it is refused");
        assert!(error.contains(why) && error.lines().count() == 1, "{error}");
        intact.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
    }
    holds(&folder.0, 3, cells(), &after(3));
}

/// In the process to be killed, writes a set that refers to the one before; else kills such a
/// process after every number of steps.
#[test]
fn whatever_step_the_writer_of_changes_is_killed_at_a_set_holds() {
    if let Ok(words) = std::env::var(KILLED) {
        let words: Vec<&str> = words.split(' ').collect();
        let folder = Path::new(words[0]);
        let mut writer = Writer::new(folder, Some("raid5").filter(|it| words[1] == *it), 0, HEAP);
        writer.write(1, None, &after(1));
        kill_after(words[2].parse().expect("a number"));
        writer.write(2, Some(1), &after(2));
        return;
    }
    for scheme in LAYOUTS {
        let mut killed_at = 0;
        // The steps of most tiles are alike.
        for steps in (0..).step_by(7) {
            let folder = Folder::new();
            let mut writer = Command::new(std::env::current_exe().expect("this program"));
            let test = "write::tests::incremental::whatever_step_the_writer_of_changes_is_killed_\
                        at_a_set_holds";
            writer.args(["--exact", test]);
            let layout = scheme.unwrap_or("shared");
            writer.env(KILLED, format!("{} {layout} {steps}", folder.0.display()));
            let ended = writer.output().expect("it runs");
            let killed = ended.status.signal() == Some(libc::SIGKILL);
            assert!(killed || ended.status.success(), "{steps}: {ended:?}");
            let (_, set) = opened(&folder.0, None).expect("the first set is whole");
            assert!(set == 2 || killed, "{steps}: it was not killed");
            holds(&folder.0, set, cells(), &after(set));
            if !killed {
                break;
            }
            killed_at = steps;
            // The next job knows nothing of it.
            chain(&folder, scheme, 3..4);
            held::prune(&folder.0, 1).expect("they go");
            sets::prune(&folder.0, 1).expect("they go");
            holds(&folder.0, 3, cells(), &after(3));
        }
        assert!(killed_at > 20, "{killed_at} steps are too few");
    }
}

mod repairs;
