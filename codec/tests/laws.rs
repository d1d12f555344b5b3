//! Laws of the codes, on random shapes, contents, lengths and alignments.
//!
//! Left out: completeness over small shapes (`exhaustive.rs`).

mod common;

use common::{noise, shards, slices, xor};
use proptest::prelude::*;
use raidshmem_codec::crc::Hasher;
use raidshmem_codec::kernel::{Kernel, Made};
use raidshmem_codec::{Error, code::Code};

/// Generates data, parity, bytes per shard, and seed of the contents.
fn shape() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    (1usize..=12, 1usize..=5, 0usize..=300, any::<u64>())
}

fn parity_of(code: &Code, data: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0x77; data[0].len()]; code.parity()];
    let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(data, &mut outs).unwrap();
    parity
}

/// Returns flags for `count` of `n` shards, chosen by `seed`.
fn losses(seed: u64, n: usize, count: usize) -> Vec<bool> {
    let keys = noise(seed, n);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&shard| (keys[shard], shard));
    (0..n).map(|shard| order[..count].contains(&shard)).collect()
}

proptest! {
    #[test]
    fn parity_is_linear((k, m, len, seed) in shape()) {
        let code = Code::new(k, m).unwrap();
        let (a, b) = (shards(seed, k, len), shards(!seed, k, len));
        let both: Vec<Vec<u8>> = a.iter().zip(&b).map(|(a, b)| xor(a, b)).collect();
        let (pa, pb) = (parity_of(&code, &slices(&a)), parity_of(&code, &slices(&b)));
        for (row, parity) in parity_of(&code, &slices(&both)).iter().enumerate() {
            prop_assert_eq!(parity, &xor(&pa[row], &pb[row]));
        }
    }

    #[test]
    fn updating_is_encoding_again((k, m, len, seed) in shape(), pick in any::<usize>()) {
        let code = Code::new(k, m).unwrap();
        let column = pick % k;
        let mut data = shards(seed, k, len);
        let mut parity = parity_of(&code, &slices(&data));
        let new = noise(!seed, len);
        let delta = xor(&data[column], &new);
        data[column] = new;
        let mut at_once = parity.clone();
        let mut outs: Vec<&mut [u8]> = at_once.iter_mut().map(Vec::as_mut_slice).collect();
        code.update_all(column, &delta, &mut outs).unwrap();
        for (row, parity) in parity.iter_mut().enumerate() {
            code.update(row, column, &delta, parity).unwrap();
        }
        prop_assert_eq!(&parity, &parity_of(&code, &slices(&data)));
        prop_assert_eq!(parity, at_once);
    }

    #[test]
    fn a_row_is_updated_for_several_shards_at_once(
        (k, m, len, seed) in shape(), pick in any::<u64>()
    ) {
        let code = Code::new(k, m).unwrap();
        let (old, mut new) = (shards(seed, k, len), shards(!seed, k, len));
        let changed: Vec<usize> = (0..k).filter(|column| pick >> (column % 64) & 1 == 1).collect();
        (0..k).filter(|column| !changed.contains(column)).for_each(|at| new[at] = old[at].clone());
        let changes: Vec<(usize, &[u8], &[u8])> =
            changed.iter().map(|&at| (at, &old[at][..], &new[at][..])).collect();
        let before = parity_of(&code, &slices(&old));
        for (row, parity) in parity_of(&code, &slices(&new)).into_iter().enumerate() {
            let (mut out, mut shown) = (vec![0x55; len], Vec::new());
            let put = |made: Made<'_>| {
                shown.extend_from_slice(made.bytes);
                Kernel::best().put(made, |_| ());
            };
            code.update_row_by_pieces(row, &before[row], &changes, &mut out, put).unwrap();
            prop_assert_eq!(&out, &parity);
            prop_assert_eq!(shown, parity);
        }
    }

    #[test]
    fn rebuilding_undoes_losing((k, m, len, seed) in shape(), count in 0usize..=5) {
        let code = Code::new(k, m).unwrap();
        let mut all = shards(seed, k, len);
        all.extend(parity_of(&code, &slices(&all)));
        let lost = losses(seed, k + m, count.min(m));
        for want in 0..k + m {
            let plan = code.plan(&lost, want).unwrap();
            let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| &all[s][..]).collect();
            let mut out = vec![0x77; len];
            plan.apply(&sources, &mut out).unwrap();
            prop_assert_eq!(&out, &all[want]);
            let mut sum = vec![0; len];
            for position in (0..sources.len()).rev() {
                plan.add(position, sources[position], &mut sum).unwrap();
            }
            prop_assert_eq!(&sum, &all[want]);
        }
    }

    #[test]
    fn one_loss_too_many_is_refused((k, m, _, seed) in shape(), pick in any::<usize>()) {
        let code = Code::new(k, m).unwrap();
        let want = pick % (k + m);
        prop_assert!(code.plan(&losses(seed, k + m, m), want).is_ok());
        let refused = Err(Error::TooManyLost { lost: m + 1, parity: m });
        prop_assert_eq!(code.plan(&losses(seed, k + m, m + 1), want), refused);
    }

    #[test]
    fn alignment_does_not_matter(
        (k, m, len, seed) in shape(),
        shifts in proptest::array::uniform2(0usize..64),
    ) {
        let code = Code::new(k, m).unwrap();
        let data = shards(seed, k, len);
        let shifted: Vec<Vec<u8>> =
            data.iter().map(|d| [&vec![0; shifts[0]], &d[..]].concat()).collect();
        let sources: Vec<&[u8]> = shifted.iter().map(|s| &s[shifts[0]..]).collect();
        let expected = parity_of(&code, &slices(&data));
        for (row, expected) in expected.iter().enumerate() {
            let mut out = vec![0x77; shifts[1] + len + 1];
            code.encode_row(row, &sources, &mut out[shifts[1]..shifts[1] + len]).unwrap();
            prop_assert_eq!(&out[shifts[1]..shifts[1] + len], &expected[..]);
            prop_assert_eq!(out[shifts[1] + len], 0x77);
        }
    }

    #[test]
    fn a_range_can_be_coded_by_itself(
        (k, m, len, seed) in shape(),
        cut in proptest::array::uniform2(0usize..=300),
    ) {
        let code = Code::new(k, m).unwrap();
        let data = shards(seed, k, len);
        let (from, to) = (cut[0].min(cut[1]).min(len), cut[0].max(cut[1]).min(len));
        let part: Vec<&[u8]> = data.iter().map(|d| &d[from..to]).collect();
        let whole = parity_of(&code, &slices(&data));
        for (row, parity) in parity_of(&code, &part).iter().enumerate() {
            prop_assert_eq!(&parity[..], &whole[row][from..to]);
        }
    }
}

#[test]
fn shards_of_many_blocks_agree_across_kernels() {
    for (k, m) in [(3, 1), (4, 2), (7, 3), (1, 2), (5, 9)] {
        for len in [8191, 8192, 8193, 3 * 8192 + 5] {
            let data = shards(len as u64, k, len);
            let parities: Vec<Vec<Vec<u8>>> = Kernel::available()
                .iter()
                .map(|&kernel| parity_of(&Code::with_kernel(k, m, kernel).unwrap(), &slices(&data)))
                .collect();
            assert!(parities.windows(2).all(|pair| pair[0] == pair[1]), "{k}+{m}, {len} bytes");
            let code = Code::new(k, m).unwrap();
            for (row, expected) in parities[0].iter().enumerate() {
                let mut out = vec![0x77; len];
                code.encode_row(row, &slices(&data), &mut out).unwrap();
                assert!(&out == expected, "{k}+{m}, {len} bytes, row {row}");
            }
        }
    }
}

/// Results large enough to be written past the caches, at a length on no boundary.
#[test]
fn large_results_agree_across_kernels() {
    const LEN: usize = (6 << 20) + 77;
    for (k, m) in [(3, 1), (2, 2), (2, 4)] {
        let data = shards(5, k, LEN);
        let parity = |kernel: Kernel| {
            let mut buffers = vec![vec![0x77; LEN + 6]; m];
            let mut outs: Vec<&mut [u8]> = buffers
                .iter_mut()
                .enumerate()
                .map(|(i, buffer)| &mut buffer[i + 1..][..LEN])
                .collect();
            let code = Code::with_kernel(k, m, kernel).unwrap();
            code.encode(&slices(&data), &mut outs).unwrap();
            buffers
        };
        let expected = parity(Kernel::WIDE);
        for &kernel in Kernel::available().iter().filter(|&&kernel| kernel != Kernel::NAIVE) {
            assert!(parity(kernel) == expected, "{k}+{m} {kernel}");
        }
    }
}

/// Lengths around a piece, offset so that streamed stores have an unaligned head.
#[test]
fn pieces_shown_to_the_callback_equal_the_output() {
    for (k, m) in [(1, 1), (1, 2), (3, 1), (4, 2), (3, 3), (2, 4)] {
        for len in [0, 1, 4095, 4096, 4097, 3 * 4096 + 17] {
            let data = shards(len as u64, k, len);
            let sources = slices(&data);
            for kernel in Kernel::available() {
                let code = Code::with_kernel(k, m, *kernel).unwrap();
                for row in 0..m {
                    let (mut whole, mut buffer, mut seen) =
                        (vec![0; len], vec![0xa5; len + 9], vec![]);
                    code.encode_row(row, &sources, &mut whole).unwrap();
                    let out = &mut buffer[5..len + 5];
                    let mut hasher = Hasher::with_kernel(*kernel);
                    let put = |made: Made<'_>| {
                        seen.extend_from_slice(made.bytes);
                        hasher.put(made);
                    };
                    code.encode_row_by_pieces(row, &sources, out, put).unwrap();
                    assert!(*out == whole && seen == whole, "{kernel} {k}+{m} row {row}, {len}");
                    assert_eq!(hasher.finish(), crc32fast::hash(&whole));
                    assert!(
                        buffer[..5].iter().chain(&buffer[len + 5..]).all(|&guard| guard == 0xa5)
                    );
                }
                let mut lost = vec![false; k + m];
                lost[0] = true;
                let plan = code.plan(&lost, 0).unwrap();
                let parity = parity_of(&code, &sources);
                let shard =
                    |&at: &usize| data.get(at).unwrap_or_else(|| &parity[at - k]).as_slice();
                let from: Vec<&[u8]> = plan.sources().iter().map(shard).collect();
                let (mut out, mut made) = (vec![1; len], Vec::new());
                let mut seen = vec![Vec::new(); from.len()];
                let see = |at: usize, piece: &[u8]| seen[at].extend_from_slice(piece);
                let look = |piece: &[u8]| made.extend_from_slice(piece);
                plan.apply_shown(&from, &mut out, see, look).unwrap();
                assert!(out == data[0] && made == data[0], "{kernel} {k}+{m} back, {len}");
                assert_eq!(seen, from, "{kernel} {k}+{m} back from, {len}");
            }
        }
    }
}
