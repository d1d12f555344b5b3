//! The files of a set: their heads, and their tiles, which several threads may read.
//!
//! A file of an incremental set refers to files of the same PE in earlier sets, which are opened
//! with it: they lie in folders next to that of its set, and are known by their heads.
//!
//! Invariant: nothing is read through a link, or from a file of another user; a tile is returned
//! only if its checksum matches.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use raidshmem_archive::compress::TileDecompressor;
use raidshmem_archive::error::FormatError;
use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_archive::references::{Base, References};
use raidshmem_archive::tiles::{BEGIN, Tiles, data_at};
use raidshmem_core::disk::{Content, Entry};
use raidshmem_core::quantity::Pe;
use rustix::fs::{Advice, fadvise};

/// The reasons why a file or folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The system reported an error.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is not a file of a set, or is damaged.
    #[error("{}: {error}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format error.
        error: FormatError,
    },
    /// Some data of a set can neither be read nor decoded.
    #[error("{0}")]
    Incomplete(String),
    /// It is not as expected.
    #[error("{}: {why}", .path.display())]
    Strange {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
}

/// Converts an I/O error of that file or folder.
pub fn io_at(path: &Path) -> impl Fn(io::Error) -> SetError {
    move |error| SetError::Io { path: path.to_owned(), error }
}

/// Converts a format error of that file.
pub fn format_at(path: &Path) -> impl Fn(FormatError) -> SetError {
    move |error| SetError::Format { path: path.to_owned(), error }
}

/// Opens a file of a set: a plain file of this user, or of root.
///
/// # Errors
/// It is something else, or cannot be opened.
pub fn open(path: &Path) -> Result<File, SetError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io_at(path))?;
    let meta = file.metadata().map_err(io_at(path))?;
    let strange = |why| SetError::Strange { path: path.to_owned(), why };
    match () {
        () if !meta.is_file() => Err(strange("expected a plain file")),
        () if !is_ours(meta.uid()) => Err(strange("it belongs to another user")),
        () => Ok(file),
    }
}

fn is_ours(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Fills `bytes` from a file.
fn read_exact(file: &File, path: &Path, at: u64, bytes: &mut [u8]) -> Result<(), SetError> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at).map_err(io_at(path))
}

/// Returns the name of the file of a PE.
pub fn name(content: Content, pe: Pe) -> String {
    match content {
        Content::Data => format!("pe-{pe}"),
        Content::Parity => format!("parity-{pe}"),
    }
}

/// A head of a file of a PE.
pub trait PeHead: Sized {
    /// The content of files with this head.
    const CONTENT: Content;
    /// Returns the length of the head that begins with `bytes`.
    ///
    /// # Errors
    /// The bytes begin no head.
    fn len_of(bytes: &[u8]) -> Result<usize, FormatError>;
    /// Decodes a head.
    ///
    /// # Errors
    /// The bytes are not a head.
    fn decode(bytes: &[u8]) -> Result<Self, FormatError>;
    /// Returns its owner.
    fn owner(&self) -> Owner;
    /// Returns the tiles that follow it.
    fn tiles(&self) -> Tiles<'_>;
    /// Returns the tiles that do not, but are in other files.
    fn references(&self) -> &References;
    /// Returns the tiles in memory that these tiles of the file would fill, and the number of all.
    fn in_memory(&self, tiles: &mut dyn Iterator<Item = usize>) -> (Vec<u64>, u64);
}

macro_rules! heads {
    ($($head:ident: $content:ident),*) => { $(
        impl PeHead for $head {
            const CONTENT: Content = Content::$content;
            fn len_of(bytes: &[u8]) -> Result<usize, FormatError> {
                $head::len_of(bytes)
            }
            fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
                $head::decode(bytes)
            }
            fn owner(&self) -> Owner {
                self.owner
            }
            fn tiles(&self) -> Tiles<'_> {
                $head::tiles(self)
            }
            fn references(&self) -> &References {
                &self.references
            }
            fn in_memory(&self, tiles: &mut dyn Iterator<Item = usize>) -> (Vec<u64>, u64) {
                $head::in_memory(self, tiles)
            }
        }
    )* };
}
heads!(Head: Data, ParityHead: Parity);

/// Buffers of a thread that reads tiles.
#[derive(Default)]
pub struct TileScratch {
    bytes: Vec<u8>,
    stored: Vec<u8>,
    decompressor: TileDecompressor,
}

/// Tiles that can be read at once.
#[derive(Debug)]
pub struct Stretch<'a> {
    /// The tiles.
    pub tiles: Range<usize>,
    /// The file that holds them.
    pub file: &'a File,
    /// The offset of the first.
    pub at: u64,
    /// Their bytes.
    pub len: usize,
}

/// A file of a PE with a valid head.
#[derive(Debug)]
pub struct PeFile<H> {
    file: File,
    /// Its path.
    pub path: PathBuf,
    /// Its head.
    pub head: H,
    /// Offsets of its tiles, and the end of the last.
    places: Vec<u64>,
    /// Its entry for the manifest.
    pub entry: Entry,
    /// The files that hold its other tiles, by their numbers in its head.
    bases: BTreeMap<u8, PeFile<H>>,
}

impl<H: PeHead> PeFile<H> {
    /// Opens the file of a PE in a folder, and the files that it refers to.
    ///
    /// # Errors
    /// One does not exist, or is shorter than its head requires.
    pub fn open(folder: &Path, pe: Pe) -> Result<PeFile<H>, SetError> {
        let mut file = PeFile::<H>::open_alone(folder, pe)?;
        let used = file.head.references().used();
        let bases = used.map(|(nth, base)| Ok((nth, file.open_base(folder, nth, base)?)));
        file.bases = bases.collect::<Result<_, SetError>>()?;
        Ok(file)
    }

    /// Opens the file of an earlier set that this one in `folder` refers to. That set has its own
    /// folder next to it, under any name.
    fn open_base(&self, folder: &Path, nth: u8, base: &Base) -> Result<PeFile<H>, SetError> {
        let owner = Owner { number: base.number, ..H::owner(&self.head) };
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let has_len = |folder: &PathBuf| {
            let meta = folder.join(name(H::CONTENT, owner.pe)).symlink_metadata();
            meta.is_ok_and(|meta| meta.len() == base.entry.len)
        };
        let entries = folder.parent().and_then(|all| fs::read_dir(all).ok()).into_iter().flatten();
        let folders = entries.flatten().filter(is_folder).map(|entry| entry.path());
        let files = folders.filter(has_len).filter_map(|it| Self::open_alone(&it, owner.pe).ok());
        let is_it = |file: &PeFile<H>| (file.entry, H::owner(&file.head)) == (base.entry, owner);
        let found = files.into_iter().find(is_it).ok_or_else(|| {
            let (path, number) = (self.path.display(), base.number);
            let why = "whose file is missing or damaged";
            SetError::Incomplete(format!("{path}: refers to checkpoint {number}, {why}"))
        })?;
        let (own, other) = (self.head.tiles(), found.head.tiles());
        let is_equal = |tile: usize| {
            let sums = own.sums.get(tile) == other.sums.get(tile);
            sums && other.is_here(tile) && own.range(tile) == other.range(tile)
        };
        let mut needed = (0..).zip(own.sources).filter(|(_, source)| **source == nth);
        match needed.all(|(tile, _)| is_equal(tile)) {
            true => Ok(found),
            false => {
                let why = "refers to a block that is not in that file";
                Err(SetError::Strange { path: self.path.clone(), why })
            }
        }
    }

    /// Opens a file without those that it refers to.
    fn open_alone(folder: &Path, pe: Pe) -> Result<PeFile<H>, SetError> {
        let path = folder.join(name(H::CONTENT, pe));
        let file = open(&path)?;
        let len = file.metadata().map_err(io_at(&path))?.len();
        let short = |expected| format_at(&path)(FormatError::Short { expected, found: len });
        let mut begin = [0; BEGIN];
        read_exact(&file, &path, 0, &mut begin)?;
        let head_len = H::len_of(&begin).map_err(format_at(&path))?;
        if head_len as u64 > len {
            return Err(short(head_len as u64));
        }
        let mut bytes = vec![0; head_len];
        read_exact(&file, &path, 0, &mut bytes)?;
        let head = H::decode(&bytes).map_err(format_at(&path))?;
        let sum = bytes.last_chunk().copied().map_or(0, u32::from_le_bytes);
        let places = head.tiles().places(data_at(head_len));
        let end = places.last().copied().unwrap_or_default();
        match len.cmp(&end) {
            std::cmp::Ordering::Less => Err(short(end)),
            std::cmp::Ordering::Greater => {
                Err(SetError::Strange { path, why: "longer than its head says" })
            }
            std::cmp::Ordering::Equal => {
                let (entry, bases) = (Entry { len, sum }, BTreeMap::new());
                Ok(PeFile { file, path, head, places, entry, bases })
            }
        }
    }

    /// Opens a file like [`PeFile::open`]; it must be the one that the manifest names.
    ///
    /// # Errors
    /// As above, or it is of another set.
    pub fn open_named(folder: &Path, manifest: &Manifest, pe: Pe) -> Result<PeFile<H>, SetError> {
        let opened = PeFile::open_of(folder, manifest.owner(pe))?;
        let why = "it belongs to another set";
        match manifest.entry(H::CONTENT, pe) == Some(opened.entry) {
            true => Ok(opened),
            false => Err(SetError::Strange { path: opened.path, why }),
        }
    }

    /// Opens a file like [`PeFile::open`]; it must be the file of `owner` in its set.
    ///
    /// # Errors
    /// As above, or it is of another set.
    pub fn open_of(folder: &Path, owner: Owner) -> Result<PeFile<H>, SetError> {
        let opened = PeFile::open(folder, owner.pe)?;
        let why = "it belongs to another set";
        match H::owner(&opened.head) == owner {
            true => Ok(opened),
            false => Err(SetError::Strange { path: opened.path, why }),
        }
    }

    /// Returns the bytes of the file that these tiles occupy.
    fn place(&self, tiles: Range<usize>) -> Range<u64> {
        let at = |tile: usize| self.places.get(tile).or(self.places.last());
        let at = |tile| at(tile).copied().unwrap_or_default();
        at(tiles.start)..at(tiles.end)
    }

    /// Returns the file that holds a tile.
    fn holder(&self, tile: usize) -> &PeFile<H> {
        let source = self.head.references().sources.get(tile);
        source.and_then(|source| self.bases.get(source)).unwrap_or(self)
    }

    /// Returns the bytes of a tile, verified.
    ///
    /// # Errors
    /// They cannot be read, or are damaged.
    pub fn tile<'a>(
        &self,
        tile: usize,
        scratch: &'a mut TileScratch,
    ) -> Result<&'a [u8], SetError> {
        let holder = self.holder(tile);
        if !std::ptr::eq(holder, self) {
            return holder.tile(tile, scratch);
        }
        let (tiles, place) = (self.head.tiles(), self.place(tile..tile + 1));
        let TileScratch { bytes, stored, decompressor } = scratch;
        let range = tiles.range(tile);
        bytes.resize((range.end - range.start) as usize, 0);
        let len = (place.end - place.start) as usize;
        if len == bytes.len() {
            read_exact(&self.file, &self.path, place.start, bytes)?;
        } else {
            stored.resize(len, 0);
            read_exact(&self.file, &self.path, place.start, stored)?;
            if !decompressor.decompress(stored, bytes) {
                return Err(format_at(&self.path)(FormatError::Tile(tile)));
            }
        }
        self.check(tile, bytes)?;
        Ok(bytes)
    }

    /// Verifies the bytes of a tile.
    ///
    /// # Errors
    /// They are damaged.
    pub fn check(&self, tile: usize, bytes: &[u8]) -> Result<(), SetError> {
        let checked = self.head.tiles().check(tile, bytes);
        checked.map_err(|error| format_at(&self.holder(tile).path)(error))
    }

    /// Returns the first of `tiles` that lie one after another in one file, as they are in memory;
    /// None if the first tile is compressed.
    pub fn stretch(&self, tiles: Range<usize>) -> Option<Stretch<'_>> {
        let holder = self.holder(tiles.start);
        let lies = |&tile: &usize| {
            let (place, range) = (holder.place(tile..tile + 1), self.head.tiles().range(tile));
            std::ptr::eq(self.holder(tile), holder)
                && place.end - place.start == range.end - range.start
        };
        let end = tiles.start + tiles.clone().take_while(lies).count();
        let place = holder.place(tiles.start..end);
        let (len, tiles) = ((place.end - place.start) as usize, tiles.start..end);
        (len > 0).then_some(Stretch { tiles, file: &holder.file, at: place.start, len })
    }

    /// Returns the bytes that a tile occupies, not verified.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn stored(&self, nth: usize) -> Result<Vec<u8>, SetError> {
        let (holder, place) = (self.holder(nth), self.place(nth..nth + 1));
        if !std::ptr::eq(holder, self) {
            return holder.stored(nth);
        }
        let mut stored = vec![0; (place.end - place.start) as usize];
        read_exact(&self.file, &self.path, place.start, &mut stored)?;
        Ok(stored)
    }

    /// Releases the pages of tiles that are not read again.
    pub fn let_go(&self, tiles: Range<usize>) {
        self.bases.values().for_each(|base| base.let_go(tiles.clone()));
        let Range { start: from, end } = self.place(tiles);
        // If this fails, the kernel keeps them until memory is short.
        let _ = fadvise(&self.file, from, NonZeroU64::new(end - from), Advice::DontNeed);
    }
}
