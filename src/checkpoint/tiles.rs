//! Reading and writing sealed tiles of snapshots and parity slots, and gathering live tiles.
//!
//! A region (snapshot or slot) is an array of tiles of [`TILE`] bytes with a table of stamps behind
//! it. Invariant: a tile is believed only after `verify` of its owner, or `fetch` here, has checked
//! its stamp.

use std::ops::Range;

use raidshmem_codec::kernel::{Kernel, Made};
use raidshmem_core::layout::{STAMP, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Pe, TileIndex};
use raidshmem_core::store::coverage::{Coverage, Piece};
use raidshmem_core::store::delta::TileSet;
use raidshmem_core::store::readonly::TileRun;
use raidshmem_core::store::stamp::{Renewal, Seal, Stamp};
use raidshmem_core::store::track::{COSTS, Costs, WriteReport};
use raidshmem_fabric::Read;
use raidshmem_segment::Segment;

use crate::pgas::{Segments, World};

/// A tile of zeroes: what lies beyond the end of a snapshot.
pub static ZEROES: [u8; TILE] = [0; TILE];

/// Number of tiles that `len` bytes occupy.
pub fn tiles(len: usize) -> usize {
    len.div_ceil(TILE)
}

fn stamp_at(segments: &Segments, region: usize, tile: TileIndex) -> usize {
    segments.layout().stamps(region) + tile.at() * STAMP
}

/// Which tile of the store of a PE: of a snapshot or a parity slot, which begins at `region`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreTile {
    /// The PE.
    pub pe: Pe,
    /// Offset of the snapshot or slot in the segment.
    pub region: usize,
    /// Index of the tile there.
    pub tile: TileIndex,
}

impl StoreTile {
    /// The `nth` tile of an own run.
    pub fn own(world: &World, run: TileRun, nth: usize) -> StoreTile {
        StoreTile { pe: world.me(), region: run.region, tile: run.first.after(nth) }
    }

    /// Its offset in the segment.
    pub fn offset(self) -> usize {
        self.region + self.tile.offset()
    }

    /// The offset of its stamp.
    pub fn stamp(self, segments: &Segments) -> usize {
        stamp_at(segments, self.region, self.tile)
    }

    /// The one `steps` after it.
    pub fn after(self, steps: usize) -> StoreTile {
        StoreTile { tile: self.tile.after(steps), ..self }
    }
}

/// Which tile of the live memory of a PE, and of its snapshot.
#[derive(Debug, Clone, Copy)]
pub struct LiveTile {
    /// The PE.
    pub pe: Pe,
    /// Index of the tile.
    pub tile: TileIndex,
}

impl LiveTile {
    /// The same in the snapshot at `region`.
    pub fn in_store(self, region: usize) -> StoreTile {
        StoreTile { pe: self.pe, region, tile: self.tile }
    }
}

/// Overwrites a tile of the store of a PE, which is this one or near it, with what `fill` writes
/// and shows to the seal, and seals it as of checkpoint `number`.
pub fn write(
    world: &World,
    at: StoreTile,
    number: CheckpointNumber,
    fill: impl FnOnce(&mut [u8], &mut Seal),
) {
    let store = world.segments.near(at.pe).expect("a store is written where it is mapped");
    let mut seal = world.stamp(at.pe, number).begin();
    // SAFETY: a tile and its stamp have one writer in each step of the protocol, this thread (of
    // those that share a loop each has other tiles), and readers only in later steps.
    let (bytes, stamp) = unsafe {
        (store.bytes_mut(at.offset(), TILE), store.bytes_mut(at.stamp(world.segments), STAMP))
    };
    fill(bytes, &mut seal);
    stamp.copy_from_slice(&seal.finish());
}

/// The same with `bytes`, which are read once.
pub fn put(world: &World, at: StoreTile, number: CheckpointNumber, bytes: &[u8]) {
    write(world, at, number, |to, seal| seal.put(Made { to, bytes, more: false }));
}

/// How own stamps of the checkpoint `back` before become those of `number`; before the first one
/// there are none.
pub fn renewal(world: &World, number: CheckpointNumber, back: u64) -> Renewal {
    let stamp = |number| world.stamp(world.me(), number);
    Renewal::new(stamp(number.before(back)), stamp(number), TILE)
}

/// Gives an own tile that is as it was its new stamp. False if it has not the old one.
pub fn renew(world: &World, region: usize, tile: TileIndex, renewal: &Renewal) -> bool {
    let renewed = renewal.of(stamp_of(world.segments, region, tile));
    renewed.inspect(|renewed| set_stamp(world.segments, region, tile, renewed)).is_some()
}

/// Overwrites an own tile with that of the same index in region `from`, with its stamp as renewed:
/// that of `number`. False if it does not hold, which is found on the way: then what was written
/// has no stamp.
pub fn carry(
    world: &World,
    from: usize,
    to: StoreTile,
    number: CheckpointNumber,
    renewal: &Renewal,
) -> bool {
    let Some(renewed) = renewal.of(stamp_of(world.segments, from, to.tile)) else { return false };
    put(world, to, number, unchecked(world.segments, from, to.tile));
    let is_whole = *stamp_of(world.segments, to.region, to.tile) == renewed;
    if !is_whole {
        set_stamp(world.segments, to.region, to.tile, &[0; STAMP]);
    }
    is_whole
}

/// The stamp of an own tile as it is.
pub fn stamp_of(segments: &Segments, region: usize, tile: TileIndex) -> &[u8] {
    segments.own().bytes(stamp_at(segments, region, tile), STAMP)
}

/// Gives an own tile another stamp; one of zeroes says that it is none.
pub fn set_stamp(segments: &Segments, region: usize, tile: TileIndex, stamp: &[u8; STAMP]) {
    // SAFETY: the own store; as in `write`.
    unsafe { segments.own().bytes_mut(stamp_at(segments, region, tile), STAMP) }
        .copy_from_slice(stamp);
}

/// Overwrites an own tile, whose stamp stays.
pub fn overwrite(world: &World, at: StoreTile, bytes: &[u8]) {
    // SAFETY: the own store, or own live memory in a recovery; as in `write`.
    unsafe { world.segments.own().bytes_mut(at.offset(), TILE) }.copy_from_slice(bytes);
}

/// Bytes of an own tile, unchecked.
pub fn unchecked(segments: &Segments, region: usize, tile: TileIndex) -> &[u8] {
    segments.own().bytes(region + tile.offset(), TILE)
}

/// Writes what peers read after the next barrier into the own store.
fn show(segments: &Segments, at: usize, bytes: &[u8]) {
    // SAFETY: written by the thread that has its turn, before the barrier that its readers wait at.
    unsafe { segments.own().bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
}

/// Shows the peers which own tiles changed.
pub fn show_changes(segments: &Segments, changed: &TileSet) {
    let bytes = changed.bytes();
    show(segments, segments.layout().changes, bytes);
}

/// Which of the first `count` tiles of PE `pe` changed, as it showed them. If it is lost meanwhile
/// the view has changed when the call returns, and the answer must not be believed.
pub fn changes(world: &World, pe: Pe, count: usize) -> TileSet {
    let mut bytes = TileSet::none(count).bytes().to_vec();
    let (offset, len) = (world.segments.layout().changes, bytes.len());
    match world.segments.near(pe) {
        Some(segment) => bytes.copy_from_slice(segment.bytes(offset, len)),
        None => world.pull(&mut [Read { pe, offset, into: &mut bytes }]),
    }
    TileSet::from_bytes(&bytes)
}

/// Shows PE `pe` which of its tiles this process wrote to.
pub fn show_written(segments: &Segments, pe: Pe, written: &TileSet) {
    let (at, bytes) = (segments.layout().written_to(pe), written.bytes());
    show(segments, at, bytes);
}

/// Says whether what was shown so is all.
pub fn post_written(segments: &Segments, said: WriteReport) {
    let word = said.pack().to_ne_bytes();
    show(segments, segments.layout().written, &word);
}

/// Says what it costs to find changes.
pub fn post_costs(segments: &Segments, costs: &Costs) {
    show(segments, segments.layout().written + 8, &costs.pack());
}

/// What it costs PE `pe`, if it is mapped here.
pub fn costs_of(segments: &Segments, pe: Pe) -> Costs {
    let words = |near: &Segment| {
        let bytes = near.bytes(segments.layout().written + 8, COSTS);
        Costs::unpack(bytes.try_into().expect("so many bytes"))
    };
    segments.near(pe).map_or_else(Costs::default, words)
}

/// What PE `pe` says so, if it is mapped here.
pub fn posted_written(segments: &Segments, pe: Pe) -> WriteReport {
    let Some(segment) = segments.near(pe) else { return WriteReport::Nothing };
    let word = segment.bytes(segments.layout().written, 8);
    WriteReport::unpack(u64::from_ne_bytes(word.try_into().expect("eight bytes")))
}

/// Which of the first `count` own tiles PE `pe`, which is mapped here, wrote to.
pub fn written_by(segments: &Segments, pe: Pe, count: usize) -> TileSet {
    let Some(segment) = segments.near(pe) else { return TileSet::all(count) };
    let len = TileSet::none(count).bytes().len();
    TileSet::from_bytes(segment.bytes(segments.layout().written_to(segments.me()), len))
}

/// True if the own tile holds what its stamp says, as of checkpoint `number`.
pub fn holds(world: &World, region: usize, tile: TileIndex, number: CheckpointNumber) -> bool {
    sealed(world.segments.own(), world.segments, region, tile, &world.stamp(world.me(), number))
}

fn sealed(
    segment: &Segment,
    segments: &Segments,
    region: usize,
    tile: TileIndex,
    stamp: &Stamp,
) -> bool {
    let bytes = segment.bytes(region + tile.offset(), TILE);
    stamp.holds(segment.bytes(stamp_at(segments, region, tile), STAMP), bytes)
}

/// A tile of the own store, if it holds as of checkpoint `number`.
pub fn own(
    world: &World,
    region: usize,
    tile: TileIndex,
    number: CheckpointNumber,
) -> Option<&[u8]> {
    let whole = holds(world, region, tile, number);
    whole.then(|| unchecked(world.segments, region, tile))
}

/// Room for a tile of a far PE's store, and which one is in it.
#[derive(Debug, Clone)]
pub struct Room {
    holds: Option<StoreTile>,
    bytes: Vec<u8>,
    seal: [u8; STAMP],
}

impl Room {
    /// Room without a tile. It takes memory when a tile comes into it.
    pub fn empty() -> Room {
        Room { holds: None, bytes: Vec::new(), seal: [0; STAMP] }
    }
}

/// Pulls tiles of the stores of far PEs into their rooms, all of them on their way at a time, and
/// the stamps of neighbours together; those of mapped PEs are left out. Nothing is checked yet:
/// that is for `fetch`.
pub fn pull_store<'a>(world: &World, wanted: impl Iterator<Item = (StoreTile, &'a mut Room)>) {
    let mut wanted: Vec<_> = wanted.filter(|(at, _)| world.segments.is_far(at.pe)).collect();
    wanted.sort_by_key(|(at, _)| *at);
    let (mut reads, mut seals) = (Vec::new(), vec![[0; STAMP]; wanted.len()]);
    let mut rest = &mut seals[..];
    for run in wanted.chunk_by_mut(|(a, _), (b, _)| a.after(1) == *b) {
        let (these, others) = rest.split_at_mut(run.len());
        let first = run[0].0;
        let into = these.as_flattened_mut();
        reads.push(Read { pe: first.pe, offset: first.stamp(world.segments), into });
        for (at, room) in run {
            room.holds = Some(*at);
            room.bytes.resize(TILE, 0);
            reads.push(Read { pe: at.pe, offset: at.offset(), into: &mut room.bytes });
        }
        rest = others;
    }
    read_all(world, reads);
    for ((_, room), seal) in wanted.into_iter().zip(seals) {
        room.seal = seal;
    }
}

/// Announces to the engine that `count` tiles of a store from `first` on will soon be pulled, their
/// stamps before them.
pub fn expect_store(world: &World, first: StoreTile, count: usize) {
    let end = first.after(count);
    world.expect(first.pe, first.stamp(world.segments)..end.stamp(world.segments));
    world.expect(first.pe, first.offset()..end.offset());
}

/// A tile of a store that is checked while it is used: what is made of it counts only if it
/// [holds](Reading::holds), in the end.
pub struct Reading<'a> {
    /// Not to be believed yet.
    pub bytes: &'a [u8],
    /// None for what lies beyond the end of a snapshot.
    check: Option<(Seal, &'a [u8])>,
}

impl Reading<'_> {
    /// A reading of zeroes, which hold.
    pub fn zeroes() -> Reading<'static> {
        Reading { bytes: &ZEROES, check: None }
    }

    /// To be shown all of the bytes, in their order.
    pub fn see(&mut self, bytes: &[u8]) {
        self.check.iter_mut().for_each(|(seal, _)| seal.update(bytes));
    }

    /// What was seen of it; None of zeroes.
    pub fn seen(&self) -> Option<&Seal> {
        self.check.as_ref().map(|(seal, _)| seal)
    }

    /// True if what was seen is what the stamp says.
    pub fn holds(self) -> bool {
        self.check.is_none_or(|(seal, stamp)| seal.holds(stamp))
    }
}

/// Begins to read a tile of a store: in place where it is mapped, else in `room`, if `pull_store`
/// has not put it there before.
pub fn read<'a>(
    world: &'a World,
    at: StoreTile,
    number: CheckpointNumber,
    room: &'a mut Room,
) -> Reading<'a> {
    let seal = world.stamp(at.pe, number).begin();
    if let Some(segment) = world.segments.near(at.pe) {
        let stamp = segment.bytes(at.stamp(world.segments), STAMP);
        let bytes = segment.bytes(at.offset(), TILE);
        return Reading { bytes, check: Some((seal, stamp)) };
    }
    if room.holds != Some(at) {
        pull_store(world, std::iter::once((at, &mut *room)));
    }
    Reading { bytes: &room.bytes, check: Some((seal, &room.seal)) }
}

/// The same, checked as it is fetched. None if it does not hold.
pub fn fetch<'a>(
    world: &'a World,
    at: StoreTile,
    number: CheckpointNumber,
    room: &'a mut Room,
) -> Option<&'a [u8]> {
    let mut reading = read(world, at, number, room);
    let bytes = reading.bytes;
    reading.see(bytes);
    reading.holds().then_some(bytes)
}

/// Pulls tiles of the live data of far PEs into their scratches, all of them on their way at a
/// time; those of mapped PEs are left out. If a PE is lost meanwhile the view has changed when the
/// call returns, and what the scratches hold must not be believed.
pub fn pull<'a>(
    world: &World,
    coverage: &Coverage,
    wanted: impl Iterator<Item = (LiveTile, &'a mut Vec<u8>)>,
) {
    let mut reads = Vec::new();
    let far = wanted.filter(|(at, _)| world.segments.is_far(at.pe));
    for (LiveTile { pe, tile }, scratch) in far {
        let mut rest = scratch.as_mut_slice();
        for Piece { at: offset, len } in coverage.pieces(tile.bytes()) {
            let (into, after) = std::mem::take(&mut rest).split_at_mut(len);
            reads.push(Read { pe, offset, into });
            rest = after;
        }
        rest.fill(0);
    }
    read_all(world, reads);
}

/// Reads from far PEs: all that one of them has together, and no PE is where all begin.
fn read_all(world: &World, mut reads: Vec<Read>) {
    reads.sort_by_key(|read| turn(world.me(), read.pe, world.n_pes()));
    if !reads.is_empty() {
        world.pull(&mut reads);
    }
}

/// When PE `me` of `n` comes to PE `pe`, if it begins with the one after itself and goes round.
fn turn(me: Pe, pe: Pe, n: usize) -> usize {
    (pe.at() + n - me.at()) % n
}

/// The bytes of a tile of live data, in place where they are contiguous, else gathered into
/// `scratch`, where `pull` has put those of a far PE; zeroes beyond the end.
pub fn live<'a>(
    segments: &'a Segments,
    LiveTile { pe, tile }: LiveTile,
    coverage: &Coverage,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    let Some(segment) = segments.near(pe) else { return scratch };
    let mut pieces = coverage.pieces(tile.bytes());
    match pieces.next() {
        None => &ZEROES,
        Some(Piece { at, len: TILE }) => segment.live(at, TILE),
        Some(first) => {
            let mut filled = 0;
            for Piece { at, len } in std::iter::once(first).chain(pieces) {
                scratch[filled..filled + len].copy_from_slice(segment.live(at, len));
                filled += len;
            }
            scratch[filled..].fill(0);
            scratch
        }
    }
}

/// Maps the pages of `count` tiles of a store, from `first` on, ahead of their use.
pub fn map_store(segments: &Segments, first: StoreTile, count: usize) {
    let Some(segment) = segments.near(first.pe) else { return };
    segment.populate(first.offset(), count * TILE);
}

/// Makes the pages of the own live data present ahead of their being written.
pub fn map_live(segments: &Segments, coverage: &Coverage) {
    for Piece { at, len } in coverage.pieces(0..coverage.len()) {
        segments.own().populate(at, len);
    }
}

/// Maps the pages of PE `pe`'s live tiles ahead of their being read, if they are to be had.
pub fn map(segments: &Segments, pe: Pe, coverage: &Coverage, tiles: Range<usize>) {
    let Some(segment) = segments.near(pe) else { return };
    for Piece { at, len } in coverage.pieces(tiles.start * TILE..tiles.end * TILE) {
        segment.populate_live(at, len);
    }
}

/// Writes one tile of a snapshot's line back into the own live memory, which nobody reads soon. All
/// of the tile is shown to `look`, piece by piece.
pub fn restore(
    segments: &Segments,
    coverage: &Coverage,
    tile: TileIndex,
    bytes: &[u8],
    mut look: impl FnMut(&[u8]),
) {
    let kernel = Kernel::chosen().expect("codes were made with it");
    let mut rest = bytes;
    for Piece { at, len } in coverage.pieces(tile.bytes()) {
        let (piece, after) = rest.split_at(len);
        // SAFETY: own live memory between the barriers of a recovery: no call of the program runs,
        // and each tile is written by one thread.
        kernel.copy(unsafe { segments.own().bytes_mut(at, len) }, piece, &mut look);
        rest = after;
    }
    look(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members of a group as they come to the others of it, `me` first.
    fn round(me: Pe, members: &[Pe], n: usize) -> Vec<Pe> {
        let mut order = members.to_vec();
        order.sort_by_key(|&pe| turn(me, pe, n));
        order
    }

    #[test]
    fn all_come_to_all_and_never_two_to_the_same_at_a_time() {
        for n in 1..=10 {
            for group in 1u32..1 << n {
                let members: Vec<Pe> = Pe::all(n).filter(|pe| group >> pe.0 & 1 == 1).collect();
                let rounds = members.iter().map(|&me| round(me, &members, n));
                let rounds: Vec<Vec<Pe>> = rounds.collect();
                for at in 0..members.len() {
                    let mut met: Vec<Pe> = rounds.iter().map(|round| round[at]).collect();
                    met.sort_unstable();
                    assert_eq!(met, members, "place {at} of {rounds:?}");
                }
                assert!(rounds.iter().zip(&members).all(|(round, &me)| round[0] == me));
            }
        }
    }
}
