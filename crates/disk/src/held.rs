//! The checkpoint files on the disk of this host, for checkpoints that lie on the disks of their
//! nodes.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_core::disk::{Content, Damage, Entry, Held};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_sys::pool::WorkerPool;

use super::files::{PeFile, PeHead, SetError};
use super::sets;

/// Maximum number of damaged tiles reported individually; with more, the whole file is damaged.
const NAMED_MAX: usize = 1 << 16;

/// Lists the sets, and folders that may become sets although the job that wrote them was killed.
/// Unreadable ones are omitted.
pub fn list(folder: &Path) -> Vec<Held> {
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for (_, node) in sets::node_folders(folder).unwrap_or_default() {
        for set in sets::list(&node).unwrap_or_default() {
            let bytes = sets::manifest_bytes(&set.folder).unwrap_or_default();
            let manifest = Manifest::decode(&bytes).ok();
            let of = manifest.as_ref().map(|it| it.owner(Pe(0)));
            let (found, files) = files(&set.folder).unzip();
            let Some(owner) = of.or(found) else { continue };
            // Send each manifest once.
            let is_new = manifest.is_some() && known.insert((owner.job, owner.number));
            let bytes = if is_new { bytes } else { Vec::new() };
            let files = files.unwrap_or_default();
            all.push(held(set.folder, owner, Some((set.number, bytes)), files));
        }
        for part in sets::parts(&node).unwrap_or_default() {
            let Some((owner, files)) = files(&part) else { continue };
            all.push(held(part, owner, None, files));
        }
    }
    all
}

/// Deletes all but the newest `keep` checkpoints of all nodes here and those they refer to, and
/// leftovers of killed jobs; returns the numbers of the deleted sets. A folder that may be a set on
/// another disk stays.
///
/// # Errors
/// The first deletion that failed.
pub fn prune(folder: &Path, keep: usize) -> Result<Vec<u64>, SetError> {
    let (all, mut sets) = (list(folder), BTreeMap::new());
    for held in &all {
        if let Some((set, _)) = held.set {
            let number = sets.entry((held.job, held.number)).or_insert(set);
            *number = set.max(*number);
        }
    }
    let mut newest: Vec<((u64, CheckpointNumber), u64)> = sets.into_iter().collect();
    newest.sort_by_key(|&(_, set)| Reverse(set));
    newest.truncate(keep);
    let is_newest = |held: &Held| newest.iter().any(|&(id, _)| id == (held.job, held.number));
    let manifest = |held: &Held| Manifest::decode(&held.set.as_ref()?.1).ok();
    let needed = sets::bases(all.iter().filter(|held| is_newest(held)).filter_map(manifest));
    let stays = |held: &&Held| {
        let is_kept = is_newest(held) || needed.contains(&(held.job, held.number));
        let first = newest.first().map(|&(id, _)| id);
        is_kept || first.is_some_and(|(job, number)| held.job == job && held.number > number)
    };
    let stay: BTreeSet<PathBuf> =
        all.iter().filter(stays).map(|held| PathBuf::from(&held.folder)).collect();
    let mut gone = BTreeSet::new();
    for (_, node) in sets::node_folders(folder)? {
        for set in sets::list(&node)?.iter().filter(|set| !stay.contains(&set.folder)) {
            sets::delete(set)?;
            gone.insert(set.number);
        }
        sets::delete_leftovers(&node, &stay)?;
        let _ = std::fs::remove_dir(&node); // a node that has nothing left
    }
    Ok(gone.into_iter().rev().collect())
}

/// Reads every byte of the files in these folders; returns the damages.
pub fn check(folders: &[String], pool: &WorkerPool) -> Vec<Damage> {
    let mut found = Vec::new();
    for folder in folders {
        let folder = Path::new(folder);
        let Some((_, files)) = files(folder) else { continue };
        for (content, pe, _) in files {
            let damage = match content {
                Content::Data => damage::<Head>(folder, pe, PeFile::open(folder, pe), Some(pool)),
                Content::Parity => {
                    damage::<ParityHead>(folder, pe, PeFile::open(folder, pe), Some(pool))
                }
            };
            found.extend(damage);
        }
    }
    found
}

/// Returns the damage of a file, if any; without a pool, of its head.
pub fn damage<H: PeHead + Sync>(
    folder: &Path,
    pe: Pe,
    opened: Result<PeFile<H>, SetError>,
    pool: Option<&WorkerPool>,
) -> Option<Damage> {
    let damage = |tiles, all, why: &SetError| {
        let (folder, why) = (folder.display().to_string(), why.to_string());
        Damage { folder, content: H::CONTENT, pe, tiles, all, why }
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Some(damage(None, 0, &error)),
    };
    let damages = sets::damages(&file, pool?);
    let (_, first) = damages.first_key_value()?;
    let (mut tiles, all) = file.head.in_memory(&mut damages.keys().copied());
    tiles.dedup(); // two tiles of the file may be in one
    let few = Some(tiles).filter(|tiles| tiles.len() <= NAMED_MAX);
    Some(damage(few, all, first))
}

type Files = Vec<(Content, Pe, Entry)>;

fn held(folder: PathBuf, owner: Owner, set: Option<(u64, Vec<u8>)>, files: Files) -> Held {
    let Owner { job, number, .. } = owner;
    Held { folder: folder.display().to_string(), job, number, set, files }
}

/// Returns the files that a folder holds by their names.
pub fn names(folder: &Path) -> Vec<(Content, Pe)> {
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let number = |prefix| name.strip_prefix(prefix)?.parse().ok().map(Pe);
        let data = number("pe-").map(|pe| (Content::Data, pe));
        data.or_else(|| Some((Content::Parity, number("parity-")?)))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().filter_map(file).collect()
}

/// Returns the files of a folder with valid heads that belong to one checkpoint, and its owner.
fn files(folder: &Path) -> Option<(Owner, Files)> {
    let (mut first, mut files) = (None, Vec::new());
    for (content, pe) in names(folder) {
        let looked = match content {
            Content::Data => look::<Head>(folder, pe),
            Content::Parity => look::<ParityHead>(folder, pe),
        };
        let Some((content, owner, entry)) = looked else { continue };
        let Owner { job, number, .. } = *first.get_or_insert(owner);
        if (owner.job, owner.number) == (job, number) {
            files.push((content, owner.pe, entry));
        }
    }
    Some((first?, files))
}

fn look<H: PeHead>(folder: &Path, pe: Pe) -> Option<(Content, Owner, Entry)> {
    let opened = PeFile::<H>::open(folder, pe).ok()?;
    let owner = H::owner(&opened.head);
    (owner.pe == pe).then_some((H::CONTENT, owner, opened.entry))
}
