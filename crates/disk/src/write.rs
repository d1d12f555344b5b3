//! Writing of the files of a node's PEs, from the memory that their agent holds.
//!
//! One thread reads a few tiles ahead, this one writes. A PE spills the tiles that the next
//! checkpoint would overwrite before they were read ([`SnapshotPin`]), within a limit. The disk
//! works in parallel: it receives a window of bytes as soon as that is written, and a file is
//! awaited once its successor is written too. This thread compresses tiles, if requested, one by
//! one.
//!
//! Invariants: the program never waits for this module; tiles read ahead and spilled stay within
//! the limits of the order; no more than [`DIRTY`] bytes are in flight to the disk.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::pace;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::{Area, Extent, Head, Region};
use raidshmem_archive::tiles::data_at;
use raidshmem_codec::crc::crc32;
use raidshmem_core::disk::{Content, Entry, Failure, Files, How, ParityShare};
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::page::PAGE;
use raidshmem_core::quantity::{CheckpointNumber, Incarnation, Pe};
use raidshmem_core::store::coverage::{Coverage, Manifest};
use raidshmem_core::store::objects;
use raidshmem_core::store::stamp::Stamp;
use raidshmem_sys::memory::Part;
use raidshmem_sys::writeback;

use super::claim::{Claims, SnapshotPin, shares};
use super::files::{self, SetError};
use super::heap_at;
use super::sets;
use super::source::Source;
use super::step::step;
use super::variables::SavedProgram;

/// The interval at which a throttled writer checks for a stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of bytes not yet on disk: one window being flushed and one being filled, of a
/// file and of the one before it.
const DIRTY: u64 = 64 << 20;

/// The description of a write.
pub struct Order {
    /// The job.
    pub job: u64,
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
        let Order { job, number, n_pes, heap_len, .. } = *self;
        Owner { job, number, pe, n_pes, heap_len }
    }

    /// Returns the initial stored lengths of a file's tiles, before they are known.
    fn stored(&self, tiles: usize) -> Vec<u32> {
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

/// A piece of the data that is read.
enum Piece {
    /// The beginning of a file; its checksums are still missing.
    Begin(Pe, Begin),
    /// A tile of the file.
    Tile(Vec<u8>),
}

/// The head of a file.
enum Begin {
    Data(Box<Head>),
    Parity(ParityHead),
}

impl Begin {
    fn content(&self) -> Content {
        match self {
            Begin::Data(_) => Content::Data,
            Begin::Parity(_) => Content::Parity,
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Begin::Data(head) => head.encode(),
            Begin::Parity(head) => head.encode(),
        }
    }

    /// Records the checksum of a tile, and the bytes stored of it.
    fn note(&mut self, tile: usize, sum: u32, len: usize) {
        let (sums, stored) = match self {
            Begin::Data(head) => (&mut head.sums, &mut head.stored),
            Begin::Parity(head) => (&mut head.sums, &mut head.stored),
        };
        sums.get_mut(tile).into_iter().for_each(|it| *it = sum);
        stored.get_mut(tile).into_iter().for_each(|it| *it = len as u32);
    }

    fn data_len(&self) -> u64 {
        match self {
            Begin::Data(head) => head.data_len(),
            Begin::Parity(head) => head.data_len(),
        }
    }
}

fn refused(error: &SetError) -> Failure {
    Failure::Refused(error.to_string())
}

/// Writes the files of a checkpoint, which may have been claimed before; ends when `stop` names it.
///
/// # Errors
/// The files are not all on disk.
pub fn write(order: &Order, claims: Option<Claims>, stop: &AtomicU64) -> Result<Files, Failure> {
    let (ahead, spill) = shares(order.how.memory);
    let claims = claims.filter(|claims| claims.number == order.number);
    let claims = claims.map_or_else(|| order.claims(spill), Ok)?;
    let folder = sets::part_folder(&order.folder, order.job, order.number);
    step();
    let make = fs::create_dir_all(&folder);
    make.map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?;
    let _held = sets::hold(&folder).map_err(|error| refused(&error))?;
    let output = Output::new(&folder, order, stop, order.compressor()?);
    let (pieces, queue) = sync_channel(ahead);
    let mut written = std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().name("store-read".into());
        let reader = reading.spawn_scoped(scope, || read(order, claims, pieces, stop));
        let reader = reader.map_err(|error| Failure::Refused(format!("a thread: {error}")))?;
        let written = output.take(queue);
        // A read error is the cause of missing writes.
        let spill = reader.join().unwrap_or(Err(Failure::Refused("its thread ended".into())))?;
        written.map(|written| Files { spill, ..written })
    })?;
    sets::sync(&folder).map_err(|error| refused(&error))?;
    written.next = sets::next(&order.folder);
    Ok(written)
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

fn read_parity(
    order: &Order,
    pe: Pe,
    source: &Source<'_>,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    let (owner, build) = (order.owner(pe), order.program.build.clone());
    let (stored, sums) = (order.stored(source.tiles()), vec![0; source.tiles()]);
    let head = ParityHead { owner, build, line: source.line as u64, stored, sums };
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

fn read_data(
    order: &Order,
    (pe, layout): (Pe, &Layout),
    source: &Source<'_>,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    let mut line = source.tile(0)?;
    // The second word of the manifest is its length.
    let word = line.get(8..16).map(|at| u64::from_le_bytes(at.try_into().expect("eight bytes")));
    let described = word.map_or(0, |len| len.min(source.len as u64)) as usize;
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
fn head(order: &Order, layout: &Layout, pe: Pe, manifest: &Manifest) -> Head {
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
        sums: Vec::new(),
    };
    let tiles = head.data_len().div_ceil(TILE as u64) as usize;
    (head.sums, head.stored) = (vec![0; tiles], order.stored(tiles));
    head
}

/// The files that are written one after another.
struct Output<'a> {
    folder: &'a Path,
    order: &'a Order,
    stop: &'a AtomicU64,
    compressor: Option<TileCompressor>,
    open: Option<Open>,
    /// The file before it, which may still be being flushed.
    closing: Option<Closing>,
    done: Files,
    begun: Instant,
    /// Bytes written since `begun`.
    bytes: u64,
}

/// The file that is being written.
struct Open {
    file: File,
    path: PathBuf,
    pe: Pe,
    begin: Begin,
    data_at: u64,
    tile: usize,
    /// Offset of the next tile.
    at: u64,
    /// The bytes that the disk received but that were not awaited.
    handed: Range<u64>,
}

/// A file whose last byte is written, but not flushed.
struct Closing {
    file: File,
    path: PathBuf,
    pe: Pe,
    content: Content,
    entry: Entry,
    /// Its size without compression.
    raw: u64,
}

impl<'a> Output<'a> {
    fn new(
        folder: &'a Path,
        order: &'a Order,
        stop: &'a AtomicU64,
        compressor: Option<TileCompressor>,
    ) -> Output<'a> {
        let (open, closing, done, begun) = (None, None, Files::default(), Instant::now());
        Output { folder, order, stop, compressor, open, closing, done, begun, bytes: 0 }
    }

    fn take(mut self, queue: Receiver<Piece>) -> Result<Files, Failure> {
        for piece in queue {
            match piece {
                Piece::Begin(pe, begin) => self.begin(pe, begin)?,
                Piece::Tile(bytes) => self.tile(&bytes)?,
            }
        }
        self.end()?;
        self.close()?;
        Ok(self.done)
    }

    /// Writes a tile. A rate limit delays it until it is due, and flushes every second.
    fn tile(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let rate = self.order.how.rate;
        let Some(open) = &mut self.open else { return Ok(()) };
        let stored = self.compressor.as_mut().map_or(bytes, |it| it.compress(bytes));
        open.tile(bytes, stored)?;
        self.bytes += stored.len() as u64;
        let dirty = if rate > 0 { rate.min(DIRTY) } else { DIRTY };
        if open.at - open.handed.end >= dirty / 4 {
            open.hand()?;
        }
        let due = self.begun + pace::due(rate, self.bytes);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            go_on(self.order, self.stop)?;
            std::thread::sleep(left.min(PAUSE));
        }
    }

    fn begin(&mut self, pe: Pe, begin: Begin) -> Result<(), Failure> {
        self.end()?;
        let path = self.folder.join(files::name(begin.content(), pe));
        step();
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = made.map_err(|error| failed(&path, &error))?;
        let at = data_at(begin.encode().len());
        let (data_at, handed) = (at, at..at);
        self.open = Some(Open { file, path, pe, begin, data_at, tile: 0, at, handed });
        Ok(())
    }

    /// Ends the open file.
    fn end(&mut self) -> Result<(), Failure> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let closing = open.end()?;
        self.close()?;
        self.closing = Some(closing);
        Ok(())
    }

    /// Waits until the file before it is on disk.
    fn close(&mut self) -> Result<(), Failure> {
        let Some(Closing { file, path, pe, content, entry, raw }) = self.closing.take() else {
            return Ok(());
        };
        step();
        file.sync_all().map_err(|error| failed(&path, &error))?;
        let done = match content {
            Content::Data => &mut self.done.data,
            Content::Parity => &mut self.done.parity,
        };
        done.push((pe, entry));
        self.done.raw += raw;
        Ok(())
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}

impl Open {
    /// Writes the stored form of a tile.
    fn tile(&mut self, tile: &[u8], stored: &[u8]) -> Result<(), Failure> {
        step();
        let written = self.file.write_all_at(stored, self.at);
        written.map_err(|error| failed(&self.path, &error))?;
        self.begin.note(self.tile, crc32(tile), stored.len());
        self.tile += 1;
        self.at += stored.len() as u64;
        Ok(())
    }

    /// Hands the remaining whole pages to the disk, once it has written the previous window. A
    /// partial page goes with the next window, or when the file is awaited.
    fn hand(&mut self) -> Result<(), Failure> {
        let (Range { start, end }, page) = (self.handed.clone(), PAGE as u64);
        let new = self.at / page * page;
        step();
        let begun = writeback::begin(&self.file, end, new - end);
        step();
        let done = begun.and_then(|()| writeback::wait(&self.file, start, end - start));
        done.map_err(|error| failed(&self.path, &error.into()))?;
        self.handed = end..new;
        Ok(())
    }

    /// Writes the head, last: without it the file is invalid.
    fn end(mut self) -> Result<Closing, Failure> {
        let head = self.begin.encode();
        step();
        let written = self.file.write_all_at(&head, 0);
        written.map_err(|error| failed(&self.path, &error))?;
        self.hand()?;
        let sum = head.last_chunk::<4>().map_or(0, |sum| u32::from_le_bytes(*sum));
        let raw = self.data_at + self.begin.data_len();
        let Open { file, path, pe, begin, at: len, .. } = self;
        Ok(Closing { file, path, pe, content: begin.content(), entry: Entry { len, sum }, raw })
    }
}

#[cfg(test)]
mod tests;
