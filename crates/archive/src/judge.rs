//! The judgement of a set: from the state of each of its files to the decision if all of its data
//! can be read or decoded. Resuming, verifying and repairing all ask it.

use raidshmem_core::disk::{Content, Damage};
use raidshmem_core::plan::{self, StoreFinding, bits};
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::protection::GroupLayout;

use crate::manifest::Manifest;

/// The state of a file of a set.
#[derive(Debug, Clone, Copy)]
pub enum FileState<'a> {
    /// All that was read of it is intact.
    Whole,
    /// Some of it, or all, is damaged.
    Damaged(&'a Damage),
    /// It is on no disk.
    Missing,
}

impl<'a> FileState<'a> {
    fn damage(self) -> Option<&'a Damage> {
        match self {
            FileState::Damaged(damage) => Some(damage),
            FileState::Whole | FileState::Missing => None,
        }
    }

    /// Returns a bit mask of the chunks, of `parts` equal ones, that the file cannot fill.
    fn unusable(self, parts: usize) -> u64 {
        let damage = match self {
            FileState::Whole => return 0,
            FileState::Missing => return bits(parts),
            FileState::Damaged(damage) => damage,
        };
        let Some(tiles) = &damage.tiles else { return bits(parts) };
        let each = damage.all.div_ceil(parts.max(1) as u64).max(1);
        tiles.iter().fold(0, |bits, tile| bits | 1 << (tile / each).min(63))
    }
}

/// The files of a set, each with its state.
pub type States<'a> = dyn Fn(Content, Pe) -> FileState<'a> + 'a;

/// Judges a set by the state of its files. `groups` are those of its parity, if that can be used.
///
/// # Errors
/// Some data of it can neither be read nor decoded: the reason, as text.
pub fn judge(
    manifest: &Manifest,
    groups: Option<&[GroupLayout]>,
    states: &States,
) -> Result<(), String> {
    let all = || Pe::all(manifest.entries.len());
    let first = |content| all().find_map(|pe| states(content, pe).damage());
    if let Some(groups) = groups {
        let damage = || first(Content::Data).or_else(|| first(Content::Parity));
        return decodable(groups, states).map_err(|why| match damage() {
            Some(damage) => format!("{why} ({})", damage.why),
            None => why,
        });
    }
    let is_lost = |pe: &Pe| matches!(states(Content::Data, *pe), FileState::Missing);
    let lost: Vec<Pe> = all().filter(is_lost).collect();
    let parity = match manifest.parity {
        Some(_) => "its parity is of another mode",
        None => "it has no parity",
    };
    match first(Content::Data) {
        _ if !lost.is_empty() => Err(format!("no disk has {}, and {parity}", Pe::names(&lost))),
        Some(damage) => Err(damage.why.clone()),
        None => Ok(()),
    }
}

/// Checks that every stripe of each group can be decoded.
fn decodable(groups: &[GroupLayout], states: &States) -> Result<(), String> {
    for (group, shape) in groups.iter().enumerate() {
        let finding = |(place, &pe): (usize, &Pe)| {
            let (data, parity) = (states(Content::Data, pe), states(Content::Parity, pe));
            let is_missing = |state| matches!(state, FileState::Missing);
            StoreFinding {
                snapshot: data.unusable(shape.layout.chunks()),
                parity: parity.unusable(shape.layout.parities_of(place).len()),
                empty: is_missing(data) && is_missing(parity),
            }
        };
        let findings: Vec<StoreFinding> = shape.members.iter().enumerate().map(finding).collect();
        plan::check(group, &shape.layout, &shape.members, &findings, true)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
