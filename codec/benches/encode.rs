//! Encoding and updating the parity of one stripe, in bytes of data shards per second: by shape, in
//! the cache and from memory, and by kernel.
//!
//! The result is checked once before anything is timed. Left out: threads, and other codecs (see
//! `isal.rs`).

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use raidshmem_codec::code::Code;
use raidshmem_codec::kernel::Kernel;

/// Bytes of a stripe that stays in a core's L2 cache, and of one that comes from memory.
const PLACES: [(&str, usize); 2] = [("cache", 512 << 10), ("memory", 256 << 20)];
const SHAPES: [(usize, usize); 5] = [(3, 1), (8, 1), (3, 2), (8, 2), (10, 4)];

fn shard(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + i * 97 + at / 251) as u8).collect()
}

fn encode(code: &Code, data: &[&[u8]], parity: &mut [Vec<u8>]) {
    let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(data, &mut outs).unwrap();
}

/// Times `code` on a stripe of `total` bytes, after checking its first bytes against the reference
/// kernel.
fn stripe(group: &mut BenchmarkGroup<'_, WallTime>, id: BenchmarkId, code: &Code, total: usize) {
    let (k, m) = (code.data(), code.parity());
    let len = (total / (k + m)) & !63;
    let data: Vec<Vec<u8>> = (0..k).map(|i| shard(i, len)).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0; len]; m];
    encode(code, &data, &mut parity);

    let some = len.min(64 << 10);
    let first: Vec<&[u8]> = data.iter().map(|shard| &shard[..some]).collect();
    let mut expected = vec![vec![0; some]; m];
    encode(&Code::with_kernel(k, m, Kernel::NAIVE).unwrap(), &first, &mut expected);
    assert!(parity.iter().zip(&expected).all(|(got, want)| got[..some] == want[..]));

    group.throughput(Throughput::Bytes((k * len) as u64));
    group.bench_function(id, |b| b.iter(|| encode(code, black_box(&data), black_box(&mut parity))));
}

fn shapes(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for ((place, total), (k, m)) in PLACES.into_iter().flat_map(|p| SHAPES.map(|s| (p, s))) {
        group.sample_size(if place == "memory" { 10 } else { 100 });
        let id = BenchmarkId::new(format!("{k}+{m}"), place);
        stripe(&mut group, id, &Code::new(k, m).unwrap(), total);
    }
    group.finish();
}

fn kernels(c: &mut Criterion) {
    let mut group = c.benchmark_group("kernel");
    for &kernel in Kernel::available().iter().filter(|&&kernel| kernel != Kernel::NAIVE) {
        for (k, m) in [(8, 1), (8, 2)] {
            let id = BenchmarkId::new(kernel.name(), format!("{k}+{m}"));
            stripe(&mut group, id, &Code::with_kernel(k, m, kernel).unwrap(), PLACES[0].1);
        }
    }
    group.finish();
}

fn update(c: &mut Criterion) {
    let mut group = c.benchmark_group("update");
    for ((place, total), (k, m)) in PLACES.into_iter().flat_map(|p| SHAPES.map(|s| (p, s))) {
        group.sample_size(if place == "memory" { 10 } else { 100 });
        let code = Code::new(k, m).unwrap();
        let len = (total / (k + m)) & !63;
        let (delta, mut parity) = (shard(1, len), vec![shard(2, len); m]);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::new(format!("{k}+{m}"), place), |b| {
            b.iter(|| {
                let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
                code.update_all(1, black_box(&delta), &mut outs).unwrap();
            });
        });
    }
    group.finish();
}

criterion_group!(all, shapes, kernels, update);
criterion_main!(all);
