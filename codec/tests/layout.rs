//! Every layout of up to 12 members: each chunk is in one stripe, each stripe on distinct members,
//! every tolerable loss decodable, and the maps in the documentation are the actual ones.
//!
//! Left out: the rules of individual schemes beyond the rotated one, which the maps pin down.

mod common;

use common::{masks, noise};
use raidshmem_codec::{code::Code, stripe::*};

/// Returns every legal scheme over every group of 2 to `most` members.
fn layouts(most: usize) -> impl Iterator<Item = (Scheme, Layout)> {
    let schemes = |g: usize| {
        (1..g)
            .flat_map(|parity| Scheme::all(parity).filter(move |scheme| scheme.parity() == parity))
    };
    let layout = |scheme, g| (scheme, Layout::new(scheme, g).unwrap());
    (2..=most).flat_map(move |g| schemes(g).map(move |scheme| layout(scheme, g)))
}

#[test]
fn every_chunk_is_in_one_stripe_and_place_of_finds_it() {
    for (scheme, layout) in layouts(12) {
        let mut seen = vec![0; layout.members() * layout.chunks()];
        for (stripe, s) in layout.stripes().iter().enumerate() {
            for (index, data) in s.data.iter().enumerate() {
                seen[data.member * layout.chunks() + data.chunk] += 1;
                let place = layout.place_of(data.member, data.chunk);
                assert_eq!(place, Place { stripe, index }, "{scheme:?}\n{layout}");
            }
        }
        assert!(seen.iter().all(|&times| times == 1), "{scheme:?}\n{layout}");
    }
}

#[test]
fn no_member_is_twice_in_a_stripe() {
    for (scheme, layout) in layouts(12) {
        for stripe in layout.stripes() {
            let mut holders: Vec<usize> = stripe.holders().collect();
            holders.sort_unstable();
            holders.dedup();
            assert_eq!(holders.len(), stripe.data.len() + stripe.parity.len(), "{scheme:?}");
            assert!(holders.iter().all(|&member| member < layout.members()));
            assert_eq!(stripe.parity.len(), layout.parity());
        }
    }
}

#[test]
fn slots_and_stripes_agree() {
    for (scheme, layout) in layouts(12) {
        for (stripe, s) in layout.stripes().iter().enumerate() {
            for (row, at) in s.parity.iter().enumerate() {
                assert_eq!(layout.parities_of(at.member)[at.slot], Parity { stripe, row });
            }
        }
        let held: usize = (0..layout.members()).map(|j| layout.parities_of(j).len()).sum();
        assert_eq!(held, layout.stripes().len() * layout.parity(), "{scheme:?}");
    }
}

#[test]
fn rotated_layouts_follow_the_rule() {
    for (scheme, layout) in layouts(12) {
        let (g, m) = (layout.members(), layout.parity());
        if !matches!(scheme, Scheme::Raid5 | Scheme::Rs { .. }) {
            continue;
        }
        assert_eq!((layout.stripes().len(), layout.chunks()), (g, g - m));
        for j in 0..g {
            let rows: Vec<usize> = layout.parities_of(j).iter().map(|p| p.row).collect();
            assert_eq!(rows, (0..m).collect::<Vec<_>>());
            for c in 0..g - m {
                let stripe = (j + 1 + c) % g;
                let index = (2 * g + j - stripe - m) % g;
                assert_eq!(layout.place_of(j, c), Place { stripe, index }, "{scheme:?}");
            }
        }
    }
}

#[test]
fn raid5_is_rs_with_one_parity() {
    for g in 2..=12 {
        let raid5 = Layout::new(Scheme::Raid5, g).unwrap();
        assert_eq!(raid5.stripes(), Layout::new(Scheme::Rs { parity: 1 }, g).unwrap().stripes());
    }
}

#[test]
fn every_tolerable_loss_leaves_every_stripe_decodable() {
    for (scheme, layout) in layouts(12) {
        for mask in masks(layout.members(), layout.parity()) {
            for stripe in layout.stripes() {
                let lost = stripe.lost(|member| mask >> member & 1 == 1);
                let count = lost.iter().filter(|&&lost| lost).count();
                assert!(count <= stripe.parity.len(), "{scheme:?} {mask:b}\n{layout}");
            }
        }
    }
}

/// Returns the snapshots of all members, cut into zero-padded chunks: `chunks[member][chunk]`.
fn chunks(layout: &Layout, len: usize) -> Vec<Vec<Vec<u8>>> {
    let chunk_len = layout.chunk_len(len, 8);
    let cut = |member: usize| {
        let mut snapshot = noise(member as u64, len);
        snapshot.resize(layout.chunks() * chunk_len, 0);
        snapshot.chunks(chunk_len).map(<[u8]>::to_vec).collect()
    };
    (0..layout.members()).map(cut).collect()
}

/// Returns the shards of a stripe in order, data taken from `chunks`, parity computed.
fn encoded(code: &Code, stripe: &Stripe, chunks: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        stripe.data.iter().map(|d| chunks[d.member][d.chunk].clone()).collect();
    let mut parity = vec![vec![0; all[0].len()]; stripe.parity.len()];
    let mut outs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&common::slices(&all), &mut outs).unwrap();
    all.extend(parity);
    all
}

#[test]
fn a_whole_group_is_restored() {
    for (scheme, layout) in layouts(6) {
        let chunks = chunks(&layout, 101);
        for stripe in layout.stripes() {
            let code = Code::new(stripe.data.len(), stripe.parity.len()).unwrap();
            let all = encoded(&code, stripe, &chunks);
            for mask in masks(layout.members(), layout.parity()) {
                let lost = stripe.lost(|member| mask >> member & 1 == 1);
                for (want, expected) in all.iter().enumerate() {
                    let plan = code.plan(&lost, want).unwrap();
                    let sources: Vec<&[u8]> = plan.sources().iter().map(|&s| &all[s][..]).collect();
                    let mut out = vec![0; expected.len()];
                    plan.apply(&sources, &mut out).unwrap();
                    assert_eq!(&out, expected, "{scheme:?} {mask:b} {want}");
                }
            }
        }
    }
}

#[test]
fn lengths_are_whole_tiles() {
    let layout = Layout::new(Scheme::Rs { parity: 2 }, 5).unwrap();
    assert_eq!(layout.chunk_len(0, 64), 0);
    assert_eq!(layout.chunk_len(1, 64), 64);
    assert_eq!(layout.chunk_len(3 * 64, 64), 64);
    assert_eq!(layout.chunk_len(3 * 64 + 1, 64), 128);
    assert_eq!(layout.chunk_len(10, 1), 4);
    assert_eq!(layout.chunk_len(10, 0), 4);
    assert_eq!(layout.slot_len(0, 64), 64);
    let raid4 = Layout::new(Scheme::Raid4, 4).unwrap();
    assert_eq!([0, 1, 2, 3].map(|member| raid4.slot_len(member, 64)), [64, 0, 0, 64]);
}

#[test]
fn the_documented_maps_are_the_real_ones() {
    let doc: String = include_str!("../src/stripe.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    let shown = [
        (Scheme::Raid5, 4),
        (Scheme::Rs { parity: 2 }, 5),
        (Scheme::Raid4, 4),
        (Scheme::Mirror, 4),
    ];
    for (scheme, members) in shown {
        let map = Layout::new(scheme, members).unwrap().to_string();
        assert!(doc.contains(&format!("```text\n{map}```\n")), "{scheme:?}:\n{map}");
    }
}

#[test]
fn clones_share_their_tables() {
    let layout = Layout::new(Scheme::Raid5, 64).unwrap();
    assert!(std::ptr::eq(layout.stripes(), layout.clone().stripes()));
}
