//! Planning and rebuilding one or two lost shards, in bytes of surviving shards read per second.
//!
//! Each rebuilt shard is compared with the lost one before timing starts. Left out: fetching the
//! survivors.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use raidshmem_codec::code::Code;

/// Bytes of a stripe that stays in a core's L2 cache, and of one that comes from memory.
const PLACES: [(&str, usize); 2] = [("cache", 512 << 10), ("memory", 256 << 20)];
const SHAPES: [(usize, usize); 5] = [(3, 1), (8, 1), (3, 2), (8, 2), (10, 4)];

/// Returns the data shards of a stripe, followed by its parity.
fn stripe(code: &Code, total: usize) -> Vec<Vec<u8>> {
    let len = (total / (code.data() + code.parity())) & !63;
    let shard = |i: usize| (0..len).map(|at| (at * 31 + i * 97 + at / 251) as u8).collect();
    let mut all: Vec<Vec<u8>> = (0..code.data()).map(shard).collect();
    for row in 0..code.parity() {
        let mut parity = vec![0; len];
        let data: Vec<&[u8]> = all[..code.data()].iter().map(Vec::as_slice).collect();
        code.encode_row(row, &data, &mut parity).unwrap();
        all.push(parity);
    }
    all
}

fn rebuild(c: &mut Criterion, code: &Code, all: &[Vec<u8>], gone: usize, place: &str) {
    let (k, m) = (code.data(), code.parity());
    let lost: Vec<bool> = (0..k + m).map(|shard| shard < gone).collect();
    let wants: Vec<usize> = (0..gone).collect();
    let plan = code.plan_all(&lost, &wants).unwrap();
    let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| all[s].as_slice()).collect();
    let mut rebuilt = vec![vec![0; all[0].len()]; gone];
    let apply = |rebuilt: &mut [Vec<u8>]| {
        let mut outs: Vec<&mut [u8]> = rebuilt.iter_mut().map(Vec::as_mut_slice).collect();
        plan.apply(black_box(&sources), black_box(&mut outs)).unwrap();
    };
    apply(&mut rebuilt);
    assert!(rebuilt == all[..gone]);

    let mut group = c.benchmark_group(format!("rebuild {gone}"));
    group.sample_size(if place == "memory" { 10 } else { 100 });
    group.throughput(Throughput::Bytes((sources.len() * all[0].len()) as u64));
    group.bench_function(BenchmarkId::new(format!("{k}+{m}"), place), |b| {
        b.iter(|| apply(&mut rebuilt));
    });
    group.finish();
}

fn benches(c: &mut Criterion) {
    for ((place, total), (k, m)) in PLACES.into_iter().flat_map(|p| SHAPES.map(|s| (p, s))) {
        let code = Code::new(k, m).unwrap();
        let all = stripe(&code, total);
        (1..=m.min(2)).for_each(|gone| rebuild(c, &code, &all, gone, place));
    }
    for (k, m) in SHAPES {
        let code = Code::new(k, m).unwrap();
        let lost: Vec<bool> = (0..k + m).map(|shard| shard < m).collect();
        c.bench_function(&format!("plan/{k}+{m}"), |b| {
            b.iter(|| code.plan(black_box(&lost), 0).unwrap());
        });
    }
}

criterion_group!(all, benches);
criterion_main!(all);
