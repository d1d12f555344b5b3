//! Planning and rebuilding one lost shard, in bytes of surviving shards read per second.
//!
//! Each rebuilt shard is compared with the lost one before anything is timed. Left out: fetching
//! the survivors.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use raidshmem_codec::code::Code;
use std::hint::black_box;

const LEN: usize = 64 * 1024;
const SHAPES: [(usize, usize); 4] = [(3, 1), (7, 1), (6, 2), (8, 3)];

/// The data shards of a stripe and then its parity.
fn stripe(code: &Code) -> Vec<Vec<u8>> {
    let shard = |i: usize| (0..LEN).map(|at| (at * 31 + i * 97 + at / 251) as u8).collect();
    let mut all: Vec<Vec<u8>> = (0..code.data()).map(shard).collect();
    for row in 0..code.parity() {
        let mut parity = vec![0; LEN];
        let data: Vec<&[u8]> = all[..code.data()].iter().map(Vec::as_slice).collect();
        code.encode_row(row, &data, &mut parity).unwrap();
        all.push(parity);
    }
    all
}

fn benches(c: &mut Criterion) {
    for (k, m) in SHAPES {
        let code = Code::new(k, m).unwrap();
        let all = stripe(&code);
        let lost: Vec<bool> = (0..k + m).map(|shard| shard < m).collect();
        let plan = code.plan(&lost, 0).unwrap();
        let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| all[s].as_slice()).collect();
        let mut out = vec![0; LEN];
        plan.apply(&sources, &mut out).unwrap();
        assert!(out == all[0]);

        let mut group = c.benchmark_group("rebuild");
        group.throughput(Throughput::Bytes((sources.len() * LEN) as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{k}+{m}")), |b| {
            b.iter(|| plan.apply(black_box(&sources), black_box(&mut out)).unwrap());
        });
        group.finish();
        c.bench_function(&format!("plan/{k}+{m}"), |b| {
            b.iter(|| code.plan(black_box(&lost), 0).unwrap());
        });
    }
}

criterion_group!(all, benches);
criterion_main!(all);
