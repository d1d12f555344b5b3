//! A copy of a set in another folder that refers to no other set: every block is in its files.
//! Missing and damaged ones are decoded, if the set has parity.
//!
//! Invariants: nothing is overwritten; a copy that fails leaves no set.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use raidshmem_archive::manifest::{Manifest, Parity};
use raidshmem_archive::part::Head;
use raidshmem_archive::references::References;
use raidshmem_core::disk::{Content, Entry, Failure, Files};
use raidshmem_core::layout::TILE;
use raidshmem_core::quantity::Pe;

use super::decode::{DecodedFile, Decoder};
use super::files::{SetError, TileScratch, io_at};
use super::output::{Begin, Piece};
use super::sets;
use super::write::{Order, Pasts, read_parity, transfer};

/// The level at which tiles are compressed again: zstd's own choice.
const LEVEL: u32 = 3;
/// Tiles that are read ahead of the one that is written.
const AHEAD: usize = 16;

/// Copies a set to the folder `to`; returns the new folders of the set.
///
/// # Errors
/// The checkpoint is there already, or a block can neither be read nor decoded.
pub fn copy(decoder: &Decoder, to: &Path) -> Result<Vec<PathBuf>, SetError> {
    let manifest = &decoder.set().manifest;
    fs::create_dir_all(to).map_err(io_at(to))?;
    let is_it = |it: &Manifest| (it.job, it.number) == (manifest.job, manifest.number);
    if sets::everywhere(to)?.iter().any(|set| set.manifest().is_ok_and(|it| is_it(&it))) {
        return Err(SetError::Strange { path: to.to_owned(), why: "it has this checkpoint" });
    }
    let mut homes: BTreeMap<PathBuf, Vec<Pe>> = BTreeMap::new();
    for pe in Pe::all(manifest.entries.len()) {
        homes.entry(home(decoder, to, pe)).or_default().push(pe);
    }
    let mut parts = Vec::new();
    let copied = write_all(decoder, &homes, &mut parts);
    if copied.is_err() {
        // A folder that is left is never taken for a set.
        parts.iter().for_each(|part| _ = fs::remove_dir_all(part));
    }
    copied
}

/// Returns the folder for the set's part with the files of a PE: that of its node, if it has one.
fn home(decoder: &Decoder, to: &Path, pe: Pe) -> PathBuf {
    let set = decoder.set();
    if set.manifest.parity.is_none() {
        return to.to_owned();
    }
    let node = set.home((Content::Data, pe)).and_then(|home| home.parent()?.file_name()?.to_str());
    let node = node.filter(|name| name.starts_with("node-"));
    node.map_or_else(|| sets::node_folder(to, pe.0), |name| to.join(name))
}

fn write_all(
    decoder: &Decoder,
    homes: &BTreeMap<PathBuf, Vec<Pe>>,
    parts: &mut Vec<PathBuf>,
) -> Result<Vec<PathBuf>, SetError> {
    let (set, mut all) = (decoder.set(), Files::default());
    let compressed = |pe| decoder.data(pe).is_some_and(|file| !file.head.stored.is_empty());
    let is_compressed = Pe::all(set.manifest.entries.len()).any(compressed);
    let order = decoder.order(if is_compressed { LEVEL } else { 0 });
    for (home, pes) in homes {
        let part = sets::part_folder(home, set.manifest.job, set.manifest.number);
        fs::create_dir_all(home).map_err(io_at(home))?;
        fs::create_dir(&part).map_err(io_at(&part))?;
        parts.push(part.clone());
        let _held = sets::hold(&part)?;
        let stop = AtomicU64::new(0);
        let read = |pieces: SyncSender<Piece>| {
            pes.iter().try_for_each(|&pe| read(decoder, &order, pe, &pieces, &stop))
        };
        let files = transfer(&order, (&part, &mut Pasts::new()), AHEAD, &stop, read);
        let (files, ()) = files.map_err(|failure| match failure {
            Failure::Refused(why) => SetError::Incomplete(why),
            _ => SetError::Incomplete("it cannot be copied".into()), // nothing else can be
        })?;
        sets::sync(&part)?;
        all.data.extend(files.data);
        all.parity.extend(files.parity);
        all.raw += files.raw;
    }
    let entries = |mut files: Vec<(Pe, Entry)>| {
        files.sort_by_key(|(pe, _)| *pe);
        files.into_iter().map(|(_, entry)| entry).collect()
    };
    let code = set.manifest.parity.as_ref().map(|parity| parity.code.clone());
    let manifest = Manifest {
        entries: entries(all.data),
        raw: is_compressed.then_some(all.raw),
        bases: Vec::new(),
        parity: code.map(|code| Parity { code, entries: entries(all.parity) }),
        ..set.manifest.clone()
    };
    let bytes = manifest.encode();
    let number = homes.keys().map(|home| sets::next(home)).max().unwrap_or(1);
    // In an empty folder it keeps its number.
    let number = if number > 1 { number } else { set.number.max(1) };
    let commit = |(home, part): (&PathBuf, &PathBuf)| {
        let number = sets::commit(home, part, &bytes, number)?;
        Ok(home.join(format!("set-{number}")))
    };
    homes.keys().zip(&*parts).map(commit).collect()
}

/// Sends all that the files of a PE hold.
fn read(
    decoder: &Decoder,
    order: &Order,
    pe: Pe,
    pieces: &SyncSender<Piece>,
    stop: &AtomicU64,
) -> Result<(), Failure> {
    let refused = |error: SetError| Failure::Refused(error.to_string());
    let head = decoder.head(pe).map_err(refused)?.into_owned();
    let (len, mut scratch) = (head.data_len(), TileScratch::default());
    let tiles = len.div_ceil(TILE as u64) as usize;
    let (stored, references) = (order.stored(tiles), References::default());
    let head = Head { stored, references, sums: vec![0; tiles], ..head };
    let mut sent = pieces.send(Piece::Begin(pe, Begin::Data(Box::new(head.clone()))));
    for at in (0..len).step_by(TILE) {
        if sent.is_err() {
            return Ok(()); // the receiver reports the reason
        }
        let mut bytes = vec![0; (len - at).min(TILE as u64) as usize];
        decoder.data_bytes(&head, at, &mut bytes, &mut scratch).map_err(refused)?;
        sent = pieces.send(Piece::Tile(bytes));
    }
    if order.parity.is_empty() {
        return Ok(());
    }
    let parity = DecodedFile::new(decoder, (Content::Parity, pe)).map_err(refused)?;
    read_parity(order, pe, &parity, pieces, stop)
}
