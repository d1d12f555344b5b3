//! The file of a PE: a head that describes its contents, then the bytes in tiles.
//!
//! Locations are relative to the program, not to the process: bytes of the statics and of the heap,
//! each counted from the beginning of its area, and private regions by their names. The head has
//! the checksum of every tile, so it is written last.
//!
//! Invariants of a decoded head: extents lie in their areas, the heap's state is valid for that
//! heap length, names of regions are unique and not empty, there are as many checksums as tiles,
//! and no tile occupies more of the file than its length.

use std::collections::BTreeSet;
use std::ops::Range;

use raidshmem_core::heap::Heap;
use raidshmem_core::layout::{STATICS_MAX, TILE};
use raidshmem_core::page::PAGE;

use crate::bytes::{self, Kind, REFERRING, Reader, Writer, version};
use crate::error::FormatError;
use crate::owner::Owner;
use crate::references::References;
use crate::tiles::Tiles;

/// The frame of a file of a PE.
const KIND: Kind = Kind { magic: *b"RAIDPART", name: "file of a PE", newest: REFERRING };

/// A part of a PE's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// `.data` and `.bss` of the program, from the first page that is symmetric.
    Statics,
    /// The symmetric heap.
    Heap,
}

/// A range of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The area.
    pub area: Area,
    /// Offset in the area.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Private memory that the program registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The name that identifies it.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A variable among the statics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The symbol.
    pub name: String,
    /// The source file of a local symbol; else empty.
    pub file: String,
    /// Offset in the statics.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The head of a file of a PE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Its owner.
    pub owner: Owner,
    /// The heap's address in every process: pointers to it are saved unchanged.
    pub heap_at: u64,
    /// The build of the program.
    pub build: Vec<u8>,
    /// The name of its executable.
    pub program: String,
    /// The executable's addresses in the process; empty if they are unknown.
    pub image: Range<u64>,
    /// The allocator, as [`Heap::encode`] writes it: number, offset and size of each allocation.
    pub heap: Vec<u8>,
    /// The memory that the program excluded.
    pub excluded: Vec<Extent>,
    /// The saved ranges of statics and heap, in the order of their bytes in the file.
    pub extents: Vec<Extent>,
    /// Private regions, whose bytes follow.
    pub regions: Vec<Region>,
    /// The variables that lie in the statics.
    pub objects: Vec<Object>,
    /// The snapshot's manifest in memory, which precedes the extents: parity is computed over both.
    /// Empty in a set without parity.
    pub begin: Vec<u8>,
    /// Bytes that each tile occupies in the file; empty if they are not compressed.
    pub stored: Vec<u32>,
    /// The tiles that are in files of earlier sets.
    pub references: References,
    /// The checksum of each tile.
    pub sums: Vec<u32>,
}

impl Head {
    /// Returns the number of saved bytes.
    pub fn data_len(&self) -> u64 {
        let extents = self.extents.iter().map(|extent| extent.len);
        extents.chain(self.regions.iter().map(|region| region.len)).sum()
    }

    /// Returns the tiles of the saved bytes.
    pub fn tiles(&self) -> Tiles<'_> {
        let (stored, sources) = (&self.stored, &self.references.sources);
        Tiles { sums: &self.sums, len: self.data_len(), stored, sources }
    }

    /// Returns the number of tiles of the snapshot in memory, if that begins with [`Head::begin`].
    pub fn memory_tiles(&self) -> u64 {
        self.memory_len().div_ceil(TILE as u64)
    }

    /// Returns the tiles in memory that contain bytes of a tile of the file. Private regions are
    /// part of [`Head::begin`] there.
    pub fn memory_tiles_of(&self, of_file: usize) -> Range<u64> {
        let place = |nth: usize| self.begin.len() as u64 + (nth * TILE) as u64;
        let [from, end] = [of_file, of_file + 1].map(|nth| place(nth).min(self.memory_len()));
        if from == end { 0..0 } else { from / TILE as u64..end.div_ceil(TILE as u64) }
    }

    /// Returns the tiles in memory that these tiles of the file would fill, and the number of all.
    pub fn in_memory(&self, tiles: &mut dyn Iterator<Item = usize>) -> (Vec<u64>, u64) {
        (tiles.flat_map(|tile| self.memory_tiles_of(tile)).collect(), self.memory_tiles())
    }

    /// Returns the bytes of the snapshot in memory.
    pub fn memory_len(&self) -> u64 {
        let extents: u64 = self.extents.iter().map(|extent| extent.len).sum();
        self.begin.len() as u64 + extents
    }

    /// Returns the length of a head whose frame begins with `bytes`, at least [`bytes::BEGIN`] of
    /// them.
    ///
    /// # Errors
    /// They do not begin a file of a PE.
    pub fn len_of(bytes: &[u8]) -> Result<usize, FormatError> {
        bytes::frame_len(KIND, bytes)
    }

    /// Decodes the allocator.
    ///
    /// # Errors
    /// Its state is invalid for a heap of that length.
    pub fn allocator(&self) -> Result<Heap, FormatError> {
        let heap = Heap::decode(&self.heap).ok();
        let len = self.heap.get(8..16).map(|len| len.try_into().expect("eight bytes"));
        let most = self.owner.heap_len.next_multiple_of(PAGE as u64);
        let fits = len.is_some_and(|len| u64::from_le_bytes(len) <= most);
        heap.filter(|_| fits).ok_or(FormatError::Impossible("the state of the heap"))
    }

    /// Returns the blocks of the heap, as offsets in it.
    ///
    /// # Errors
    /// As above.
    pub fn blocks(&self) -> Result<Vec<Range<u64>>, FormatError> {
        let count = self.allocator()?.blocks();
        // As `Heap::encode` writes them: three words, then the offset and the size of each.
        let words = self.heap.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let words: Vec<u64> = words.skip(3).take(2 * count).collect();
        Ok(words.as_chunks::<2>().0.iter().map(|[at, size]| *at..at + size).collect())
    }

    /// Encodes the head.
    pub fn encode(&self) -> Vec<u8> {
        let refers = !self.references.bases.is_empty();
        let mut out = Writer::new(KIND, version(!self.stored.is_empty(), refers));
        self.owner.write(&mut out);
        out.u64(self.heap_at);
        out.run(&self.build);
        out.run(self.program.as_bytes());
        out.u64(self.image.start);
        out.u64(self.image.end);
        out.run(&self.heap);
        for extents in [&self.excluded, &self.extents] {
            out.count(extents.len());
            extents.iter().for_each(|extent| extent.write(&mut out));
        }
        out.count(self.regions.len());
        for Region { name, len } in &self.regions {
            out.run(name.as_bytes());
            out.u64(*len);
        }
        out.count(self.objects.len());
        for Object { name, file, offset, len } in &self.objects {
            out.run(name.as_bytes());
            out.run(file.as_bytes());
            out.u64(*offset);
            out.u64(*len);
        }
        out.run(&self.begin);
        out.stored(&self.stored);
        self.references.write(&mut out);
        out.count(self.sums.len());
        self.sums.iter().for_each(|&sum| out.u32(sum));
        out.finish()
    }

    /// Decodes the head that `bytes` begin with.
    ///
    /// # Errors
    /// The head is missing, damaged, or inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Head, FormatError> {
        let mut body = bytes::body(KIND, bytes)?;
        let owner = Owner::read(&mut body)?;
        let head = Head {
            owner,
            heap_at: body.u64()?,
            build: body.run()?.to_vec(),
            program: body.text()?,
            image: body.u64()?..body.u64()?,
            heap: body.run()?.to_vec(),
            excluded: body.list(17, Extent::read)?,
            extents: body.list(17, Extent::read)?,
            regions: body.list(16, |body| Ok(Region { name: body.text()?, len: body.u64()? }))?,
            objects: body.list(32, |body| {
                let (name, file) = (body.text()?, body.text()?);
                Ok(Object { name, file, offset: body.u64()?, len: body.u64()? })
            })?,
            begin: body.run()?.to_vec(),
            stored: body.stored()?,
            references: References::read(&mut body, &owner)?,
            sums: body.list(4, Reader::u32)?,
        };
        body.end()?;
        head.check_sense()?;
        Ok(head)
    }

    fn check_sense(&self) -> Result<(), FormatError> {
        let no = |what| Err(FormatError::Impossible(what));
        self.allocator()?;
        let inside = |extent: &Extent| extent.is_inside(self.owner.heap_len);
        if !self.extents.iter().chain(&self.excluded).all(inside) {
            return no("an extent outside its area");
        }
        let names: BTreeSet<&str> = self.regions.iter().map(|it| it.name.as_str()).collect();
        if names.len() < self.regions.len() || names.contains("") {
            return no("a region without a name of its own");
        }
        let lengths = self.extents.iter().map(|extent| extent.len);
        let mut lengths = lengths.chain(self.regions.iter().map(|region| region.len));
        let total = lengths.try_fold(0u64, u64::checked_add).filter(|&len| len < 1 << 62);
        match total.map(|len| len.div_ceil(TILE as u64)) {
            Some(tiles) if tiles != self.sums.len() as u64 => no("the number of its checksums"),
            Some(_) if self.tiles().fit() => Ok(()),
            Some(_) => no("the length of a tile"),
            None => no("the number of its bytes"),
        }
    }
}

impl Extent {
    fn is_inside(&self, heap_len: u64) -> bool {
        let most = match self.area {
            Area::Statics => STATICS_MAX as u64,
            Area::Heap => heap_len.next_multiple_of(PAGE as u64),
        };
        self.offset.checked_add(self.len).is_some_and(|end| end <= most)
    }

    fn write(&self, out: &mut Writer) {
        out.u8(match self.area {
            Area::Statics => 0,
            Area::Heap => 1,
        });
        out.u64(self.offset);
        out.u64(self.len);
    }

    fn read(body: &mut Reader<'_>) -> Result<Extent, FormatError> {
        let area = match body.u8()? {
            0 => Area::Statics,
            1 => Area::Heap,
            _ => return Err(FormatError::Impossible("an area of memory")),
        };
        Ok(Extent { area, offset: body.u64()?, len: body.u64()? })
    }
}

#[cfg(test)]
pub(crate) mod tests;
