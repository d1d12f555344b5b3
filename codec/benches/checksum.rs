//! The cost of checksums in a checkpoint, in one process: the loops of its two passes, with and
//! without checksums.
//!
//! "copy" copies a tile into a snapshot, "encode" computes the parity of three tiles, "sum"
//! computes only a checksum, of whole tiles or of pieces of 4 KiB. The variants alternate: each
//! round takes one sample of each, and every other round reverses their order. The thread's
//! processor time is measured. "cache" processes one tile of each buffer repeatedly, "memory" 64
//! MiB of each buffer.
//!
//! `cargo bench -p raidshmem-codec --bench checksum [-- FILTER]`. `ROUNDS=n` sets the number of
//! rounds (default 15); `RAIDSHMEM_KERNEL=avx2` selects the loops of a processor without AVX-512.
//! Prints for each variant the best rate, in bytes read, and its time relative to the first
//! variant, both as the median over the rounds and between the best samples.

mod common;

use std::hint::black_box;

use common::{busy, median};
use raidshmem_codec::code::Code;
use raidshmem_codec::crc::Hasher;
use raidshmem_codec::kernel::{Kernel, Made};

const TILE: usize = 64 << 10;
const PIECE: usize = 4 << 10;
const PLACES: [(&str, usize); 2] = [("cache", TILE), ("memory", 64 << 20)];

/// Buffers whose tiles are page-aligned.
struct Buffers {
    bytes: Vec<Vec<u8>>,
    len: usize,
}

impl Buffers {
    fn new(count: usize, len: usize) -> Buffers {
        let byte = |nth: usize, at: usize| (at * 31 + nth * 97 + at / 251) as u8;
        let buffer = |nth: usize| (0..len + 4096).map(|at| byte(nth, at)).collect();
        Buffers { bytes: (0..count).map(buffer).collect(), len }
    }

    /// Returns the tile at `at` of every buffer but the last, and that of the last.
    fn tiles(&mut self, at: usize) -> (Vec<&[u8]>, &mut [u8]) {
        let start = |bytes: &[u8]| bytes.as_ptr().align_offset(4096) + at;
        let (last, sources) = self.bytes.split_last_mut().expect("one at least");
        let first = start(last);
        let sources = sources.iter().map(|bytes| &bytes[start(bytes)..][..TILE]).collect();
        (sources, &mut last[first..][..TILE])
    }
}

/// A variant: its name and its work on one tile. The work returns a checksum, or 0.
type Way<'a> = (&'static str, &'a dyn Fn(&[&[u8]], &mut [u8]) -> u32);

/// Times the variants of `what`, with `sources` sources, in alternation.
fn compare(what: &str, sources: usize, ways: &[Way<'_>]) {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(15);
    for (place, len) in PLACES {
        if !format!("{what} {place}").contains(&filter) {
            continue;
        }
        let mut buffers = Buffers::new(sources + 1, len);
        let calls = (64 << 20) / buffers.len;
        let mut times = vec![Vec::new(); ways.len()];
        for round in 0..rounds {
            let turn = |nth| if round % 2 == 1 { ways.len() - 1 - nth } else { nth };
            for nth in (0..ways.len()).map(turn) {
                let begun = busy();
                for at in (0..calls).flat_map(|_| (0..len).step_by(TILE)) {
                    let (sources, out) = buffers.tiles(at);
                    black_box((ways[nth].1)(black_box(&sources), black_box(out)));
                }
                times[nth].push((busy() - begun).as_secs_f64());
            }
        }
        let best = |nth: usize| times[nth].iter().copied().fold(f64::INFINITY, f64::min);
        for (nth, (name, _)) in ways.iter().enumerate() {
            let rate = (calls * len * sources) as f64 / best(nth) / 1e9;
            let over = median(times[nth].iter().zip(&times[0]).map(|(a, b)| a / b).collect());
            let least = best(nth) / best(0);
            println!("{what} {place} | {name:<42} | {rate:>6.1} | {over:>5.3} | {least:>5.3}");
        }
    }
}

fn sums(kernel: Kernel) {
    let fast = |pieces: std::slice::Chunks<'_, u8>| {
        let mut hasher = crc32fast::Hasher::new();
        pieces.for_each(|piece| hasher.update(piece));
        hasher.finalize()
    };
    let ours = |pieces: std::slice::Chunks<'_, u8>| {
        let mut hasher = Hasher::with_kernel(kernel);
        pieces.for_each(|piece| hasher.update(piece));
        hasher.finish()
    };
    compare(
        "sum",
        1,
        &[
            ("crc32fast, tiles", &|sources, _| fast(sources[0].chunks(TILE))),
            ("crc32fast, pieces", &|sources, _| fast(sources[0].chunks(PIECE))),
            ("ours, tiles", &|sources, _| ours(sources[0].chunks(TILE))),
            ("ours, pieces", &|sources, _| ours(sources[0].chunks(PIECE))),
        ],
    );
}

fn copies(kernel: Kernel) {
    let bare = |from: &[u8], to: &mut [u8]| {
        kernel.copy(to, from, |_| ());
        0
    };
    let fast = |from: &[u8], to: &mut [u8]| {
        let mut hasher = crc32fast::Hasher::new();
        kernel.copy(to, from, |piece| hasher.update(piece));
        hasher.finalize()
    };
    let ours = |from: &[u8], to: &mut [u8]| {
        let mut hasher = Hasher::with_kernel(kernel);
        kernel.copy(to, from, |piece| hasher.update(piece));
        hasher.finish()
    };
    let both = |from: &[u8], to: &mut [u8]| {
        let mut hasher = Hasher::with_kernel(kernel);
        hasher.put(Made { to, bytes: from, more: false });
        hasher.finish()
    };
    compare(
        "copy",
        1,
        &[
            ("without a checksum", &|sources, out| bare(sources[0], out)),
            ("crc32fast, pieces before they are copied", &|sources, out| fast(sources[0], out)),
            ("ours, pieces before they are copied", &|sources, out| ours(sources[0], out)),
            ("ours, in one loop", &|sources, out| both(sources[0], out)),
        ],
    );
}

fn encodes(kernel: Kernel) {
    let code = Code::with_kernel(3, 1, kernel).unwrap();
    let encode = |sources: &[&[u8]], out: &mut [u8], put: &mut dyn FnMut(Made<'_>)| {
        code.encode_row_by_pieces(0, sources, out, put).unwrap();
    };
    let bare = |sources: &[&[u8]], out: &mut [u8]| {
        encode(sources, out, &mut |made| kernel.put(made, |_| ()));
        0
    };
    let fast = |sources: &[&[u8]], out: &mut [u8]| {
        let mut hasher = crc32fast::Hasher::new();
        encode(sources, out, &mut |made| kernel.put(made, |piece| hasher.update(piece)));
        hasher.finalize()
    };
    let ours = |sources: &[&[u8]], out: &mut [u8]| {
        let mut hasher = Hasher::with_kernel(kernel);
        encode(sources, out, &mut |made| kernel.put(made, |piece| hasher.update(piece)));
        hasher.finish()
    };
    let both = |sources: &[&[u8]], out: &mut [u8]| {
        let mut hasher = Hasher::with_kernel(kernel);
        encode(sources, out, &mut |made| hasher.put(made));
        hasher.finish()
    };
    compare(
        "encode",
        3,
        &[
            ("without a checksum", &bare),
            ("crc32fast, pieces before they are copied", &fast),
            ("ours, pieces before they are copied", &ours),
            ("ours, in one loop", &both),
        ],
    );
}

fn main() {
    // `cargo test` runs this without `--bench`: that it compiles is the whole test.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let kernel = Kernel::chosen().unwrap();
    println!("kernel {kernel}");
    println!("what | way | GB/s | over the first, median | best");
    sums(kernel);
    copies(kernel);
    encodes(kernel);
}
