//! What the disk of this host has of checkpoints that lie on the disks of their nodes.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use raidshmem_archive::manifest::Manifest;
use raidshmem_archive::owner::Owner;
use raidshmem_archive::parity::ParityHead;
use raidshmem_archive::part::Head;
use raidshmem_core::disk::{Content, Entry, Held};
use raidshmem_core::quantity::Pe;

use super::files::{PeFile, PeHead};
use super::sets;

/// All of it: sets, and what may become some though the job that wrote it was killed. What cannot
/// be read is not there.
pub fn list(folder: &Path) -> Vec<Held> {
    let (mut all, mut told) = (Vec::new(), BTreeSet::new());
    for (_, node) in sets::node_folders(folder).unwrap_or_default() {
        for set in sets::list(&node).unwrap_or_default() {
            let bytes = sets::manifest_bytes(&set.folder).unwrap_or_default();
            let manifest = Manifest::decode(&bytes).ok();
            let of = manifest.as_ref().map(|it| it.owner(Pe(0)));
            let (found, files) = files(&set.folder).unzip();
            let Some(owner) = of.or(found) else { continue };
            // Once is enough.
            let is_new = manifest.is_some() && told.insert((owner.job, owner.number));
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

type Files = Vec<(Content, Pe, Entry)>;

fn held(folder: PathBuf, owner: Owner, set: Option<(u64, Vec<u8>)>, files: Files) -> Held {
    let Owner { job, number, .. } = owner;
    Held { folder: folder.display().to_string(), job, number, set, files }
}

/// The files of a folder whose heads hold and that are of one checkpoint, and of which.
fn files(folder: &Path) -> Option<(Owner, Files)> {
    let (mut first, mut files) = (None, Vec::new());
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let number = |prefix| name.strip_prefix(prefix)?.parse().ok().map(Pe);
        let looked = match (number("pe-"), number("parity-")) {
            (Some(pe), _) => look::<Head>(folder, pe),
            (_, Some(pe)) => look::<ParityHead>(folder, pe),
            _ => None,
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
