//! Writing of the files of a node's PEs, from the memory that their agent holds.
//!
//! One thread reads a few tiles ahead, this one writes ([`Output`]). A PE spills the tiles that the
//! next checkpoint would overwrite before they were read ([`SnapshotPin`]), within a limit.
//!
//! Invariants: the program never waits for this module; tiles read ahead and spilled stay within
//! the limits of the order.

#![forbid(unsafe_code)]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::{Area, Extent, Head, Region};
use raidshmem_archive::references::References;
use raidshmem_core::disk::{Failure, Files, How, ParityShare};
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::store::coverage::{Coverage, Manifest};
use raidshmem_core::store::objects;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_sys::memory::Part;

use super::claim::{Claims, SnapshotPin, shares};
use super::files::SetError;
use super::heap_at;
pub use super::output::Pasts;
use super::output::{Begin, Output, Piece};
use super::sets;
use super::source::{Source, TileSource};
use super::step::step;
use super::variables::SavedProgram;

/// The description of a write.
pub struct Order {
    /// The job, as memory names it.
    pub job: u64,
    /// The job that the files name.
    pub sets: u64,
    /// The number of its PEs.
    pub n_pes: u32,
    /// Bytes of each symmetric heap.
    pub heap_len: u64,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// The folder of the sets.
    pub folder: PathBuf,
    /// The PEs of this node, with their memory.
    pub pes: Vec<(Pe, Part)>,
    /// The parity that they keep, if it is written too.
    pub parity: Vec<ParityShare>,
    /// The options of the write.
    pub how: How,
    /// The program that the job runs.
    pub program: SavedProgram,
}

impl Order {
    fn owner(&self, pe: Pe) -> Owner {
        let Order { sets: job, number, n_pes, heap_len, .. } = *self;
        Owner { job, number, pe, n_pes, heap_len }
    }

    /// Returns the initial stored lengths of a file's tiles, before they are known.
    pub(super) fn stored(&self, tiles: usize) -> Vec<u32> {
        vec![0; if self.how.compress > 0 { tiles } else { 0 }]
    }

    /// Returns the compressor, if tiles are compressed.
    fn compressor(&self) -> Result<Option<TileCompressor>, Failure> {
        let made = (self.how.compress > 0).then(|| TileCompressor::new(self.how.compress));
        made.transpose().map_err(|error| Failure::Refused(format!("zstd: {error}")))
    }

    /// Claims the checkpoint, with a spill of at most `spilled_max` tiles.
    fn claims(&self, spilled_max: usize) -> Result<Claims, Failure> {
        let layout = Layout::new(self.heap_len as usize, self.n_pes as usize);
        Claims::new(self.number, &self.pes, layout, !self.parity.is_empty(), spilled_max)
    }
}

fn refused(error: &SetError) -> Failure {
    Failure::Refused(error.to_string())
}

/// Writes the files of a checkpoint, which may have been claimed before; ends when `stop` names it.
/// `pasts` holds what is remembered of the files that this node wrote last.
///
/// # Errors
/// The files are not all on disk.
pub fn write(
    order: &Order,
    claims: Option<Claims>,
    pasts: &mut Pasts,
    stop: &AtomicU64,
) -> Result<Files, Failure> {
    let (ahead, spill) = shares(order.how.memory);
    let claims = claims.filter(|claims| claims.number == order.number);
    let claims = claims.map_or_else(|| order.claims(spill), Ok)?;
    let folder = sets::part_folder(&order.folder, order.sets, order.number);
    step();
    let make = fs::create_dir_all(&folder);
    make.map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?;
    let _held = sets::hold(&folder).map_err(|error| refused(&error))?;
    let read = |pieces| read(order, claims, pieces, stop);
    let (mut written, spill) = transfer(order, (&folder, pasts), ahead, stop, read)?;
    written.spill = spill;
    sets::sync(&folder).map_err(|error| refused(&error))?;
    written.next = sets::next(&order.folder);
    Ok(written)
}

/// Writes the pieces that `read` sends, of which `ahead` may wait, to files in a folder. Returns
/// them, and the result of `read`.
///
/// # Errors
/// Those of reading, of the system, and a stop.
pub fn transfer<T: Send>(
    order: &Order,
    (folder, pasts): (&Path, &mut Pasts),
    ahead: usize,
    stop: &AtomicU64,
    read: impl FnOnce(SyncSender<Piece>) -> Result<T, Failure> + Send,
) -> Result<(Files, T), Failure> {
    let go_on = || go_on(order, stop);
    let output = Output::new((folder, pasts), order.how, &go_on, order.compressor()?);
    let (pieces, queue) = sync_channel(ahead);
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().name("store-read".into());
        let reader = reading.spawn_scoped(scope, || read(pieces));
        let reader = reader.map_err(|error| Failure::Refused(format!("a thread: {error}")))?;
        let written = output.take(queue);
        // A read error is the cause of missing writes.
        let read = reader.join().unwrap_or(Err(Failure::Refused("its thread ended".into())))?;
        Ok((written?, read))
    })
}

/// Returns an error once the write was stopped.
fn go_on(order: &Order, stop: &AtomicU64) -> Result<(), Failure> {
    let stopped = [order.number.0, u64::MAX].contains(&stop.load(Ordering::SeqCst));
    if stopped { Err(Failure::Stopped) } else { Ok(()) }
}

/// Reads all data to be written; ends without an error when the receiver is gone. Returns the bytes
/// that PEs spilled.
fn read(
    order: &Order,
    claims: Claims,
    pieces: SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<u64, Failure> {
    let mut spill = 0;
    for (pe, claim) in claims {
        read_pe(order, pe, &claim, &pieces, stop)?;
        spill += (claim.spill().copied(order.number) * TILE) as u64;
    }
    Ok(spill)
}

/// Reads the data and the parity of a PE.
fn read_pe(
    order: &Order,
    pe: Pe,
    claim: &SnapshotPin,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    // Any incarnation of the PE may have written a tile.
    let (incarnation, whole) = (Incarnation(u32::MAX), order.how.checksum);
    let stamp = Stamp { number: order.number, job: order.job, pe, incarnation, whole };
    read_data(order, (pe, &claim.layout), &Source::of(claim, stamp, None)?, pieces, stop)?;
    let Some(&share) = order.parity.iter().find(|share| share.pe == pe) else { return Ok(()) };
    read_parity(order, pe, &Source::of(claim, stamp, Some(share))?, pieces, stop)
}

/// Sends the parity that a PE keeps.
///
/// # Errors
/// A tile cannot be read, or the write was stopped.
pub fn read_parity(
    order: &Order,
    pe: Pe,
    source: &impl TileSource,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    let (owner, build) = (order.owner(pe), order.program.build.clone());
    let (stored, sums) = (order.stored(source.tiles()), vec![0; source.tiles()]);
    let (line, references) = (source.line() as u64, References::default());
    let head = ParityHead { owner, build, line, stored, references, sums };
    let mut sent = pieces.send(Piece::Begin(pe, Begin::Parity(head)));
    for tile in 0..source.tiles() {
        go_on(order, stop)?;
        if sent.is_err() {
            break;
        }
        sent = pieces.send(Piece::Tile(source.tile(tile)?));
    }
    Ok(())
}

/// Sends the data of a PE.
///
/// # Errors
/// A tile cannot be read, the snapshot has no valid manifest, or the write was stopped.
pub fn read_data(
    order: &Order,
    (pe, layout): (Pe, &Layout),
    source: &impl TileSource,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    let mut line = source.tile(0)?;
    // The second word of the manifest is its length.
    let word = line.get(8..16).map(|at| u64::from_le_bytes(at.try_into().expect("eight bytes")));
    let described = word.map_or(0, |len| len.min(source.len() as u64)) as usize;
    let mut next = 1;
    while line.len() < described {
        line.extend(source.tile(next)?);
        next += 1;
    }
    let manifest = Coverage::parse(layout, &line)
        .map_err(|error| Failure::Refused(format!("the memory of PE {pe}: {error}")))?;
    let begin = if order.parity.is_empty() { &[] } else { &line[..described] };
    let head = Head { begin: begin.to_vec(), ..head(order, layout, pe, &manifest) };
    let private: Vec<u8> = manifest.private.iter().flat_map(|it| it.contents).copied().collect();
    if pieces.send(Piece::Begin(pe, Begin::Data(Box::new(head)))).is_err() {
        return Ok(());
    }
    let mut rest = line.split_off(described);
    let (mut tiles, mut private) = (next..source.tiles(), Some(private));
    loop {
        go_on(order, stop)?;
        while rest.len() >= TILE {
            let tail = rest.split_off(TILE);
            if pieces.send(Piece::Tile(std::mem::replace(&mut rest, tail))).is_err() {
                return Ok(());
            }
        }
        match (tiles.next(), private.take()) {
            (Some(tile), kept) => {
                rest.extend(source.tile(tile)?);
                private = kept;
            }
            (None, Some(private)) => rest.extend(private),
            (None, None) => break,
        }
    }
    if !rest.is_empty() {
        let _ = pieces.send(Piece::Tile(rest)); // if the receiver is gone, it reports the reason
    }
    Ok(())
}

/// Returns the address range of the executable, as recorded by the PE itself: the kernel knows only
/// where it was loaded.
fn executable(manifest: &Manifest) -> Option<Range<u64>> {
    let saved = manifest.private.iter().find(|saved| saved.name == objects::NAME)?;
    let mut all = objects::decode(saved.contents)?.into_iter();
    all.find(|object| object.name.is_empty()).map(|object| object.addresses)
}

/// Builds the head of a PE's file from the manifest of its snapshot.
pub fn head(order: &Order, layout: &Layout, pe: Pe, manifest: &Manifest) -> Head {
    let extent = |at: usize, len: usize| {
        let (area, from) = match at >= layout.heap {
            true => (Area::Heap, layout.heap),
            false => (Area::Statics, layout.statics),
        };
        Extent { area, offset: (at - from) as u64, len: len as u64 }
    };
    let pieces = manifest.coverage.pieces(0..manifest.coverage.len()).skip(1); // the manifest
    let extents: Vec<Extent> = pieces.map(|piece| extent(piece.at, piece.len)).collect();
    let region = |saved: &raidshmem_core::store::private::Saved| Region {
        name: saved.name.to_owned(),
        len: saved.contents.len() as u64,
    };
    let has_statics = extents.iter().any(|extent| extent.area == Area::Statics);
    let mut head = Head {
        owner: order.owner(pe),
        heap_at: heap_at(layout),
        build: order.program.build.clone(),
        program: order.program.name.clone(),
        image: executable(manifest).unwrap_or_else(|| order.program.image.clone()),
        heap: manifest.heap.encode(),
        excluded: manifest.excluded.iter().map(|hole| extent(hole.start, hole.len())).collect(),
        extents,
        regions: manifest.private.iter().map(region).collect(),
        objects: if has_statics { order.program.objects.clone() } else { Vec::new() },
        begin: Vec::new(),
        stored: Vec::new(),
        references: References::default(),
        sums: Vec::new(),
    };
    let tiles = head.data_len().div_ceil(TILE as u64) as usize;
    (head.sums, head.stored) = (vec![0; tiles], order.stored(tiles));
    head
}

#[cfg(test)]
mod tests;
