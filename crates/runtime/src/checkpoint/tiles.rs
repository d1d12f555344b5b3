//! Access to sealed tiles of snapshots and parity slots, and to live tiles.
//!
//! A region (snapshot or slot) is an array of tiles of [`TILE`] bytes, followed by a table of
//! stamps. Invariant: a tile is trusted only after `verify` of its owner, or `fetch` here, has
//! checked its stamp.

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

/// A tile of zeroes, as beyond the end of a snapshot.
pub static ZEROES: [u8; TILE] = [0; TILE];

/// Returns the number of tiles that `len` bytes occupy.
pub fn tiles(len: usize) -> usize {
    len.div_ceil(TILE)
}

fn stamp_at(segments: &Segments, region: usize, tile: TileIndex) -> usize {
    segments.layout().stamps(region) + tile.at() * STAMP
}

/// A tile in the store of a PE: in a snapshot or a parity slot, which begins at `region`.
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
    /// Returns the `nth` tile of an own run.
    pub fn own(world: &World, run: TileRun, nth: usize) -> StoreTile {
        StoreTile { pe: world.me(), region: run.region, tile: run.first.after(nth) }
    }

    /// Returns its offset in the segment.
    pub fn offset(self) -> usize {
        self.region + self.tile.offset()
    }

    /// Returns the offset of its stamp.
    pub fn stamp(self, segments: &Segments) -> usize {
        stamp_at(segments, self.region, self.tile)
    }

    /// Returns the tile `steps` after it.
    pub fn after(self, steps: usize) -> StoreTile {
        StoreTile { tile: self.tile.after(steps), ..self }
    }
}

/// A tile of a PE: the index is valid for its live memory and its snapshot.
#[derive(Debug, Clone, Copy)]
pub struct LiveTile {
    /// The PE.
    pub pe: Pe,
    /// Index of the tile.
    pub tile: TileIndex,
}

impl LiveTile {
    /// Returns this tile in the snapshot at `region`.
    pub fn in_store(self, region: usize) -> StoreTile {
        StoreTile { pe: self.pe, region, tile: self.tile }
    }
}

/// Overwrites a tile in the store of this PE or a mapped one with what `fill` writes and passes to
/// the seal, and seals it as of checkpoint `number`.
pub fn write(
    world: &World,
    at: StoreTile,
    number: CheckpointNumber,
    fill: impl FnOnce(&mut [u8], &mut Seal),
) {
    let store = world.segments.if_mapped(at.pe).expect("a store is written where it is mapped");
    let mut seal = world.stamp(at.pe, number).begin();
    // SAFETY: a tile and its stamp have one writer in each step of the protocol, this thread
    // (threads that share a loop have different tiles), and readers only in later steps.
    let (bytes, stamp) = unsafe {
        (store.bytes_mut(at.offset(), TILE), store.bytes_mut(at.stamp(world.segments), STAMP))
    };
    fill(bytes, &mut seal);
    stamp.copy_from_slice(&seal.finish());
}

/// Like [`write()`], with `bytes`, which are read once.
pub fn put(world: &World, at: StoreTile, number: CheckpointNumber, bytes: &[u8]) {
    write(world, at, number, |to, seal| seal.put(Made { to, bytes, more: false }));
}

/// Returns the renewal of own stamps from `back` checkpoints before to `number`; before the first
/// checkpoint there are no stamps.
pub fn renewal(world: &World, number: CheckpointNumber, back: u64) -> Renewal {
    let stamp = |number| world.stamp(world.me(), number);
    Renewal::new(stamp(number.before(back)), stamp(number), TILE)
}

/// Gives an unchanged own tile its new stamp. Returns false if it does not have the old one.
pub fn renew(world: &World, region: usize, tile: TileIndex, renewal: &Renewal) -> bool {
    let renewed = renewal.of(stamp_of(world.segments, region, tile));
    renewed.inspect(|renewed| set_stamp(world.segments, region, tile, renewed)).is_some()
}

/// Overwrites an own tile with that of the same index in region `from`, and renews its stamp to
/// `number`. Returns false if the source turns out to be invalid: then the result has no stamp.
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

/// Returns the stamp of an own tile as it is.
pub fn stamp_of(segments: &Segments, region: usize, tile: TileIndex) -> &[u8] {
    segments.own().bytes(stamp_at(segments, region, tile), STAMP)
}

/// Sets the stamp of an own tile; a stamp of zeroes is invalid.
pub fn set_stamp(segments: &Segments, region: usize, tile: TileIndex, stamp: &[u8; STAMP]) {
    // SAFETY: the own store; as in `write`.
    unsafe { segments.own().bytes_mut(stamp_at(segments, region, tile), STAMP) }
        .copy_from_slice(stamp);
}

/// Overwrites an own tile, and keeps its stamp.
pub fn overwrite(world: &World, at: StoreTile, bytes: &[u8]) {
    // SAFETY: the own store, or own live memory in a recovery; as in `write`.
    unsafe { world.segments.own().bytes_mut(at.offset(), TILE) }.copy_from_slice(bytes);
}

/// Returns the bytes of an own tile, unchecked.
pub fn unchecked(segments: &Segments, region: usize, tile: TileIndex) -> &[u8] {
    segments.own().bytes(region + tile.offset(), TILE)
}

/// Writes to the own store what peers read after the next barrier.
fn show(segments: &Segments, at: usize, bytes: &[u8]) {
    // SAFETY: written by the thread that has its turn, before the barrier at which its readers
    // wait.
    unsafe { segments.own().bytes_mut(at, bytes.len()) }.copy_from_slice(bytes);
}

/// Publishes to the peers the set of own tiles that changed.
pub fn show_changes(segments: &Segments, changed: &TileSet) {
    let bytes = changed.bytes();
    show(segments, segments.layout().changes, bytes);
}

/// Returns those of the first `count` tiles of PE `pe` that changed, as it published them. If it is
/// lost meanwhile, the view has changed when the call returns, and the result is invalid.
pub fn changes(world: &World, pe: Pe, count: usize) -> TileSet {
    let mut bytes = TileSet::none(count).bytes().to_vec();
    let (offset, len) = (world.segments.layout().changes, bytes.len());
    match world.segments.if_mapped(pe) {
        Some(segment) => bytes.copy_from_slice(segment.bytes(offset, len)),
        None => world.transfers().pull(&mut [Read { pe, offset, into: &mut bytes }]),
    }
    TileSet::from_bytes(&bytes)
}

/// Publishes to PE `pe` the set of its tiles that this process wrote to.
pub fn show_written(segments: &Segments, pe: Pe, written: &TileSet) {
    let (at, bytes) = (segments.layout().written_to(pe), written.bytes());
    show(segments, at, bytes);
}

/// Publishes whether the dirty map is complete.
pub fn post_written(segments: &Segments, said: WriteReport) {
    let word = said.pack().to_ne_bytes();
    show(segments, segments.layout().written, &word);
}

/// Publishes the costs of finding changes.
pub fn post_costs(segments: &Segments, costs: &Costs) {
    show(segments, segments.layout().written + 8, &costs.pack());
}

/// Returns the costs that PE `pe` published, if it is mapped here.
pub fn costs_of(segments: &Segments, pe: Pe) -> Costs {
    let words = |mapped: &Segment| {
        let bytes = mapped.bytes(segments.layout().written + 8, COSTS);
        Costs::unpack(bytes.try_into().expect("so many bytes"))
    };
    segments.if_mapped(pe).map_or_else(Costs::default, words)
}

/// Returns the write report of PE `pe`, if it is mapped here.
pub fn posted_written(segments: &Segments, pe: Pe) -> WriteReport {
    let Some(segment) = segments.if_mapped(pe) else { return WriteReport::Nothing };
    let word = segment.bytes(segments.layout().written, 8);
    WriteReport::unpack(u64::from_ne_bytes(word.try_into().expect("eight bytes")))
}

/// Returns those of the first `count` own tiles that PE `pe`, which is mapped here, wrote to.
pub fn written_by(segments: &Segments, pe: Pe, count: usize) -> TileSet {
    let Some(segment) = segments.if_mapped(pe) else { return TileSet::all(count) };
    let len = TileSet::none(count).bytes().len();
    TileSet::from_bytes(segment.bytes(segments.layout().written_to(segments.me()), len))
}

/// Returns true if the own tile matches its stamp, as of checkpoint `number`.
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

/// Returns a tile of the own store, if it is valid as of checkpoint `number`.
pub fn own(
    world: &World,
    region: usize,
    tile: TileIndex,
    number: CheckpointNumber,
) -> Option<&[u8]> {
    let whole = holds(world, region, tile, number);
    whole.then(|| unchecked(world.segments, region, tile))
}

/// Scratch for a tile of a remote PE's store, and the identity of that tile.
#[derive(Debug, Clone)]
pub struct Scratch {
    holds: Option<StoreTile>,
    bytes: Vec<u8>,
    seal: [u8; STAMP],
}

impl Scratch {
    /// Returns scratch without a tile, which takes memory only when a tile comes.
    pub fn empty() -> Scratch {
        Scratch { holds: None, bytes: Vec::new(), seal: [0; STAMP] }
    }
}

/// Pulls tiles of remote PEs' stores into their scratch, all in flight at a time, and the stamps of
/// neighbours together; skips those of mapped PEs. Checks nothing: `fetch` does.
pub fn pull_store<'a>(world: &World, wanted: impl Iterator<Item = (StoreTile, &'a mut Scratch)>) {
    let mut wanted: Vec<_> = wanted.filter(|(at, _)| world.segments.is_remote(at.pe)).collect();
    wanted.sort_by_key(|(at, _)| *at);
    let (mut reads, mut seals) = (Vec::new(), vec![[0; STAMP]; wanted.len()]);
    let mut rest = &mut seals[..];
    for run in wanted.chunk_by_mut(|(a, _), (b, _)| a.after(1) == *b) {
        let (these, others) = rest.split_at_mut(run.len());
        let first = run[0].0;
        let into = these.as_flattened_mut();
        reads.push(Read { pe: first.pe, offset: first.stamp(world.segments), into });
        for (at, scratch) in run {
            scratch.holds = Some(*at);
            scratch.bytes.resize(TILE, 0);
            reads.push(Read { pe: at.pe, offset: at.offset(), into: &mut scratch.bytes });
        }
        rest = others;
    }
    read_all(world, reads);
    for ((_, scratch), seal) in wanted.into_iter().zip(seals) {
        scratch.seal = seal;
    }
}

/// Announces to the engine that `count` tiles of a store, from `first` on, will soon be pulled,
/// their stamps before them.
pub fn expect_store(world: &World, first: StoreTile, count: usize) {
    let end = first.after(count);
    world.comm.expect(first.pe, first.stamp(world.segments)..end.stamp(world.segments));
    world.comm.expect(first.pe, first.offset()..end.offset());
}

/// A tile of a store that is checked while it is used: results from it count only if it
/// [holds](Reading::holds) in the end.
pub struct Reading<'a> {
    /// The bytes, still to be checked.
    pub bytes: &'a [u8],
    /// The check; None beyond the end of a snapshot.
    check: Option<(Seal, &'a [u8])>,
}

impl Reading<'_> {
    /// Returns a reading of zeroes, which always holds.
    pub fn zeroes() -> Reading<'static> {
        Reading { bytes: &ZEROES, check: None }
    }

    /// Adds bytes to the check: call it with all of them, in order.
    pub fn see(&mut self, bytes: &[u8]) {
        self.check.iter_mut().for_each(|(seal, _)| seal.update(bytes));
    }

    /// Returns the seal of the bytes seen; None for zeroes.
    pub fn seen(&self) -> Option<&Seal> {
        self.check.as_ref().map(|(seal, _)| seal)
    }

    /// Returns true if the bytes seen match the stamp.
    pub fn holds(self) -> bool {
        self.check.is_none_or(|(seal, stamp)| seal.holds(stamp))
    }
}

/// Begins to read a tile of a store: in place if it is mapped, otherwise in `scratch`, where
/// `pull_store` may have put it already.
pub fn read<'a>(
    world: &'a World,
    at: StoreTile,
    number: CheckpointNumber,
    scratch: &'a mut Scratch,
) -> Reading<'a> {
    let seal = world.stamp(at.pe, number).begin();
    if let Some(segment) = world.segments.if_mapped(at.pe) {
        let stamp = segment.bytes(at.stamp(world.segments), STAMP);
        let bytes = segment.bytes(at.offset(), TILE);
        return Reading { bytes, check: Some((seal, stamp)) };
    }
    if scratch.holds != Some(at) {
        pull_store(world, std::iter::once((at, &mut *scratch)));
    }
    Reading { bytes: &scratch.bytes, check: Some((seal, &scratch.seal)) }
}

/// Like [`read`], but checks the tile at once. None if it is invalid.
pub fn fetch<'a>(
    world: &'a World,
    at: StoreTile,
    number: CheckpointNumber,
    scratch: &'a mut Scratch,
) -> Option<&'a [u8]> {
    let mut reading = read(world, at, number, scratch);
    let bytes = reading.bytes;
    reading.see(bytes);
    reading.holds().then_some(bytes)
}

/// Pulls tiles of remote PEs' live data into their scratch, all in flight at a time; skips those of
/// mapped PEs. If a PE is lost meanwhile, the view has changed when the call returns, and the
/// contents of the scratch are invalid.
pub fn pull<'a>(
    world: &World,
    coverage: &Coverage,
    wanted: impl Iterator<Item = (LiveTile, &'a mut Vec<u8>)>,
) {
    let mut reads = Vec::new();
    let remote = wanted.filter(|(at, _)| world.segments.is_remote(at.pe));
    for (LiveTile { pe, tile }, scratch) in remote {
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

/// Reads from remote PEs: all reads of one PE together, and each PE begins with a different one.
pub(super) fn read_all(world: &World, mut reads: Vec<Read>) {
    reads.sort_by_key(|read| turn(world.me(), read.pe, world.n_pes()));
    if !reads.is_empty() {
        world.transfers().pull(&mut reads);
    }
}

/// Returns the turn of PE `pe` in the round that PE `me` of `n` makes from itself upwards.
fn turn(me: Pe, pe: Pe, n: usize) -> usize {
    (pe.at() + n - me.at()) % n
}

/// Returns the bytes of a tile of live data: in place if they are contiguous, otherwise gathered
/// into `scratch`, where `pull` has put those of a remote PE; zeroes beyond the end.
pub fn live<'a>(
    segments: &'a Segments,
    LiveTile { pe, tile }: LiveTile,
    coverage: &Coverage,
    scratch: &'a mut [u8],
) -> &'a [u8] {
    let Some(segment) = segments.if_mapped(pe) else { return scratch };
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

/// Maps the pages of `count` tiles of a store, from `first` on, before their use.
pub fn map_store(segments: &Segments, first: StoreTile, count: usize) {
    let Some(segment) = segments.if_mapped(first.pe) else { return };
    segment.populate(first.offset(), count * TILE);
}

/// Makes the pages of own live data present before they are written.
pub fn map_live(segments: &Segments, coverage: &Coverage) {
    for Piece { at, len } in coverage.pieces(0..coverage.len()) {
        segments.own().populate(at, len);
    }
}

/// Maps the pages of PE `pe`'s live tiles before they are read, if the PE is mapped here.
pub fn map(segments: &Segments, pe: Pe, coverage: &Coverage, tiles: Range<usize>) {
    let Some(segment) = segments.if_mapped(pe) else { return };
    for Piece { at, len } in coverage.pieces(tiles.start * TILE..tiles.end * TILE) {
        segment.populate_live(at, len);
    }
}

/// Restores one tile of a snapshot to the own live memory, which is not read soon. Passes all of
/// the tile to `look`, piece by piece.
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

    /// Returns the members of a group in the order of `me`'s round, which begins with itself.
    fn round(me: Pe, members: &[Pe], n: usize) -> Vec<Pe> {
        let mut order = members.to_vec();
        order.sort_by_key(|&pe| turn(me, pe, n));
        order
    }

    #[test]
    fn every_pe_visits_every_peer_and_no_two_the_same_at_once() {
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
