//! Wrong shapes: the error names what was expected and what was given, and nothing is written.
//!
//! Left out: too many losses (`exhaustive.rs`, `laws.rs`).

use raidshmem_codec::Error;
use raidshmem_codec::code::{Code, MAX_SHARDS};
use raidshmem_codec::stripe::{Layout, MAX_MEMBERS, Scheme};

fn code_error(data: usize, parity: usize) -> Error {
    Code::new(data, parity).unwrap_err()
}

fn layout_error(scheme: Scheme, members: usize) -> Error {
    Layout::new(scheme, members).unwrap_err()
}

#[test]
fn codes_out_of_range() {
    assert_eq!(code_error(0, 1), Error::TooFewData { expected: 1, got: 0 });
    assert_eq!(code_error(1, 0), Error::TooFewParities { expected: 1, got: 0 });
    assert_eq!(code_error(255, 2), Error::TooManyShards { expected: MAX_SHARDS, got: 257 });
    let most = Error::TooManyShards { expected: MAX_SHARDS, got: usize::MAX };
    assert_eq!(code_error(usize::MAX, 2), most);
    assert!(Code::new(255, 1).is_ok() && Code::new(1, 255).is_ok());
}

#[test]
fn layouts_out_of_range() {
    let all = [Scheme::Mirror, Scheme::Raid4, Scheme::Raid5, Scheme::Rs { parity: 1 }];
    for scheme in all {
        assert_eq!(layout_error(scheme, 1), Error::TooFewMembers { expected: 2, got: 1 });
        assert_eq!(layout_error(scheme, 0), Error::TooFewMembers { expected: 2, got: 0 });
        let many = Error::TooManyMembers { expected: MAX_MEMBERS, got: 65 };
        assert_eq!(layout_error(scheme, 65), many);
        assert!(Layout::new(scheme, 2).is_ok() && Layout::new(scheme, 64).is_ok());
    }
    let none = Error::TooFewParities { expected: 1, got: 0 };
    assert_eq!(layout_error(Scheme::Rs { parity: 0 }, 4), none);
    let full = Error::TooManyParities { expected: 3, got: 4 };
    assert_eq!(layout_error(Scheme::Rs { parity: 4 }, 4), full);
}

#[test]
fn encoding_with_wrong_shapes_writes_nothing() {
    let code = Code::new(2, 2).unwrap();
    let (a, b, short) = ([1; 4], [2; 4], [3; 3]);
    let (mut p, mut q, mut r) = ([9; 4], [9; 4], [9; 5]);
    let shards = |got| Err(Error::Shards { expected: 2, got });
    let length = |got| Err(Error::Length { expected: 4, got });

    assert_eq!(code.encode(&[&a], &mut [&mut p, &mut q]), shards(1));
    assert_eq!(code.encode(&[&a, &b], &mut [&mut p]), shards(1));
    assert_eq!(code.encode(&[&a, &short], &mut [&mut p, &mut q]), length(3));
    assert_eq!(code.encode(&[&a, &b], &mut [&mut p, &mut r]), length(5));
    assert_eq!(code.encode_row(0, &[&a, &b, &b], &mut p), shards(3));
    assert_eq!(code.encode_row(1, &[&short, &b], &mut p), length(3));
    let index = Err(Error::Index { expected: 2, got: 2 });
    assert_eq!(code.encode_row(2, &[&a, &b], &mut p), index);
    assert_eq!(code.update(2, 0, &a, &mut p), index);
    assert_eq!(code.update(0, 2, &a, &mut p), index);
    assert_eq!(code.update(0, 1, &short, &mut p), length(3));
    let mut revise = |row, old: &[u8], change| {
        code.update_row_by_pieces(row, old, &[change], &mut p, |_| panic!("nothing is written"))
    };
    assert_eq!(revise(2, &a, (0, &a, &a)), index);
    assert_eq!(revise(0, &a, (2, &a, &a)), index);
    assert_eq!(revise(0, &short, (0, &a, &a)), length(3));
    assert_eq!(revise(0, &a, (0, &short, &a)), length(3));
    assert_eq!(revise(0, &a, (0, &a, &short)), length(3));
    assert_eq!((p, q, r), ([9; 4], [9; 4], [9; 5]));
}

#[test]
fn plans_with_wrong_shapes_write_nothing() {
    let code = Code::new(2, 1).unwrap();
    let shards = Error::Shards { expected: 3, got: 2 };
    assert_eq!(code.plan(&[true, false], 0).unwrap_err(), shards);
    let index = Error::Index { expected: 3, got: 3 };
    assert_eq!(code.plan(&[true, false, false], 3).unwrap_err(), index);

    let plan = code.plan(&[true, false, false], 0).unwrap();
    let mut out = [9; 4];
    let one = Err(Error::Shards { expected: 2, got: 1 });
    assert_eq!(plan.apply(&[&[1; 4]], &mut out), one);
    let length = Err(Error::Length { expected: 4, got: 5 });
    assert_eq!(plan.apply(&[&[1; 4], &[1; 5]], &mut out), length);
    assert_eq!(plan.add(0, &[1; 5], &mut out), length);
    let position = Err(Error::Index { expected: 2, got: 2 });
    assert_eq!(plan.add(2, &[1; 4], &mut out), position);
    assert_eq!(out, [9; 4]);
}

#[test]
fn messages_carry_both_numbers() {
    assert_eq!(code_error(200, 100).to_string(), "a stripe has at most 256 shards, got 300");
    let lost = Code::new(1, 1).unwrap().plan(&[true, true], 0).unwrap_err();
    assert_eq!(lost.to_string(), "2 shards lost, but only 1 can be made up for");
}
