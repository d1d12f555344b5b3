//! The snapshots and the parity of a set, read from its files, or decoded tile by tile if a file is
//! missing or damaged.
//!
//! The *line* of a PE is its snapshot with the manifest that it begins with: parity covers lines
//! (`docs/format.md`). A line that can be read is never decoded.
//!
//! Invariants: bytes are used only if the checksum of their tile matched; a file whose line has
//! another length than those of its group is as good as missing.
//!
//! Left out: the decision if a set can be decoded ([`raidshmem_archive::judge`]).

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::OnceLock;

use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_codec::stripe::Parity;
use raidshmem_core::disk::{Content, Failure, How, ParityShare};
use raidshmem_core::layout::{Layout, TILE};
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::coverage::Coverage;
use raidshmem_core::store::protection::GroupLayout;

use super::examine::{SetFile, StoredSet};
use super::files::{PeFile, SetError, TileScratch};
use super::source::TileSource;
use super::variables::SavedProgram;
use super::write::{self, Order};

/// The files of a set, opened when they are needed.
pub struct Decoder {
    set: StoredSet,
    groups: Vec<GroupLayout>,
    data: Vec<OnceLock<Option<PeFile<Head>>>>,
    parity: Vec<OnceLock<Option<PeFile<ParityHead>>>>,
}

/// A member of a group.
#[derive(Clone, Copy)]
struct Member<'a> {
    group: &'a GroupLayout,
    place: usize,
    /// Bytes of the lines of the group.
    line: usize,
}

impl Member<'_> {
    /// Returns the number of tiles of a chunk.
    fn chunk(&self) -> usize {
        self.group.chunk_len(self.line) / TILE
    }
}

impl Decoder {
    /// Opens nothing yet. A set without parity has nothing to decode.
    ///
    /// # Errors
    /// The parity of the set is of an unknown kind.
    pub fn new(set: StoredSet) -> Result<Decoder, SetError> {
        let groups = set.manifest.parity.as_ref().map(|parity| parity.code.groups()).transpose();
        let groups = groups.map_err(SetError::Incomplete)?.unwrap_or_default();
        let pes = set.manifest.entries.len();
        let data = (0..pes).map(|_| OnceLock::new()).collect();
        let parity = (0..pes).map(|_| OnceLock::new()).collect();
        Ok(Decoder { set, groups, data, parity })
    }

    /// Returns the set.
    pub fn set(&self) -> &StoredSet {
        &self.set
    }

    /// Returns the order by which the files of the set were written, compressed at that level.
    pub fn order(&self, level: u32) -> Order {
        let manifest = &self.set.manifest;
        // The share only tells that the set has parity.
        let share = ParityShare { pe: Pe(0), chunks: 1, held: 1 };
        let heads = || Pe::all(manifest.entries.len()).filter_map(|pe| self.data(pe));
        let program = heads().next().map(|PeFile { head, .. }| SavedProgram {
            build: head.build.clone(),
            name: head.program.clone(),
            image: head.image.clone(),
            objects: head.objects.clone(),
        });
        Order {
            job: manifest.job,
            sets: manifest.job,
            n_pes: manifest.entries.len() as u32,
            heap_len: manifest.heap_len,
            number: manifest.number,
            folder: PathBuf::new(),
            pes: Vec::new(),
            parity: manifest.parity.iter().map(|_| share).collect(),
            how: How { compress: level, ..How::default() },
            program: program.unwrap_or_default(),
        }
    }

    /// Returns the layout of the memory of each PE.
    pub fn layout(&self) -> Layout {
        let manifest = &self.set.manifest;
        Layout::new(manifest.heap_len as usize, manifest.entries.len())
    }

    /// Returns the head of the file of a PE, decoded if it is lost; it then has no checksums.
    ///
    /// # Errors
    /// It can neither be read nor decoded.
    pub fn head(&self, pe: Pe) -> Result<Cow<'_, Head>, SetError> {
        if let Some(file) = self.data(pe) {
            return Ok(Cow::Borrowed(&file.head));
        }
        if self.groups.is_empty() {
            return self.set.open(pe).map(|file| Cow::Owned(file.head)); // the error of its file
        }
        let (mut begin, mut scratch) = (Vec::new(), TileScratch::default());
        let len = self.len((Content::Data, pe))?;
        while begin.len() < len.min(Coverage::manifest_len(&begin).max(TILE)) {
            begin.extend(self.tile((Content::Data, pe), begin.len() / TILE, &mut scratch)?);
        }
        begin.truncate(Coverage::manifest_len(&begin));
        let layout = self.layout();
        let parsed = Coverage::parse(&layout, &begin);
        let parsed = parsed.map_err(|error| self.lacks(pe, &error.to_string()))?;
        let head = write::head(&self.order(0), &layout, pe, &parsed);
        Ok(Cow::Owned(Head { begin, sums: Vec::new(), ..head }))
    }

    /// Fills `bytes` from the saved data of the PE with this head, starting at `at`.
    ///
    /// # Errors
    /// They can neither be read nor decoded.
    pub fn data_bytes(
        &self,
        head: &Head,
        mut at: u64,
        mut bytes: &mut [u8],
        scratch: &mut TileScratch,
    ) -> Result<(), SetError> {
        let pe = head.owner.pe;
        let extents: u64 = head.extents.iter().map(|extent| extent.len).sum();
        while !bytes.is_empty() {
            let (nth, from) = ((at / TILE as u64) as usize, (at % TILE as u64) as usize);
            let read = self
                .data(pe)
                .map(|file| Ok(file.tile(nth, scratch)?.get(from..).map(<[u8]>::to_vec)));
            let piece = match read {
                Some(Ok(Some(piece))) => piece,
                Some(Err(error)) if self.groups.is_empty() => return Err(error),
                _ if at < extents => {
                    let (line, end) = (head.begin.len() as u64 + at, extents - at);
                    let tile = (line / TILE as u64) as usize;
                    let mut tile = self.tile((Content::Data, pe), tile, scratch)?;
                    let mut piece = tile.split_off((line % TILE as u64) as usize);
                    piece.truncate(usize::try_from(end).unwrap_or(usize::MAX));
                    piece
                }
                _ => self.private(head, at - extents)?,
            };
            let len = piece.len().min(bytes.len());
            if len == 0 {
                return Err(self.lacks(pe, "its file is shorter than that"));
            }
            let (into, rest) = bytes.split_at_mut(len);
            into.copy_from_slice(&piece[..len]);
            (at, bytes) = (at + len as u64, rest);
        }
        Ok(())
    }

    /// Returns the private memory in the manifest of a line, from byte `at` on.
    fn private(&self, head: &Head, at: u64) -> Result<Vec<u8>, SetError> {
        let layout = self.layout();
        let parsed = Coverage::parse(&layout, &head.begin);
        let parsed = parsed.map_err(|error| self.lacks(head.owner.pe, &error.to_string()))?;
        let mut all = parsed.private.iter().flat_map(|saved| saved.contents).copied();
        Ok(all.by_ref().skip(usize::try_from(at).unwrap_or(usize::MAX)).collect())
    }

    /// Returns the file of a PE, if its head is intact.
    pub fn data(&self, pe: Pe) -> Option<&PeFile<Head>> {
        self.data.get(pe.at())?.get_or_init(|| self.set.open(pe).ok()).as_ref()
    }

    /// Returns the parity file of a PE, if its head is intact.
    pub fn parity(&self, pe: Pe) -> Option<&PeFile<ParityHead>> {
        self.parity.get(pe.at())?.get_or_init(|| self.set.open(pe).ok()).as_ref()
    }

    /// Returns the bytes of a file: of the line of a PE, or of its parity.
    ///
    /// # Errors
    /// No file of its group has an intact head.
    pub fn len(&self, (content, pe): SetFile) -> Result<usize, SetError> {
        let member = self.member(pe)?;
        Ok(match content {
            Content::Data => member.line,
            Content::Parity => member.group.parity_len(member.place, member.line),
        })
    }

    /// Returns a tile of a line, with zeroes beyond its end, or of parity.
    ///
    /// # Errors
    /// It can neither be read nor decoded.
    pub fn tile(
        &self,
        file: SetFile,
        nth: usize,
        scratch: &mut TileScratch,
    ) -> Result<Vec<u8>, SetError> {
        let member = self.member(file.1)?;
        match self.read(member, file, nth, scratch) {
            Some(bytes) => Ok(bytes),
            None => self.decode(member, file, nth, scratch),
        }
    }

    /// Finds the group of a PE, and the length of its lines.
    fn member(&self, pe: Pe) -> Result<Member<'_>, SetError> {
        let place = |group: &GroupLayout| group.members.iter().position(|&member| member == pe);
        let found = self.groups.iter().find_map(|group| Some((group, place(group)?)));
        let (group, place) = found.ok_or_else(|| self.lacks(pe, "it has no parity"))?;
        let of_data = |pe: Pe| self.data(pe).map(|file| file.head.memory_len());
        let of_parity = |pe: Pe| self.parity(pe).map(|file| file.head.line);
        let line = group.members.iter().find_map(|&pe| of_data(pe).or_else(|| of_parity(pe)));
        let line = line.ok_or_else(|| self.lacks(pe, "no file of its group is intact"))? as usize;
        Ok(Member { group, place, line })
    }

    fn lacks(&self, pe: Pe, why: &str) -> SetError {
        let set = self.set.number;
        SetError::Incomplete(format!("set {set}: the data of PE {pe} is not whole, and {why}"))
    }

    /// Reads a tile from its file, if that is intact there.
    fn read(
        &self,
        member: Member<'_>,
        (content, pe): SetFile,
        nth: usize,
        scratch: &mut TileScratch,
    ) -> Option<Vec<u8>> {
        match content {
            Content::Data => {
                let file = self.data(pe)?;
                let fits = file.head.memory_len() == member.line as u64;
                fits.then(|| of_line(file, nth, scratch))?
            }
            Content::Parity => {
                let file = self.parity(pe)?;
                let len = member.group.parity_len(member.place, member.line);
                let fits =
                    file.head.line == member.line as u64 && file.head.sums.len() * TILE == len;
                fits.then(|| Some(file.tile(nth, scratch).ok()?.to_vec()))?
            }
        }
    }

    /// Decodes a tile from the other shards of its stripe, as far as they can be read.
    fn decode(
        &self,
        member: Member<'_>,
        (content, pe): SetFile,
        nth: usize,
        scratch: &mut TileScratch,
    ) -> Result<Vec<u8>, SetError> {
        let (Member { group, place, .. }, chunk) = (member, member.chunk().max(1));
        let layout = &group.layout;
        let found = match content {
            Content::Data if nth / chunk < layout.chunks() => {
                let at = layout.place_of(place, nth / chunk);
                Some((at.stripe, at.index))
            }
            Content::Data => None,
            Content::Parity => layout.parities_of(place).get(nth / chunk).map(|parity| {
                let Parity { stripe, row } = *parity;
                (stripe, layout.stripes()[stripe].data.len() + row)
            }),
        };
        let (stripe, want) = found.ok_or_else(|| self.lacks(pe, "it is shorter than that"))?;
        let mut lost = vec![false; layout.stripes()[stripe].holders().count()];
        lost[want] = true;
        loop {
            let plan = group.codes[stripe].plan(&lost, want);
            let plan =
                plan.map_err(|_| self.lacks(pe, "more is missing than its parity covers"))?;
            let mut shards = Vec::new();
            for &shard in plan.sources() {
                match self.shard(member, (stripe, shard), nth % chunk, scratch) {
                    Some(bytes) => shards.push(bytes),
                    None => lost[shard] = true,
                }
            }
            if shards.len() == plan.sources().len() {
                let shards: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
                let mut tile = vec![0; TILE];
                let decoded = plan.apply(&shards, &mut tile);
                return match decoded {
                    Ok(()) => Ok(tile),
                    Err(error) => Err(self.lacks(pe, &error.to_string())),
                };
            }
        }
    }

    /// Reads a tile of a shard of a stripe, if it is intact.
    fn shard(
        &self,
        member: Member<'_>,
        (stripe, shard): (usize, usize),
        nth: usize,
        scratch: &mut TileScratch,
    ) -> Option<Vec<u8>> {
        let (group, chunk) = (member.group, member.chunk());
        let stripe = &group.layout.stripes()[stripe];
        let (content, place, part) = match shard.checked_sub(stripe.data.len()) {
            None => (Content::Data, stripe.data[shard].member, stripe.data[shard].chunk),
            Some(row) => (Content::Parity, stripe.parity[row].member, stripe.parity[row].slot),
        };
        let holder = Member { place, ..member };
        self.read(holder, (content, group.members[place]), part * chunk + nth, scratch)
    }
}

/// Reads a tile of the line of a PE from its file.
fn of_line(file: &PeFile<Head>, nth: usize, scratch: &mut TileScratch) -> Option<Vec<u8>> {
    let (begin, len) = (&file.head.begin, file.head.memory_len() as usize);
    let [from, end] = [nth, nth + 1].map(|nth| (nth * TILE).min(len));
    let mut tile = begin[from.min(begin.len())..end.min(begin.len())].to_vec();
    let [from, end] = [from, end].map(|at| at.saturating_sub(begin.len()));
    for nth in from / TILE..end.div_ceil(TILE) {
        let bytes = file.tile(nth, scratch).ok()?;
        let inside = |at: usize| at.saturating_sub(nth * TILE).min(bytes.len());
        tile.extend_from_slice(&bytes[inside(from)..inside(end)]);
    }
    tile.resize(TILE, 0);
    Some(tile)
}

/// A line or the parity of a PE, as the writer of its file reads it.
pub struct DecodedFile<'a> {
    decoder: &'a Decoder,
    file: SetFile,
    line: usize,
    len: usize,
    scratch: RefCell<TileScratch>,
}

impl DecodedFile<'_> {
    /// Opens what a file holds.
    ///
    /// # Errors
    /// No file of its group has an intact head.
    pub fn new<'a>(decoder: &'a Decoder, file: SetFile) -> Result<DecodedFile<'a>, SetError> {
        let (line, len) = (decoder.len((Content::Data, file.1))?, decoder.len(file)?);
        Ok(DecodedFile { decoder, file, line, len, scratch: RefCell::default() })
    }
}

impl TileSource for DecodedFile<'_> {
    fn line(&self) -> usize {
        self.line
    }

    fn len(&self) -> usize {
        self.len
    }

    fn tile(&self, nth: usize) -> Result<Vec<u8>, Failure> {
        let tile = self.decoder.tile(self.file, nth, &mut self.scratch.borrow_mut());
        let mut tile = tile.map_err(|error| Failure::Refused(error.to_string()))?;
        tile.truncate(self.len.saturating_sub(nth * TILE));
        Ok(tile)
    }
}
