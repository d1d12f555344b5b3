//! Reading of the objects of a set by a job of any number of PEs: a program distributes them anew
//! by itself.
//!
//! A set is opened by the heads of its files; each byte that is read is verified then. Bytes of
//! missing or damaged files are decoded, if the set has parity.
//!
//! Invariants: nothing is written; hostile files give an error.
//!
//! Left out: collective calls. Each process reads for itself.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use raidshmem_archive::objects::{SetObject, SetObjects, saved};
use raidshmem_archive::part::{Area, Extent, Head};
use raidshmem_core::quantity::Pe;

use super::decode::Decoder;
use super::examine::StoredSet;
use super::files::{SetError, TileScratch, format_at};
use super::sets;

/// The reasons why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or a folder cannot be used.
    #[error("{0}")]
    Set(#[from] SetError),
    /// There is no set to read.
    #[error("{folder}: {why}")]
    None {
        /// The folder.
        folder: String,
        /// The reason.
        why: String,
    },
    /// The set is of fewer PEs.
    #[error("set {set} is of {pes} PEs, and has no PE {pe}")]
    Pe {
        /// The number of the set.
        set: u64,
        /// The number of its PEs.
        pes: usize,
        /// The PE asked for.
        pe: Pe,
    },
    /// No object has that name.
    #[error("set {set} has no object {name}")]
    Name {
        /// The number of the set.
        set: u64,
        /// The name.
        name: String,
    },
    /// The object is shorter.
    #[error("{name} of PE {pe} has {found} bytes in set {set}, not {len} at {offset}")]
    Length {
        /// The number of the set.
        set: u64,
        /// The name.
        name: String,
        /// The PE.
        pe: Pe,
        /// The bytes of the object.
        found: u64,
        /// The bytes asked for.
        len: u64,
        /// Their offset.
        offset: u64,
    },
    /// The program excluded the bytes from its checkpoints.
    #[error("{name} of PE {pe} is not in set {set} from byte {at} on: it was left out")]
    LeftOut {
        /// The number of the set.
        set: u64,
        /// The name.
        name: String,
        /// The PE.
        pe: Pe,
        /// The first byte that was left out.
        at: u64,
    },
}

/// A set that is open for reading.
pub struct SetReader {
    decoder: Decoder,
    /// The memory of each PE that was asked for.
    pes: Vec<OnceLock<PeMemory>>,
}

/// The description of the memory of a PE.
struct PeMemory {
    head: Head,
    objects: SetObjects,
}

impl SetReader {
    /// Opens `DIR@7`, or the newest set in `DIR` whose files are there or can be decoded.
    ///
    /// # Errors
    /// There is none.
    pub fn open(given: &str) -> Result<SetReader, ReadError> {
        let (folder, number) = sets::split(given);
        let none = |why: String| ReadError::None { folder: folder.display().to_string(), why };
        let mut passed = None;
        for set in StoredSet::list(&folder)? {
            if number.is_some_and(|number| set.number != number) {
                continue;
            }
            match set.judge(true) {
                Ok(()) => return SetReader::of(set),
                Err(error) => _ = passed.get_or_insert(format!("set {}: {error}", set.number)),
            }
        }
        let named = number.map(|number| format!("there is no set {number}"));
        let missing = named.unwrap_or_else(|| "there is no complete checkpoint".to_owned());
        Err(none(passed.unwrap_or(missing)))
    }

    fn of(set: StoredSet) -> Result<SetReader, ReadError> {
        let pes = set.manifest.entries.iter().map(|_| OnceLock::new()).collect();
        Ok(SetReader { decoder: Decoder::new(set)?, pes })
    }

    /// Returns the files of the set.
    pub(super) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Returns the number of the set.
    pub fn number(&self) -> u64 {
        self.decoder.set().number
    }

    /// Returns the number of PEs that wrote the set.
    pub fn pes(&self) -> usize {
        self.pes.len()
    }

    /// Returns the objects of a PE. Those in symmetric memory are equal on all PEs.
    ///
    /// # Errors
    /// The set has no such PE, or its files cannot be read.
    pub fn objects(&self, pe: Pe) -> Result<&[SetObject], ReadError> {
        Ok(self.memory(pe)?.objects.all())
    }

    /// Finds an object of a PE.
    ///
    /// # Errors
    /// As above, or no object has that name.
    pub fn find(&self, name: &str, pe: Pe) -> Result<&SetObject, ReadError> {
        let missing = || ReadError::Name { set: self.number(), name: printable(name) };
        self.memory(pe)?.objects.find(name).ok_or_else(missing)
    }

    /// Checks that these bytes of an object of a PE are in the set; returns the ranges of its saved
    /// data that hold them.
    ///
    /// # Errors
    /// As above, the object is shorter, or the bytes were not saved.
    pub fn check(
        &self,
        name: &str,
        pe: Pe,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Range<u64>>, ReadError> {
        let (memory, object) = (self.memory(pe)?, self.find(name, pe)?);
        let (set, found) = (self.number(), object.len);
        let name = || printable(&object.name);
        let end = offset.checked_add(len).filter(|&end| end <= found);
        let end =
            end.ok_or_else(|| ReadError::Length { set, name: name(), pe, found, len, offset })?;
        let ranges = saved(&memory.head, object.place, offset..end);
        ranges.map_err(|at| ReadError::LeftOut { set, name: name(), pe, at })
    }

    /// Fills `bytes` from an object of a PE, starting at `offset`.
    ///
    /// # Errors
    /// As above, or the bytes can neither be read nor decoded.
    pub fn read(
        &self,
        name: &str,
        pe: Pe,
        offset: u64,
        mut bytes: &mut [u8],
    ) -> Result<(), ReadError> {
        let ranges = self.check(name, pe, offset, bytes.len() as u64)?;
        let (memory, mut scratch) = (self.memory(pe)?, TileScratch::default());
        for Range { start, end } in ranges {
            let (into, rest) = bytes.split_at_mut((end - start) as usize);
            self.decoder.data_bytes(&memory.head, start, into, &mut scratch)?;
            bytes = rest;
        }
        Ok(())
    }

    fn memory(&self, pe: Pe) -> Result<&PeMemory, ReadError> {
        let (set, pes) = (self.number(), self.pes.len());
        let memory = self.pes.get(pe.at()).ok_or(ReadError::Pe { set, pes, pe })?;
        if let Some(memory) = memory.get() {
            return Ok(memory);
        }
        let head = self.decoder.head(pe)?;
        let word = |at: u64| {
            let mut word = [0; 8];
            let is_static = |extent: &&Extent| extent.area == Area::Statics;
            let place = raidshmem_archive::objects::ObjectPlace::Memory(Area::Statics, at);
            head.extents.iter().find(is_static)?;
            let [range] = saved(&head, place, 0..8).ok()?.try_into().ok()?;
            let mut scratch = TileScratch::default();
            self.decoder.data_bytes(&head, range.start, &mut word, &mut scratch).ok()?;
            Some(u64::from_le_bytes(word))
        };
        let objects =
            SetObjects::of(&head, &word).map_err(format_at(Path::new("a decoded head")))?;
        let head = head.into_owned();
        Ok(memory.get_or_init(|| PeMemory { head, objects }))
    }
}

fn printable(name: &str) -> String {
    name.escape_debug().to_string()
}

#[cfg(test)]
mod tests;
