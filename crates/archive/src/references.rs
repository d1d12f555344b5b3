//! The references of a file to files of earlier sets: a tile that has not changed since is read
//! there.
//!
//! ```text
//! set 1: A0 B0 C0      set 2: A0 B1 C0      set 3: A0 B1 C2      ->   set 3 has C2, and refers
//!        |  |  |              1  |  1              1  2  |            to set 1 and to set 2
//! ```
//!
//! A reference names the file that holds the tile, so references do not follow one another.
//!
//! Invariants of decoded ones: the files are of earlier checkpoints, in their order, and every tile
//! is in one of them or here; so nothing refers to itself, directly or not.
//!
//! Left out: opening the files, and the digests of tiles.

use std::collections::BTreeSet;

use raidshmem_core::disk::Entry;
use raidshmem_core::mutant::{Mutant, breaks};
use raidshmem_core::quantity::{CheckpointNumber, TileIndex};

use crate::bytes::{Reader, Writer};
use crate::error::FormatError;
use crate::owner::Owner;

/// The most files that a file refers to. A chain has one set more: the schedule counts its sets,
/// also those that no file refers to any longer, and the next is whole.
pub const BASES_MAX: usize = 7;

/// The file of the same PE in an earlier set of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// The checkpoint of that set.
    pub number: CheckpointNumber,
    /// Its length in bytes and the checksum of its head, which has that of each tile.
    pub entry: Entry,
}

/// The places of the tiles of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// The files that it refers to, oldest first.
    pub bases: Vec<Base>,
    /// The place of each tile: 0 in this file, or k at the same index in the k-th base. Empty
    /// without bases.
    pub sources: Vec<u8>,
}

impl References {
    /// Makes references to these files, with all of `tiles` tiles here.
    pub fn new(bases: Vec<Base>, tiles: usize) -> References {
        let sources = vec![0; if bases.is_empty() { 0 } else { tiles }];
        References { bases, sources }
    }

    /// Returns the bases with a tile of the file, each with its number in `sources`.
    pub fn used(&self) -> impl Iterator<Item = (u8, &Base)> {
        let sources: BTreeSet<u8> = self.sources.iter().copied().collect();
        (1..).zip(&self.bases).filter(move |(nth, _)| sources.contains(nth))
    }

    /// Writes them, if there are any.
    pub(crate) fn write(&self, out: &mut Writer) {
        if self.bases.is_empty() {
            return;
        }
        out.count(self.bases.len());
        for Base { number, entry } in &self.bases {
            out.u64(number.0);
            out.u64(entry.len);
            out.u32(entry.sum);
        }
        out.run(&self.sources);
    }

    /// Reads those of the file of `owner`.
    pub(crate) fn read(body: &mut Reader<'_>, owner: &Owner) -> Result<References, FormatError> {
        if !body.refers() {
            return Ok(References::default());
        }
        let bases = body.list(20, |body| {
            let number = CheckpointNumber(body.u64()?);
            Ok(Base { number, entry: Entry { len: body.u64()?, sum: body.u32()? } })
        })?;
        let numbers: Vec<CheckpointNumber> = bases.iter().map(|base| base.number).collect();
        check(&numbers, owner.number)?;
        let sources = body.run()?.to_vec();
        match sources.iter().all(|&source| usize::from(source) <= bases.len()) {
            true => Ok(References { bases, sources }),
            false => Err(FormatError::Impossible("a reference to no file")),
        }
    }
}

/// Checks the checkpoints that one refers to.
///
/// # Errors
/// They are missing, too many, or not earlier ones in their order.
pub(crate) fn check(bases: &[CheckpointNumber], of: CheckpointNumber) -> Result<(), FormatError> {
    let in_order = bases.is_sorted_by(|one, next| one < next);
    match () {
        () if bases.len() > BASES_MAX => Err(FormatError::Impossible("references to 8 sets")),
        () if !in_order || bases.last().is_none_or(|&last| last >= of) => {
            Err(FormatError::Impossible("a reference to a set that is not an earlier one"))
        }
        () => Ok(()),
    }
}

/// Knowledge of a file that was written, so that the file of the next set has only what changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    owner: Owner,
    /// The files that hold its tiles, the last of them perhaps this one.
    bases: Vec<Base>,
    /// The digest of each tile, and the base that holds it, from 1; None if no base does.
    tiles: Vec<Option<(u128, u8)>>,
}

impl Past {
    /// Remembers a file with its entry, its references, and the digests of its tiles.
    pub fn new(owner: Owner, entry: Entry, references: &References, digests: &[u128]) -> Past {
        let (mut bases, mut renumbered) = (Vec::new(), [0; u8::MAX as usize + 1]);
        for (nth, base) in references.used() {
            bases.push(*base);
            renumbered[usize::from(nth)] = bases.len() as u8;
        }
        if references.bases.is_empty() || references.sources.contains(&0) {
            bases.push(Base { number: owner.number, entry });
            renumbered[0] = bases.len() as u8;
        }
        let source = |nth: usize| usize::from(references.sources.get(nth).copied().unwrap_or(0));
        let tile = |(nth, &digest): (usize, &u128)| Some((digest, renumbered[source(nth)]));
        Past { owner, bases, tiles: digests.iter().enumerate().map(tile).collect() }
    }

    /// Returns what was remembered when the file of `owner` was written, as far as its references
    /// show that: `digests` are of the tiles that it refers to, None for those that it has. None
    /// without references.
    pub fn before(owner: Owner, references: &References, digests: &[Option<u128>]) -> Option<Past> {
        let number = references.bases.last()?.number;
        let tile = |(digest, &source): (&Option<u128>, &u8)| Some(((*digest)?, source));
        let tiles = digests.iter().zip(&references.sources).map(tile).collect();
        Some(Past { owner: Owner { number, ..owner }, bases: references.bases.clone(), tiles })
    }

    /// Returns the checkpoint of the file that this is remembered of.
    pub fn number(&self) -> CheckpointNumber {
        self.owner.number
    }

    /// Returns true if the file of `next` may refer to this one: it is that of `base`, the set that
    /// was written last.
    pub fn suits(&self, base: Option<CheckpointNumber>, next: &Owner) -> bool {
        let is_base = base.is_some_and(|number| self.owner == Owner { number, ..*next });
        is_base && self.owner.number < next.number && self.bases.len() <= BASES_MAX
    }

    /// Returns the references of the next file, of `tiles` tiles, before any is known.
    pub fn references(&self, tiles: usize) -> References {
        References::new(self.bases.clone(), tiles)
    }

    /// Returns the base that holds a tile with this digest, if it has not changed.
    pub fn source(&self, tile: TileIndex, digest: u128) -> Option<u8> {
        let is_known = |known: u128| known == digest || breaks(Mutant::DigestsIgnored);
        let held = self.tiles.get(tile.at()).copied().flatten();
        held.filter(|&(known, _)| is_known(known)).map(|(_, source)| source)
    }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::quantity::Pe;

    use super::*;

    fn owner(number: u64) -> Owner {
        let number = CheckpointNumber(number);
        Owner { job: 7, number, pe: Pe(1), n_pes: 2, heap_len: 1 << 20 }
    }

    fn entry(number: u64) -> Entry {
        Entry { len: 4096 * number, sum: number as u32 }
    }

    fn base(number: u64) -> Base {
        Base { number: CheckpointNumber(number), entry: entry(number) }
    }

    /// Writes a set like a node; returns its references and what is remembered of it.
    fn write(past: Option<&Past>, number: u64, digests: &[u128]) -> (References, Past) {
        let empty = References::default();
        let mut references = past.map_or(empty, |past| past.references(digests.len()));
        for (tile, &digest) in digests.iter().enumerate() {
            if let Some(source) = past.and_then(|past| past.source(TileIndex::of(tile), digest)) {
                references.sources[tile] = source;
            }
        }
        let past = Past::new(owner(number), entry(number), &references, digests);
        (references, past)
    }

    #[test]
    fn unchanged_tiles_refer_to_the_file_that_holds_them() {
        let (whole, first) = write(None, 1, &[10, 20, 30]);
        assert_eq!(whole, References::default());
        let (references, second) = write(Some(&first), 2, &[10, 21, 30]);
        assert_eq!((references.bases, references.sources), (vec![base(1)], vec![1, 0, 1]));
        let (references, third) = write(Some(&second), 4, &[10, 21, 32, 7]);
        assert_eq!(references.bases, [base(1), base(2)]);
        assert_eq!(references.sources, [1, 2, 0, 0], "a tile more is new");
        // Nothing is left of the first set: it is no base any more.
        let (references, fourth) = write(Some(&third), 5, &[11, 21, 32, 7]);
        assert_eq!(references.bases, [base(1), base(2), base(4)]);
        let used: Vec<u8> = references.used().map(|(nth, _)| nth).collect();
        assert_eq!((references.sources.as_slice(), used), (&[0, 2, 3, 3][..], vec![2, 3]));
        // Nothing changed: the file holds no tile, and is no base.
        let (references, fifth) = write(Some(&fourth), 6, &[11, 21, 32, 7]);
        assert_eq!(references.bases, [base(2), base(4), base(5)]);
        assert_eq!(references.sources, [3, 1, 2, 2]);
        assert_eq!(fifth.references(1).bases, references.bases);
        let (references, _) = write(Some(&fifth), 7, &[20, 10]);
        assert_eq!(references.sources, [0, 0], "a tile that moved has changed");
    }

    /// A file of which only the head is left is written again with the references that it had.
    #[test]
    fn the_references_of_a_file_show_what_it_was_written_after() {
        let (whole, first) = write(None, 1, &[10, 20, 30]);
        let (_, second) = write(Some(&first), 2, &[11, 20, 31]);
        let digests = [12, 20, 31];
        let (references, _) = write(Some(&second), 4, &digests);
        assert_eq!((references.bases.len(), references.sources.as_slice()), (2, &[0, 1, 2][..]));
        let known = [None, Some(20), Some(31)];
        let before = Past::before(owner(4), &references, &known).expect("it refers to others");
        assert!(before.suits(Some(before.number()), &owner(4)));
        assert_eq!(write(Some(&before), 4, &digests).0, references);
        // The list is as it was even if no tile of the first file is needed.
        let (references, _) = write(Some(&second), 4, &[12, 21, 31]);
        let before = Past::before(owner(4), &references, &[None, None, Some(31)]);
        assert_eq!(write(before.as_ref(), 4, &[12, 21, 31]).0, references);
        assert_eq!(Past::before(owner(1), &whole, &[]), None);
    }

    #[test]
    fn only_the_set_written_last_by_the_same_job_is_a_base() {
        let (_, past) = write(None, 4, &[1, 2]);
        let base = |number| Some(CheckpointNumber(number));
        assert!(past.suits(base(4), &owner(5)));
        assert!(!past.suits(None, &owner(5)), "a whole set is asked for");
        assert!(!past.suits(base(3), &owner(5)), "another was written last");
        assert!(!past.suits(base(4), &owner(4)) && !past.suits(base(4), &owner(3)));
        let others: [fn(&mut Owner); 4] =
            [|it| it.job = 8, |it| it.pe = Pe(0), |it| it.n_pes = 3, |it| it.heap_len = 2 << 20];
        for change in others {
            let mut other = owner(5);
            change(&mut other);
            assert!(!past.suits(base(4), &other), "{other:?}");
        }
        let mut digests: Vec<u128> = (0..20).collect();
        let mut last = write(None, 1, &digests).1;
        for number in 2..=BASES_MAX as u64 + 1 {
            assert!(last.suits(base(number - 1), &owner(number)), "{number}");
            digests[number as usize] += 100;
            last = write(Some(&last), number, &digests).1;
        }
        assert!(!last.suits(base(8), &owner(9)), "the ninth is whole");
    }
}
