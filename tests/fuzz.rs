//! Every parser against hostile bytes, for a limited time: mutations of valid inputs and of the
//! files in `fuzz/corpus`, and every input that once failed.
//!
//! The parsers and their checks are those of `fuzz/src/lib.rs`, which cargo-fuzz also drives. Each
//! target runs for `RAIDSHMEM_FUZZ_SECONDS` (2); the seed is fixed, so runs differ only in how far
//! they get. An input that fails is written to the corpus, to stay there.

#[path = "../fuzz/src/lib.rs"]
mod entries;
#[path = "support/random.rs"]
mod random;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use random::Random;

use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};

/// Numbers at common bounds.
const EDGES: [u64; 10] =
    [0, 1, 127, 128, 255, 1 << 16, u32::MAX as u64, 1 << 47, u64::MAX >> 1, u64::MAX];
/// The longest input that a mutation makes.
const LONGEST: usize = 128 * 1024;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}

/// Returns the inputs of a target: valid ones first.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let mut all = entries::examples().remove(name).unwrap_or_default();
    assert!(!all.is_empty(), "{name} has a right input to begin with");
    let files = fs::read_dir(corpus(name)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    all.extend(paths.into_iter().filter_map(|path| fs::read(path).ok()));
    all
}

/// Changes a few things: bits, bytes, lengths, numbers at a bound, pieces of another input.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        let rest = bytes.len() - at;
        match random.below(8) {
            0 if rest > 0 => bytes[at] ^= 1 << random.below(8),
            1 if rest > 0 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + random.below(rest.min(16) + 1))),
            4 => {
                let from = random.below(other.len() + 1);
                let to = from + random.below((other.len() - from).min(64) + 1);
                drop(bytes.splice(at..at, other[from..to].iter().copied()));
            }
            5 if rest >= 8 => {
                bytes[at..at + 8].copy_from_slice(&random.one(&EDGES).to_le_bytes());
            }
            6 => drop(bytes.splice(at..at, [0xff; 5])),
            _ => bytes.insert(at, random.next() as u8),
        }
    }
    bytes.truncate(LONGEST);
}

/// Runs one target until its time is over and returns the number of inputs.
fn drive(name: &str, target: entries::Target) -> u64 {
    let seconds = std::env::var("RAIDSHMEM_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(2.0));
    let mut random = Random::new(name.bytes().map(u64::from).sum());
    let inputs = inputs(name);
    let run = |bytes: &[u8]| {
        if catch_unwind(|| target(bytes)).is_err() {
            let path = corpus(name).join(format!("failed-{:08x}", crc32fast::hash(bytes)));
            fs::create_dir_all(corpus(name)).expect("a folder for the corpus");
            fs::write(&path, bytes).expect("a file of the corpus");
            panic!("{name} does not bear {} ({} bytes)", path.display(), bytes.len());
        }
    };
    inputs.iter().for_each(|bytes| run(bytes));
    let mut count = 0;
    while count < 1000 || Instant::now() < end {
        let mut bytes = random.one(&inputs).clone();
        let other: &Vec<u8> = random.one(&inputs);
        mutate(&mut bytes, other, &mut random);
        run(&bytes);
        count += 1;
    }
    count
}

#[test]
fn no_parser_is_moved_by_hostile_bytes() {
    for &(name, target) in entries::TARGETS {
        println!("{name}: {} inputs", drive(name, target));
    }
}

/// Valid inputs are accepted, so mutations start from data that is not rejected at the first byte.
#[test]
fn right_inputs_are_taken() {
    use raidshmem_sys::socket::decode;
    let examples = entries::examples();
    let one = |name: &str| examples[name][0].clone();
    let layout = raidshmem_core::layout::Layout::new(1 << 20, 4);
    assert!(decode::<raidshmem_core::message::ToPe>(&one("control")).is_ok());
    assert!(decode::<Vec<(u32, raidshmem_core::message::Up)>>(&one("membership")).is_ok());
    assert!(raidshmem_core::store::coverage::Coverage::parse(&layout, &one("manifest")).is_ok());
    let plan = String::from_utf8(one("plan")).expect("text");
    let plan = raidshmem_core::store::advice::Advice::parse(&plan).expect("a plan");
    assert_eq!((plan.objects.len(), plan.places.len()), (2, 2));
    let report = String::from_utf8(one("report")).expect("text");
    assert!(raidshmem_report::record::Record::read(&report).is_ok());
    assert!(raidshmem_core::heap::Heap::decode(&one("heap")).is_ok());
    let stamp = raidshmem_core::store::stamp::Stamp {
        number: CheckpointNumber(7),
        job: 9,
        pe: Pe(3),
        incarnation: Incarnation(2),
        whole: true,
    };
    assert!(stamp.holds(&one("stamp")[..32], &one("stamp")[32..]));
}

/// libFuzzer has a target for each entry.
#[test]
fn every_entry_is_a_target_of_cargo_fuzz() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    for (name, _) in entries::TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} in fuzz/Cargo.toml");
        assert!(folder.join(format!("fuzz_targets/{name}.rs")).exists(), "{name} in fuzz_targets");
    }
}
