//! Encoding and updating the parity of one stripe, in bytes of data shards per second.
//!
//! The result is checked once before anything is timed. Left out: threads, and buffers that have
//! to come from far memory; what is measured is the codec with its stripe near the cache.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use raidshmem_codec::code::Code;
use raidshmem_codec::kernel::Kernel;
use std::hint::black_box;

const LEN: usize = 64 * 1024;
const SHAPES: [(usize, usize); 4] = [(3, 1), (7, 1), (6, 2), (8, 3)];

fn shard(i: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + i * 97 + at / 251) as u8).collect()
}

fn encode(code: &Code, data: &[&[u8]], parity: &mut [Vec<u8>]) {
    let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(data, &mut outs).unwrap();
}

/// The parity of `data`, found equal to that of the reference kernel.
fn checked(code: &Code, data: &[&[u8]]) -> Vec<Vec<u8>> {
    let naive = Code::with_kernel(code.data(), code.parity(), Kernel::NAIVE).unwrap();
    let mut parity = vec![vec![0; LEN]; code.parity()];
    let mut expected = parity.clone();
    encode(code, data, &mut parity);
    encode(&naive, data, &mut expected);
    assert!(parity == expected);
    parity
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for (k, m) in SHAPES {
        let code = Code::new(k, m).unwrap();
        let data: Vec<Vec<u8>> = (0..k).map(shard).collect();
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut parity = checked(&code, &data);
        group.throughput(Throughput::Bytes((k * LEN) as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{k}+{m}")), |b| {
            b.iter(|| encode(&code, black_box(&data), black_box(&mut parity)));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("update");
    group.throughput(Throughput::Bytes(LEN as u64));
    for (k, m) in [(3, 1), (6, 2)] {
        let code = Code::new(k, m).unwrap();
        let (delta, mut parity) = (shard(1), shard(2));
        group.bench_function(BenchmarkId::from_parameter(format!("{k}+{m}")), |b| {
            b.iter(|| code.update(0, 1, black_box(&delta), black_box(&mut parity)).unwrap());
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
