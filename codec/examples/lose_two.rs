//! A group of five members with two parities loses two members and rebuilds their snapshots.
//!
//! Shows how [`Layout`] and [`Code`] fit together; the "members" are vectors of this one process.

use raidshmem_codec::{
    Error,
    code::Code,
    crc::crc32,
    stripe::{Layout, Scheme},
};

const MEMBERS: usize = 5;
const TILE: usize = 16;
const LOST: [usize; 2] = [1, 3];

fn snapshot(member: usize) -> Vec<u8> {
    format!("what member {member} had in memory when the checkpoint was taken").into_bytes()
}

/// A member's own snapshot, in chunks, and its parity slots.
struct Member {
    chunks: Vec<Vec<u8>>,
    slots: Vec<Vec<u8>>,
}

fn main() -> Result<(), Error> {
    let layout = Layout::new(Scheme::Rs { parity: 2 }, MEMBERS)?;
    let code = Code::new(MEMBERS - 2, 2)?;
    print!("{layout}");

    let mut group: Vec<Member> = (0..MEMBERS).map(|member| cut(&layout, member)).collect();
    protect(&layout, &code, &mut group)?;
    for lost in LOST {
        group[lost] = Member { chunks: Vec::new(), slots: Vec::new() };
    }
    for lost in LOST {
        let mut back = Vec::new();
        for chunk in 0..layout.chunks() {
            back.extend(rebuild(&layout, &code, &group, lost, chunk)?);
        }
        back.truncate(snapshot(lost).len());
        assert_eq!(crc32(&back), crc32(&snapshot(lost)));
        println!("member {lost}: {}", String::from_utf8_lossy(&back));
    }
    Ok(())
}

fn cut(layout: &Layout, member: usize) -> Member {
    let mut bytes = snapshot(member);
    let chunk_len = layout.chunk_len(bytes.len(), TILE);
    bytes.resize(layout.chunks() * chunk_len, 0);
    let slots = vec![vec![0; layout.slot_len(member, chunk_len)]; layout.parities_of(member).len()];
    Member { chunks: bytes.chunks(chunk_len).map(<[u8]>::to_vec).collect(), slots }
}

fn protect(layout: &Layout, code: &Code, group: &mut [Member]) -> Result<(), Error> {
    for stripe in layout.stripes() {
        for (row, at) in stripe.parity.iter().enumerate() {
            let mut parity = std::mem::take(&mut group[at.member].slots[at.slot]);
            let sources: Vec<&[u8]> =
                stripe.data.iter().map(|d| group[d.member].chunks[d.chunk].as_slice()).collect();
            code.encode_row(row, &sources, &mut parity)?;
            group[at.member].slots[at.slot] = parity;
        }
    }
    Ok(())
}

fn rebuild(
    layout: &Layout,
    code: &Code,
    group: &[Member],
    member: usize,
    chunk: usize,
) -> Result<Vec<u8>, Error> {
    let place = layout.place_of(member, chunk);
    let stripe = &layout.stripes()[place.stripe];
    let plan = code.plan(&stripe.lost(|member| LOST.contains(&member)), place.index)?;
    let shard = |&shard: &usize| match stripe.data.get(shard) {
        Some(data) => group[data.member].chunks[data.chunk].as_slice(),
        None => {
            let at = stripe.parity[shard - stripe.data.len()];
            group[at.member].slots[at.slot].as_slice()
        }
    };
    let sources: Vec<&[u8]> = plan.sources().iter().map(shard).collect();
    let mut out = vec![0; sources[0].len()];
    plan.apply(&sources, &mut out)?;
    Ok(out)
}
