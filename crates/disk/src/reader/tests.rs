//! Tests with sets as agents write them: objects are read by name, from whichever files are left.

use std::fs;

use super::super::made::{self, CELLS, Folder, PES, SET, cell};
use super::*;

fn open(folder: &Folder) -> SetReader {
    SetReader::open(folder.0.to_str().expect("plain")).unwrap_or_else(|error| panic!("{error}"))
}

fn word(reader: &SetReader, name: &str, pe: Pe) -> u64 {
    let mut word = [0; 8];
    reader.read(name, pe, 0, &mut word).unwrap_or_else(|error| panic!("{name}: {error}"));
    u64::from_le_bytes(word)
}

/// Fails unless every object of each PE has its bytes.
#[track_caller]
fn is_right(reader: &SetReader) {
    for pe in Pe::all(PES as usize) {
        let names = reader.objects(pe).expect("a PE").iter().map(|it| it.name.as_str());
        let names: Vec<&str> = names.collect();
        let statics = ["static:answer", "static:me", "static:cells", "static:hidden"];
        assert_eq!(names[..4], statics);
        assert_eq!(names[4..6], ["static:a.c:twice", "static:b.c:twice"]);
        assert_eq!(names[6..], ["heap:0", "heap:cells", "private:state"]);
        assert_eq!((word(reader, "answer", pe), word(reader, "me", pe)), (4711, u64::from(pe.0)));
        let mut cells = vec![0; CELLS * 8];
        reader.read("cells", pe, 0, &mut cells).expect("the array");
        for (nth, bytes) in cells.as_chunks::<8>().0.iter().enumerate() {
            assert_eq!(u64::from_le_bytes(*bytes), cell(pe, nth), "{pe} {nth}");
        }
        for (offset, len) in [(1, 0), (65_530, 20), (131_072, 65_536), (CELLS * 8 - 3, 3)] {
            let mut some = vec![0; len];
            reader.read("heap:1", pe, offset as u64, &mut some).expect("a part");
            assert!(some == cells[offset..offset + len], "{offset}");
        }
        let mut state = [0; 10];
        reader.read("state", pe, 0, &mut state).expect("private memory");
        assert_eq!(state, [b"state of ".as_slice(), &[b'0' + pe.0 as u8]].concat()[..]);
    }
}

#[test]
fn objects_are_read_from_sets_in_one_folder_and_on_all_disks() {
    for level in [0, 1] {
        let folder = Folder::new();
        made::shared(&folder, level);
        is_right(&open(&folder));
        let folder = Folder::new();
        made::local(&folder, "raid5", level);
        is_right(&open(&folder));
    }
}

#[test]
fn missing_and_damaged_files_are_decoded() {
    for mode in ["raid5", "raid4", "mirror"] {
        let folder = Folder::new();
        let set = made::local(&folder, mode, 0);
        for pe in 0..PES {
            let path = set.folder(pe).join(format!("pe-{pe}"));
            let whole = fs::read(&path).expect("a file");
            fs::remove_file(&path).expect("removed");
            is_right(&open(&folder));
            // Every tile is damaged, but not the head.
            let mut damaged = whole.clone();
            damaged.iter_mut().skip(16_384).step_by(30_000).for_each(|byte| *byte ^= 1);
            fs::write(&path, damaged).expect("written");
            is_right(&open(&folder));
            fs::write(&path, whole).expect("written");
        }
    }
    let folder = Folder::new();
    let set = made::local(&folder, "rs", 2);
    [1, 3].iter().for_each(|&node| fs::remove_dir_all(set.node(node)).expect("wiped"));
    is_right(&open(&folder));
}

#[test]
fn each_error_is_one_clear_line() {
    let folder = Folder::new();
    let set = made::local(&folder, "raid5", 0);
    let reader = open(&folder);
    let says = |name: &str, pe: u32, offset: u64, len: usize| {
        let error = reader.read(name, Pe(pe), offset, &mut vec![0; len]).expect_err(name);
        let error = error.to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    assert_eq!(says("grid", 0, 0, 1), format!("set {SET} has no object grid"));
    assert_eq!(says("answer", 4, 0, 1), format!("set {SET} is of 4 PEs, and has no PE 4"));
    let long = format!("static:answer of PE 1 has 8 bytes in set {SET}, not 8 at 1");
    assert_eq!(says("answer", 1, 1, 8), long);
    assert!(says("answer", 1, u64::MAX, 8).contains("not 8 at 18446744073709551615"));
    let left = format!("static:hidden of PE 2 is not in set {SET} from byte 0 on: it was left out");
    assert_eq!(says("hidden", 2, 0, 8), left);
    assert!(reader.read("hidden", Pe(2), 4, &mut [0; 4]).is_ok(), "the rest of it is there");
    // Two of them are damaged in the same place, and nothing of that can be decoded.
    for node in [0, 1] {
        let path = set.folder(node).join(format!("pe-{node}"));
        let mut bytes = fs::read(&path).expect("a file");
        bytes.iter_mut().skip(16_384).step_by(30_000).for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).expect("written");
    }
    assert!(says("cells", 0, 0, 8).contains("the data of PE 0 is not whole, and more is missing"));
    assert!(reader.read("cells", Pe(2), 0, &mut [0; 8]).is_ok(), "it is intact");
}

#[test]
fn the_newest_set_that_can_be_had_is_opened_or_the_one_that_is_named() {
    let folder = Folder::new();
    let of = |given: String| match SetReader::open(&given) {
        Ok(reader) => Ok(reader.number()),
        Err(error) => Err(error.to_string()),
    };
    let path = folder.0.display().to_string();
    assert_eq!(of(path.clone()), Err(format!("{path}: there is no complete checkpoint")));
    let set = made::shared(&folder, 0);
    assert_eq!((of(path.clone()), of(format!("{path}@{SET}"))), (Ok(SET), Ok(SET)));
    assert_eq!(of(format!("{path}@9")), Err(format!("{path}: there is no set 9")));
    let file = set.join("pe-1");
    let moved = folder.0.join("moved");
    fs::rename(&file, &moved).expect("moved");
    std::os::unix::fs::symlink(&moved, &file).expect("a link");
    let why = of(path.clone()).expect_err("a link");
    assert!(why.contains(&format!("set {SET}: ")) && why.contains("pe-1: "), "{why}");
    fs::remove_file(&file).expect("removed");
    // A head that claims to be longer than its file.
    let mut bytes = fs::read(&moved).expect("a file");
    bytes[12..16].copy_from_slice(&(1u32 << 30).to_le_bytes());
    fs::write(&file, &bytes).expect("written");
    let why = of(path.clone()).expect_err("too long");
    assert!(why.contains("pe-1: cut short: "), "{why}");
}
