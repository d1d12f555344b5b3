//! Tests with files as really written: read back into memory, and with their writer killed at any
//! step.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use raidshmem_archive::choose::{Wanted, choose};
use raidshmem_archive::code::Code;
use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::program;
use raidshmem_codec::stripe::Scheme;
use raidshmem_core::disk::{Content, Entry, Folders, Held, Resume};
use raidshmem_core::heap::Heap;
use raidshmem_core::layout::STAMP;
use raidshmem_core::placement::Domains;
use raidshmem_core::quantity::Incarnation;
use raidshmem_core::settings::{BackupMode, Settings, StoreLayout};
use raidshmem_core::store::private::{self, Saved};
use raidshmem_core::store::protection::Protection;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_segment::Segment;
use raidshmem_sys::pool::WorkerPool;
use raidshmem_sys::{memory, process};

use super::super::examine::StoredSet;
use super::super::files::{self, TileScratch};
use super::super::held;
use super::super::input::LoadTarget;
use super::super::load::load;
use super::super::step::kill_after;
use super::*;

mod incremental;
mod overtaken;

const JOB: u64 = 77;
/// The job that begins from the set.
const HEIR: u64 = 99;
const PES: u32 = 3;
const HEAP: u64 = 1 << 20;

/// The environment variable for a process to be killed: its folder, its layout, and its steps.
const KILLED: &str = "RAIDSHMEM_TEST_KILLED";

fn protection() -> Protection {
    let settings = Settings { backup_mode: BackupMode::Raid5, ..Settings::default() };
    let made = Protection::new(&settings, &[0, 1, 2], &Domains::default());
    made.expect("they can be grouped").expect("there is parity")
}

fn own_build() -> Vec<u8> {
    program::read(&fs::read("/proc/self/exe").expect("this program")).build
}

/// The memory of a PE.
struct Memory {
    pe: Pe,
    part: Part,
    segment: Segment,
    layout: Layout,
}

impl Memory {
    fn empty(pe: Pe, job: u64) -> Memory {
        let layout = Layout::new(HEAP as usize, PES as usize);
        let file = Arc::new(memory::create("raidshmem-test", layout.total).expect("memory"));
        let part = Part::new(file, 0, layout.total);
        let (segment, _) = Segment::own(&part, layout).expect("it can be mapped");
        segment.header().create(job, pe);
        Memory { pe, part, segment, layout }
    }

    fn stamp(&self, job: u64, number: CheckpointNumber) -> Stamp {
        Stamp { number, job, pe: self.pe, incarnation: Incarnation::FIRST, whole: true }
    }

    fn write(&self, region: usize, number: CheckpointNumber, bytes: &[u8]) {
        let stamp = self.stamp(JOB, number);
        for (tile, bytes) in bytes.chunks(TILE).enumerate() {
            self.part.write_at(region + tile * TILE, bytes).expect("free memory");
            let at = self.layout.stamps(region) + tile * STAMP;
            self.part.write_at(at, &stamp.seal(bytes)).expect("free memory");
        }
    }

    /// Returns the memory of a PE right after that checkpoint, and whole tiles of snapshot and
    /// parity.
    fn after(pe: Pe, number: CheckpointNumber) -> (Memory, Vec<u8>, Vec<u8>) {
        let (memory, protection) = (Memory::empty(pe, JOB), protection());
        let mut heap = Heap::new(memory.layout.heap_len);
        heap.alloc(150_000, 64).expect("free memory");
        let private = private::encode([Saved { name: "step", contents: b"three" }].into_iter());
        let built = Coverage::build(&memory.layout, &[], &heap, [&[], &[]], &private);
        let (coverage, mut line) = built.expect("it fits");
        let noise = |at: usize| (at as u64 * (2 * number.0 + 1) + u64::from(pe.0) * 77) as u8;
        line.extend((line.len()..coverage.len()).map(noise));
        line.resize(line.len().next_multiple_of(TILE), 0);
        let share = Code::shares(&protection)[pe.at()];
        let parity: Vec<u8> =
            (0..share.tiles(coverage.len()) * TILE).map(|at| noise(at * 3)).collect();
        let (snapshot, slot) = (protection.snapshot_of(number), protection.slot_of(number));
        memory.write(memory.layout.snapshots[snapshot], number, &line);
        memory.write(memory.layout.slots[slot], number, &parity);
        let header = memory.segment.header();
        header.snapshots[snapshot].seal(JOB, number, coverage.len());
        header.slots[slot].seal(JOB, number, coverage.len());
        (memory, line, parity)
    }

    /// Reads tiles of a region, which must be sealed by the job that began from the set.
    fn read(&self, region: usize, number: CheckpointNumber, len: usize) -> Vec<u8> {
        let (mut bytes, mut stamp) = (vec![0; len], [0; STAMP]);
        self.part.read_at(region, &mut bytes).expect("it can be read");
        for (tile, bytes) in bytes.chunks(TILE).enumerate() {
            let at = self.layout.stamps(region) + tile * STAMP;
            self.part.read_at(at, &mut stamp).expect("it can be read");
            assert!(self.stamp(HEIR, number).holds(&stamp, bytes), "tile {tile}");
        }
        bytes
    }
}

fn folder_of(folder: &Path, layout: StoreLayout, node: u32) -> PathBuf {
    match layout {
        StoreLayout::Local => sets::node_folder(folder, node),
        StoreLayout::Shared => folder.to_owned(),
    }
}

/// Returns the compression level: checkpoints of even numbers are compressed.
fn level(number: CheckpointNumber) -> u32 {
    u32::from(number.0.is_multiple_of(2))
}

/// Makes checkpoint `number` a set like three agents and their launcher, and keeps no other.
fn store(folder: &Path, layout: StoreLayout, number: CheckpointNumber, build: &[u8]) {
    let (protection, stop) = (protection(), AtomicU64::new(0));
    let shares = Code::shares(&protection);
    let mut all = Files::default();
    for pe in Pe::all(PES as usize) {
        let (memory, ..) = Memory::after(pe, number);
        let is_local = layout == StoreLayout::Local;
        let order = Order {
            job: JOB,
            sets: JOB,
            n_pes: PES,
            heap_len: HEAP,
            number,
            folder: folder_of(folder, layout, pe.0),
            pes: vec![(pe, memory.part.clone())],
            parity: if is_local { vec![shares[pe.at()]] } else { Vec::new() },
            how: How { memory: 1 << 20, compress: level(number), checksum: true, ..How::default() },
            program: SavedProgram { build: build.to_vec(), ..SavedProgram::default() },
        };
        let files = write(&order, None, &mut Pasts::new(), &stop).expect("it is written");
        all.data.extend(files.data);
        all.parity.extend(files.parity);
        all.raw += files.raw;
    }
    let entries = |files: Vec<(Pe, Entry)>| files.into_iter().map(|(_, entry)| entry).collect();
    let code = Code::of(&protection);
    let manifest = Manifest {
        job: JOB,
        number,
        heap_len: HEAP,
        seconds: 1,
        mode: "raid5".into(),
        program: "p".into(),
        entries: entries(all.data),
        raw: (level(number) > 0).then_some(all.raw),
        bases: Vec::new(),
        parity: (layout == StoreLayout::Local)
            .then(|| Parity { code, entries: entries(all.parity) }),
        pages: Vec::new(),
    };
    match manifest.raw {
        Some(raw) => assert!(manifest.bytes() < raw / 2, "{} of {raw}", manifest.bytes()),
        None => assert_eq!(manifest.bytes(), all.raw),
    }
    let nodes = if layout == StoreLayout::Local { PES } else { 1 };
    for node in 0..nodes {
        let folder = folder_of(folder, layout, node);
        let part = sets::part_folder(&folder, JOB, number);
        sets::commit(&folder, &part, &manifest.encode(), number.0).expect("it is a set");
        sets::prune(&folder, 1).expect("old sets go");
    }
}

/// Returns the set that a job would resume from; all its bytes are verified.
fn newest(folder: &Path, layout: StoreLayout) -> (Resume, CheckpointNumber) {
    if layout == StoreLayout::Shared {
        let sets = sets::list(folder).expect("a folder");
        let mut stored = StoredSet::of(&sets[0]).expect("a set");
        stored.read(&WorkerPool::new(1, Vec::new()));
        stored.judge(false).expect("it holds");
        let manifest = stored.manifest;
        let folders = Folders::Shared(sets[0].folder.display().to_string());
        let number = manifest.number;
        return (Resume { job: JOB, number, folders, rebuilt: false, pages: Vec::new() }, number);
    }
    let all: Vec<Held> = held::list(folder);
    let host = |node: u32| {
        let own = sets::node_folder(folder, node).display().to_string() + "/";
        all.iter().filter(|held| held.folder.starts_with(&own)).cloned().collect()
    };
    let hosts: Vec<Vec<Held>> = (0..PES).map(host).collect();
    let wanted = Wanted {
        set: None,
        home: &[0, 1, 2],
        scheme: Some(Scheme::Raid5),
        damages: &[],
        may_be: &|_| true,
        are_nodes: false,
    };
    let chosen = choose(&hosts, &wanted);
    let chosen = chosen.unwrap_or_else(|why| panic!("no set is whole: {why}"));
    assert_eq!((chosen.lost.len(), chosen.groups.is_some()), (0, true), "all files are there");
    for folder in chosen.folders.iter().flatten() {
        let folder = PathBuf::from(folder);
        let owner = |pe| chosen.manifest.owner(pe);
        for pe in Pe::all(PES as usize) {
            if folder.join(files::name(Content::Data, pe)).exists() {
                let data = files::PeFile::<Head>::open_of(&folder, owner(pe)).expect("it holds");
                let parity = files::PeFile::<ParityHead>::open_of(&folder, owner(pe));
                let (parity, mut scratch) = (parity.expect("it holds"), TileScratch::default());
                for tile in 0..data.head.sums.len() {
                    data.tile(tile, &mut scratch).expect("it holds");
                }
                for tile in 0..parity.head.sums.len() {
                    parity.tile(tile, &mut scratch).expect("it holds");
                }
            }
        }
    }
    let number = chosen.manifest.number;
    let folders = Folders::Local { of: chosen.folders, groups: chosen.groups };
    (Resume { job: JOB, number, folders, rebuilt: false, pages: Vec::new() }, number)
}

/// Fills the memory of every PE from the set, and fails unless the contents match.
fn loads(resume: &Resume) {
    let (protection, pool) = (protection(), WorkerPool::new(1, process::usable()));
    for pe in Pe::all(PES as usize) {
        let (_, line, parity) = Memory::after(pe, resume.number);
        let memory = Memory::empty(pe, HEIR);
        let target = LoadTarget {
            own: &memory.segment,
            part: &memory.part,
            large: false,
            protection: &protection,
            stamp: memory.stamp(HEIR, resume.number),
            node: pe.0,
            n_pes: PES,
            pool: &pool,
        };
        assert!(load(resume, &target).expect("it fits").is_empty(), "nothing is left out");
        let (number, layout) = (resume.number, &memory.layout);
        let snapshot = layout.snapshots[protection.snapshot_of(number)];
        assert!(memory.read(snapshot, number, line.len()) == line, "PE {pe}");
        if matches!(resume.folders, Folders::Local { .. }) {
            let slot = layout.slots[protection.slot_of(number)];
            assert!(memory.read(slot, number, parity.len()) == parity, "parity of PE {pe}");
        }
    }
}

/// In the process to be killed, writes checkpoint 2; else kills such a process after every number
/// of steps. There is always a whole set, the older until the newer is one, and the leftovers of
/// the newer do not block the next.
#[test]
fn whatever_step_a_writer_is_killed_at_the_newest_whole_set_is_found() {
    let second = CheckpointNumber(2);
    if let Ok(words) = std::env::var(KILLED) {
        let words: Vec<&str> = words.split(' ').collect();
        let layout = if words[1] == "local" { StoreLayout::Local } else { StoreLayout::Shared };
        kill_after(words[2].parse().expect("a number"));
        return store(Path::new(words[0]), layout, second, &own_build());
    }
    let build = own_build();
    for layout in [StoreLayout::Local, StoreLayout::Shared] {
        let mut newer = false;
        let name = format!("steps-{}-{}", std::process::id(), layout.name());
        let folder = std::env::temp_dir().join(name);
        for steps in 0.. {
            let _ = fs::remove_dir_all(&folder);
            store(&folder, layout, CheckpointNumber(1), &build);
            let mut writer = Command::new(std::env::current_exe().expect("this program"));
            let test = "write::tests::whatever_step_a_writer_is_killed_at_the_newest_whole_\
                        set_is_found";
            writer.args(["--exact", test]);
            writer.env(KILLED, format!("{} {} {steps}", folder.display(), layout.name()));
            let ended = writer.output().expect("it runs");
            let killed = ended.status.signal() == Some(libc::SIGKILL);
            assert!(killed || ended.status.success(), "{steps}: {ended:?}");
            let (resume, number) = newest(&folder, layout);
            assert!(number == second || !newer, "{steps}: the newer set is gone again");
            if steps == 0 || newer != (number == second) {
                loads(&resume);
            }
            newer = number == second;
            if !killed {
                assert!(newer && steps > 20, "{steps} steps are too few");
                break;
            }
            store(&folder, layout, CheckpointNumber(3), &build);
            assert_eq!(newest(&folder, layout).1, CheckpointNumber(3), "{steps}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
