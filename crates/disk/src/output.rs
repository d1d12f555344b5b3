//! Files of PEs written from a queue of pieces, one after another.
//!
//! The disk works in parallel: it receives a window of bytes as soon as that is written, and a file
//! is awaited once its successor is written too. Tiles are compressed, if requested, one by one.
//!
//! A tile with the digest that it had in the file written before is not written: the head refers to
//! the older file.
//!
//! Invariants: no more than [`DIRTY`] bytes are in flight to the disk; the head of a file is
//! written last.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use raidshmem_archive::compress::TileCompressor;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::pace;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_archive::references::{Past, References};
use raidshmem_archive::tiles::data_at;
use raidshmem_codec::crc::crc32;
use raidshmem_core::disk::{Content, Entry, Failure, Files, How};
use raidshmem_core::page::PAGE;
use raidshmem_core::quantity::{Pe, TileIndex};
use raidshmem_sys::writeback;
use twox_hash::XxHash3_128;

use super::files;
use super::step::step;

/// The interval at which a throttled writer checks for a stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of bytes not yet on disk: one window being flushed and one being filled, of a
/// file and of the one before it.
const DIRTY: u64 = 64 << 20;

/// Knowledge of the files that a node wrote last.
pub type Pasts = BTreeMap<(Content, Pe), Past>;

/// A check that fails once the writing is to end.
pub type GoOn<'a> = dyn Fn() -> Result<(), Failure> + 'a;

/// Returns the digest of a tile of a job, which decides if a file refers to an older one.
pub fn digest(job: u64, tile: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(job, tile)
}

/// A piece of the data that is read.
pub enum Piece {
    /// The beginning of a file; its checksums are still missing.
    Begin(Pe, Begin),
    /// A tile of the file.
    Tile(Vec<u8>),
}

/// The head of a file.
pub enum Begin {
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

    fn owner(&self) -> &Owner {
        match self {
            Begin::Data(head) => &head.owner,
            Begin::Parity(head) => &head.owner,
        }
    }

    fn references(&mut self) -> &mut References {
        match self {
            Begin::Data(head) => &mut head.references,
            Begin::Parity(head) => &mut head.references,
        }
    }

    /// Returns the number of its tiles.
    fn tiles(&self) -> usize {
        match self {
            Begin::Data(head) => head.sums.len(),
            Begin::Parity(head) => head.sums.len(),
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

/// The files that are written one after another.
pub struct Output<'a> {
    folder: &'a Path,
    pasts: &'a mut Pasts,
    how: How,
    go_on: &'a GoOn<'a>,
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
    /// The file that it may refer to.
    past: Option<Past>,
    /// The digests of its tiles, if the next set may refer to it.
    digests: Vec<u128>,
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
    begin: Begin,
    digests: Vec<u128>,
    pe: Pe,
    entry: Entry,
    /// Its size with all its tiles, without compression.
    raw: u64,
}

impl<'a> Output<'a> {
    /// Writes to a folder, and asks `go_on` before it waits.
    pub fn new(
        (folder, pasts): (&'a Path, &'a mut Pasts),
        how: How,
        go_on: &'a GoOn<'a>,
        compressor: Option<TileCompressor>,
    ) -> Output<'a> {
        let (open, closing, done, begun) = (None, None, Files::default(), Instant::now());
        Output { folder, pasts, how, go_on, compressor, open, closing, done, begun, bytes: 0 }
    }

    /// Writes all pieces; returns the files, which are on disk.
    ///
    /// # Errors
    /// The system's error, or that of `go_on`.
    pub fn take(mut self, queue: Receiver<Piece>) -> Result<Files, Failure> {
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
        let rate = self.how.rate;
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.how.incremental && open.is_unchanged(bytes) {
            return Ok(());
        }
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
            (self.go_on)()?;
            std::thread::sleep(left.min(PAUSE));
        }
    }

    fn begin(&mut self, pe: Pe, mut begin: Begin) -> Result<(), Failure> {
        self.end()?;
        let past = self.pasts.remove(&(begin.content(), pe));
        let past = past.filter(|past| past.suits(self.how.base, begin.owner()));
        if let Some(past) = &past {
            *begin.references() = past.references(begin.tiles());
        }
        let path = self.folder.join(files::name(begin.content(), pe));
        step();
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = made.map_err(|error| failed(&path, &error))?;
        let at = data_at(begin.encode().len());
        let (data_at, handed, digests) = (at, at..at, Vec::new());
        let open = Open { file, path, pe, begin, past, digests, data_at, tile: 0, at, handed };
        self.open = Some(open);
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
        let Some(mut closing) = self.closing.take() else { return Ok(()) };
        let (content, owner) = (closing.begin.content(), *closing.begin.owner());
        let references = std::mem::take(closing.begin.references());
        let Closing { file, path, digests, pe, entry, raw, .. } = closing;
        step();
        file.sync_all().map_err(|error| failed(&path, &error))?;
        let done = match content {
            Content::Data => &mut self.done.data,
            Content::Parity => &mut self.done.parity,
        };
        done.push((pe, entry));
        self.done.raw += raw;
        self.done.bases.extend(references.used().map(|(_, base)| base.number));
        if self.how.incremental {
            let past = Past::new(owner, entry, &references, &digests);
            self.pasts.insert((content, pe), past);
        }
        Ok(())
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}

impl Open {
    /// Returns true if the older file has the tile, and then refers to that.
    fn is_unchanged(&mut self, tile: &[u8]) -> bool {
        let digest = digest(self.begin.owner().job, tile);
        self.digests.push(digest);
        let source =
            self.past.as_ref().and_then(|past| past.source(TileIndex::of(self.tile), digest));
        let sources = &mut self.begin.references().sources;
        let Some((place, source)) = sources.get_mut(self.tile).zip(source) else { return false };
        *place = source;
        step(); // the disk is not what this waits for
        self.begin.note(self.tile, crc32(tile), 0);
        self.tile += 1;
        true
    }

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
        if self.at == self.data_at {
            // No tile has extended the file: in raid4 most PEs keep no parity.
            self.file.set_len(self.at).map_err(|error| failed(&self.path, &error))?;
        }
        self.hand()?;
        let sum = head.last_chunk::<4>().map_or(0, |sum| u32::from_le_bytes(*sum));
        let raw = self.data_at + self.begin.data_len();
        let Open { file, path, pe, begin, digests, at: len, .. } = self;
        Ok(Closing { file, path, begin, digests, pe, entry: Entry { len, sum }, raw })
    }
}
