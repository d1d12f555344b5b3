//! Tests with a set that is truncated, torn or damaged anywhere, compressed or not, and with one
//! whose making ends at any step.

use std::os::unix::fs::{FileExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::error::FormatError;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_archive::references::References;
use raidshmem_archive::tiles::data_at;
use raidshmem_codec::crc::crc32;
use raidshmem_core::disk::Entry;
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::TILE;

use super::super::examine::StoredSet;
use super::super::files::PeFile;
use super::*;

const JOB: u64 = 77;
const PES: u32 = 2;
/// Three whole tiles and a partial one.
const LEN: usize = 3 * TILE + 5000;

/// Reads every byte of a set.
fn verify(set: &Set) -> Result<Manifest, SetError> {
    let mut stored = StoredSet::of(set)?;
    stored.read(&WorkerPool::new(1, Vec::new()));
    stored.judge(false)?;
    Ok(stored.manifest)
}

/// A folder that is removed with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sets-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Pseudo-random numbers, equal in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        (0..3).for_each(|nth| {
            self.0 ^= if nth == 1 { self.0 >> 7 } else { self.0 << [13, 0, 17][nth] }
        });
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Returns true for the checkpoints that are compressed, those of even numbers.
fn is_compressed(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Returns the data of a PE; its second tile is incompressible.
fn data(number: u64, pe: u32) -> Vec<u8> {
    let mut random = Random(number << 8 | u64::from(pe) | 1 << 40);
    let byte = |at: usize| random.next() as u8 & if at / TILE == 1 { 0xff } else { 3 };
    (0..LEN).map(byte).collect()
}

/// Returns the file of a PE, and the offset of its tiles.
fn file(number: u64, pe: u32) -> (Vec<u8>, usize) {
    let data = data(number, pe);
    let mut compressor = TileCompressor::new(1).expect("a level");
    let stored: Vec<Vec<u8>> = match is_compressed(number) {
        true => data.chunks(TILE).map(|tile| compressor.compress(tile).to_vec()).collect(),
        false => data.chunks(TILE).map(<[u8]>::to_vec).collect(),
    };
    let lens = stored.iter().map(|tile| tile.len() as u32);
    let lens = if is_compressed(number) { lens.collect() } else { Vec::new() };
    let number = CheckpointNumber(number);
    let head = Head {
        owner: Owner { job: JOB, number, pe: Pe(pe), n_pes: PES, heap_len: 1 << 20 },
        heap_at: 1 << 45,
        build: vec![1, 2, 3],
        program: String::new(),
        image: 0..0,
        heap: Heap::new(1 << 20).encode(),
        excluded: Vec::new(),
        extents: vec![Extent { area: Area::Heap, offset: 0, len: LEN as u64 }],
        regions: Vec::new(),
        objects: Vec::new(),
        begin: Vec::new(),
        stored: lens,
        references: References::default(),
        sums: data.chunks(TILE).map(crc32).collect(),
    };
    let mut bytes = head.encode();
    let at = data_at(bytes.len()) as usize;
    bytes.resize(at, 0);
    bytes.extend(stored.concat());
    (bytes, at)
}

fn entry(bytes: &[u8]) -> Entry {
    let len = Head::len_of(bytes).expect("a head");
    let sum = bytes[..len].last_chunk().copied().map_or(0, u32::from_le_bytes);
    Entry { len: bytes.len() as u64, sum }
}

fn manifest(number: u64) -> Vec<u8> {
    let entries = (0..PES).map(|pe| entry(&file(number, pe).0)).collect();
    let raw = is_compressed(number).then_some(1 << 20);
    let (mode, program) = ("raid5".into(), "jacobi".into());
    let number = CheckpointNumber(number);
    let (job, heap_len, seconds, parity) = (JOB, 1 << 20, 1, None);
    let (bases, pages) = (Vec::new(), Vec::new());
    let manifest = Manifest {
        job,
        number,
        heap_len,
        seconds,
        mode,
        program,
        entries,
        raw,
        bases,
        parity,
        pages,
    };
    manifest.encode()
}

/// Returns the steps in which checkpoint `number` becomes a set.
fn steps(folder: &Path, number: u64) -> Vec<Box<dyn Fn() + '_>> {
    let part = part_folder(folder, JOB, CheckpointNumber(number));
    let mut steps: Vec<Box<dyn Fn()>> = Vec::new();
    let made = part.clone();
    steps.push(Box::new(move || fs::create_dir_all(&made).expect("a folder")));
    for pe in 0..PES {
        let (bytes, at) = file(number, pe);
        let path = part.join(name(Content::Data, Pe(pe)));
        // Tile after tile, the head last, in the order of writing.
        let end = bytes.len();
        let cuts = (at..end).step_by(TILE).map(|from| from..(from + TILE).min(end));
        for range in cuts.chain(std::iter::once(0..at)) {
            let (path, bytes) = (path.clone(), bytes[range.clone()].to_vec());
            steps.push(Box::new(move || {
                let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
                let written = file.and_then(|file| file.write_all_at(&bytes, range.start as u64));
                written.expect("written");
            }));
        }
    }
    let bytes = manifest(number);
    for half in [bytes.len() / 2, bytes.len()] {
        let (path, bytes) = (part.join(MANIFEST), bytes[..half].to_vec());
        steps.push(Box::new(move || fs::write(&path, &bytes).expect("written")));
    }
    let set = folder.join(format!("set-{number}"));
    steps.push(Box::new(move || fs::rename(&part, &set).expect("renamed")));
    steps
}

/// Makes a folder with the set of a checkpoint.
fn one_set(number: u64) -> (Folder, Set) {
    let folder = Folder::new();
    steps(&folder.0, number).iter().for_each(|step| step());
    let set = list(&folder.0).expect("a folder").pop().expect("a set");
    assert_eq!(verify(&set).expect("it holds").number, CheckpointNumber(number));
    (folder, set)
}

/// Fails unless the set is rejected with this content of that file.
#[track_caller]
fn refused(set: &Set, path: &Path, content: &[u8], what: &str) {
    fs::write(path, content).expect("written");
    assert!(verify(set).is_err(), "{what}");
}

/// Fails unless the set is rejected with this content of a file, or holds these tiles.
#[track_caller]
fn refused_or_the_same(set: &Set, path: &Path, content: &[u8], tiles: &[u8]) {
    fs::write(path, content).expect("written");
    if verify(set).is_ok() {
        let file = PeFile::<Head>::open(&set.folder, Pe(1)).expect("it holds");
        let mut scratch = TileScratch::default();
        let tile = |tile| file.tile(tile, &mut scratch).expect("it holds").to_vec();
        let read: Vec<Vec<u8>> = (0..file.head.sums.len()).map(tile).collect();
        assert!(read.concat() == tiles, "other bytes");
    }
}

#[test]
fn a_file_that_is_cut_or_zeroed_from_any_byte_of_its_head_is_refused() {
    [1, 2].into_iter().for_each(heads_are_refused);
}

fn heads_are_refused(number: u64) {
    let (_folder, set) = one_set(number);
    let head = Head::len_of(&file(number, 0).0).expect("a head");
    for (name, end) in [(MANIFEST, manifest(number).len()), ("pe-0", head)] {
        let path = set.folder.join(name);
        let whole = fs::read(&path).expect("a file");
        for cut in 0..end {
            refused(&set, &path, &whole[..cut], &format!("{name} cut at {cut}"));
            let mut torn = whole.clone();
            torn[cut..end].fill(0);
            if torn != whole {
                refused(&set, &path, &torn, &format!("{name} zero from {cut}"));
            }
        }
        fs::write(&path, &whole).expect("written");
        verify(&set).expect("it is as it was");
    }
}

#[test]
fn tiles_that_are_cut_torn_or_flipped_are_refused() {
    [1, 2].into_iter().for_each(tiles_are_refused);
}

fn tiles_are_refused(number: u64) {
    let (_folder, set) = one_set(number);
    let path = set.folder.join("pe-1");
    let (whole, at) = file(number, 1);
    let head = Head::decode(&whole).expect("a head");
    let bounds = head.tiles().places(at as u64).into_iter().map(|bound| bound as usize);
    let near = bounds.flat_map(|bound| bound - 8..(bound + 8).min(whole.len()));
    let mut random = Random(0x5eed);
    let far: Vec<usize> = (0..1000).map(|_| at + random.below(whole.len() - at)).collect();
    for place in near.filter(|&place| place >= at).chain(far) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << random.below(8);
        match is_compressed(number) {
            true => refused_or_the_same(&set, &path, &damaged, &data(number, 1)),
            false => refused(&set, &path, &damaged, &format!("a bit of byte {place}")),
        }
        refused(&set, &path, &whole[..place], &format!("cut at {place}"));
    }
    for sector in (at..whole.len()).step_by(512) {
        let mut torn = whole.clone();
        torn[sector..whole.len().min(sector + 512)].fill(0);
        refused(&set, &path, &torn, &format!("the sector at {sector}"));
    }
    fs::write(&path, &whole).expect("written");
    verify(&set).expect("it is as it was");
}

/// With any forged lengths in a head, a tile is the one that was saved, or damaged.
#[test]
fn made_up_lengths_of_tiles_give_no_other_bytes() {
    let (_folder, set) = one_set(2);
    let (whole, _) = file(2, 0);
    let head = Head::decode(&whole).expect("a head");
    let write = |head: &Head| {
        let mut bytes = head.encode();
        bytes.extend_from_slice(&whole[bytes.len()..]);
        fs::write(set.folder.join("pe-0"), bytes).expect("written");
        PeFile::<Head>::open(&set.folder, Pe(0))
    };
    for (from, to, by) in [(0, 2, 1), (2, 0, 1), (0, 3, 100), (3, 2, head.stored[3] - 1)] {
        let mut made_up = head.clone();
        made_up.stored[from] -= by;
        made_up.stored[to] += by;
        let file = write(&made_up).expect("its head holds");
        let (mut scratch, mut damaged) = (TileScratch::default(), 0);
        for (tile, saved) in data(2, 0).chunks(TILE).enumerate() {
            match file.tile(tile, &mut scratch) {
                Ok(bytes) => assert!(bytes == saved, "tile {tile}"),
                Err(SetError::Format { error, .. }) => {
                    assert_eq!(error, FormatError::Tile(tile));
                    damaged += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(damaged > 0, "{by} bytes from tile {from} to {to}");
    }
    let with = |by: i32| {
        let mut made_up = head.clone();
        made_up.stored[0] = made_up.stored[0].wrapping_add_signed(by);
        write(&made_up).expect_err("it is of another length").to_string()
    };
    assert!(with(1).contains("cut short") && with(-1).contains("longer than its head says"));
    assert!(with(-(head.stored[0] as i32)).contains("the length of a tile cannot be"));
}

/// A writer that ends at any step leaves the older set the newest, until the last step adds
/// another.
#[test]
fn whatever_step_is_the_last_there_are_only_whole_sets() {
    let (folder, _) = one_set(1);
    let all = steps(&folder.0, 2);
    for last in 0..=all.len() {
        all[..last].iter().for_each(|step| step());
        let sets = list(&folder.0).expect("a folder");
        let newest = verify(&sets[0]).expect("it holds").number;
        assert_eq!(newest.0, if last == all.len() { 2 } else { 1 }, "after {last} steps");
        prune(&folder.0, 9).expect("what is left behind goes");
        let names = fs::read_dir(&folder.0).expect("a folder").count();
        assert_eq!(names, sets.len(), "after {last} steps");
    }
    // Deletion begins with the manifest: the rest is then not a set.
    let newest = folder.0.join("set-2");
    fs::remove_file(newest.join(MANIFEST)).expect("deleted");
    assert_eq!(list(&folder.0).expect("a folder").len(), 1);
    prune(&folder.0, 9).expect("what is left behind goes");
    assert!(!newest.exists());
}

#[test]
fn only_plain_files_of_this_user_are_accepted() {
    let (_folder, set) = one_set(1);
    let path = set.folder.join("pe-0");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), None).expect("given away");
        let error = verify(&set).expect_err("it is another user's").to_string();
        assert!(error.ends_with("pe-0: it belongs to another user"), "{error}");
    }
    let moved = set.folder.join("elsewhere");
    fs::rename(&path, &moved).expect("moved");
    symlink(&moved, &path).expect("a link");
    assert!(verify(&set).is_err(), "a link");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a folder");
    assert!(verify(&set).is_err(), "a folder");
}
