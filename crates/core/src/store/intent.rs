//! What all PEs bring to a checkpoint, compared: equal coverage, and memory for all of it.
//!
//! Every PE compares the same words, so every PE comes to the same answer.
//!
//! Invariant: memory is counted for each machine by itself, with the PEs that run there now.

use std::collections::BTreeMap;

use super::coverage::Coverage;
use crate::machine;
use crate::mutant::{Mutant, breaks};
use crate::status::PeerStatus;

/// A length that says: this PE cannot describe what it has to save.
pub const CANNOT: u64 = u64::MAX;

/// What a checkpoint must fit into, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Name of the mode.
    pub mode: &'static str,
    /// Room for a manifest.
    pub manifest: usize,
    /// Room for a snapshot.
    pub snapshot: usize,
    /// `SHMEM_FT_MEMORY_LIMIT`: what all stores of a machine may hold together.
    pub limit: Option<u64>,
}

/// Why a checkpoint cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the sentence of each variant speaks of its fields
pub enum Refusal {
    #[error(
        "PE {pe} has more allocations or registered private memory than the manifest holds \
         ({} KiB)", room >> 10
    )]
    Manifest { pe: usize, room: usize },
    #[error(
        "PEs 0 and {pe} have not allocated the same symmetric memory ({} and {} bytes live)",
        len.0, len.1
    )]
    Different { pe: usize, len: (u64, u64) },
    #[error(
        "PEs 0 and {pe} have not registered the same amount of private memory ({} and {} KiB in \
         whole pages, with what describes the heap)", len.0 >> 10, len.1 >> 10
    )]
    Private { pe: usize, len: (u64, u64) },
    #[error(
        "{who} {} MiB more memory for {mode}, and {whose} machine has {} MiB free",
        need >> 20, free >> 20
    )]
    Memory { who: String, whose: &'static str, mode: &'static str, need: u64, free: u64 },
    #[error(
        "{who} {:.1} MiB for {mode}, and SHMEM_FT_MEMORY_LIMIT allows \
         {:.1} MiB", mib(*hold), mib(*limit)
    )]
    Limit { who: String, mode: &'static str, hold: u64, limit: u64 },
    #[error("{len} bytes live, and the store holds {room} at most")]
    Store { len: u64, room: usize },
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Compares what the PEs posted, each of which runs on the machine of that number.
///
/// # Errors
/// The first reason not to make the checkpoint.
pub fn agree(posted: &[PeerStatus], machine_of: &[u32], bounds: &Bounds) -> Result<(), Refusal> {
    let len = posted[0].len;
    if let Some(pe) = posted.iter().position(|intent| intent.len == CANNOT) {
        return Err(Refusal::Manifest { pe, room: bounds.manifest });
    }
    let is_odd = |intent: &PeerStatus| (intent.digest, intent.len) != (posted[0].digest, len);
    if let Some(pe) = posted.iter().position(is_odd) {
        return Err(differ(pe, [&posted[0], &posted[pe]]));
    }
    if len > bounds.snapshot as u64 {
        return Err(Refusal::Store { len, room: bounds.snapshot });
    }
    let mut machines: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (pe, &machine) in machine_of.iter().enumerate() {
        let machine = if breaks(Mutant::MemoryOfTheJob) { 0 } else { machine };
        machines.entry(machine).or_default().push(pe);
    }
    machines.values().try_for_each(|pes| fits(posted, pes, bounds))
}

/// How PE `pe` differs from PE 0, by what the two posted.
fn differ(pe: usize, posted: [&PeerStatus; 2]) -> Refusal {
    let manifests = posted.map(|intent| Coverage::manifest_of(intent.digest));
    let symmetric = |at: usize| {
        let PeerStatus { digest, len, .. } = posted[at];
        (digest >> 32, len.saturating_sub(manifests[at]))
    };
    if symmetric(0) == symmetric(1) {
        Refusal::Private { pe, len: manifests.into() }
    } else {
        Refusal::Different { pe, len: (posted[0].len, posted[1].len) }
    }
}

/// Whether one machine has room for what its PEs take.
fn fits(posted: &[PeerStatus], pes: &[usize], bounds: &Bounds) -> Result<(), Refusal> {
    let of = |word: fn(&PeerStatus) -> u64| pes.iter().map(move |&pe| word(&posted[pe]));
    let need = of(|intent| intent.need).fold(0, u64::saturating_add);
    let hold = of(|intent| intent.hold).fold(0, u64::saturating_add);
    let free = of(|intent| intent.available).min().unwrap_or(u64::MAX);
    let (mode, shown) = (bounds.mode, machine::show(pes));
    let (needs, whose, takes) = match pes.len() {
        1 => (format!("PE {shown} needs"), "its", format!("PE {shown} takes")),
        _ => (format!("PEs {shown} need"), "their", format!("PEs {shown}, of one machine, take")),
    };
    match bounds.limit {
        _ if need > free => Err(Refusal::Memory { who: needs, whose, mode, need, free }),
        Some(limit) if hold > limit => Err(Refusal::Limit { who: takes, mode, hold, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds =
        Bounds { mode: "raid5", manifest: 4096, snapshot: 1 << 40, limit: Some(300 << 20) };

    fn posted(need: u64, available: u64) -> PeerStatus {
        let (need, available) = (need << 20, available << 20);
        PeerStatus {
            digest: 7 << 32,
            len: 1000,
            hold: need,
            need,
            available,
            ..PeerStatus::default()
        }
    }

    fn words(posted: &[PeerStatus], machine_of: &[u32]) -> String {
        agree(posted, machine_of, &BOUNDS)
            .map_or_else(|refusal| refusal.to_string(), |()| String::new())
    }

    /// Sixteen hosts with room for their own, and for no more.
    #[test]
    fn memory_is_counted_for_each_machine() {
        let posted = [posted(100, 210); 32];
        let of_two: Vec<u32> = (0..32).map(|pe| pe / 2).collect();
        assert_eq!(words(&posted, &of_two), "");
        let on_one = words(&posted, &[0; 32]);
        let expected = "PEs 0-31 need 3200 MiB more memory for raid5, and their machine has 210 \
            MiB free";
        assert_eq!(on_one, expected);
    }

    #[test]
    fn the_machine_that_is_short_is_named() {
        let (much, little) = (posted(100, 250), posted(100, 199));
        let mixed = [much, little, much, little, much];
        let expected = "PEs 1,3 need 200 MiB more memory for raid5, and their machine has 199 MiB \
            free";
        assert_eq!(words(&mixed, &[4, 1, 4, 1, 0]), expected);
        assert_eq!(words(&mixed, &[4, 1, 4, 0, 2]), "", "apart they fit");
        let alone = words(&[much, posted(300, 199)], &[0, 1]);
        let expected = "PE 1 needs 300 MiB more memory for raid5, and its machine has 199 MiB free";
        assert_eq!(alone, expected);
        let none = PeerStatus { available: u64::MAX, ..posted(0, 0) };
        assert_eq!(
            words(&[posted(190, 199), none], &[0, 0]),
            "",
            "who needs nothing has not looked"
        );
    }

    #[test]
    fn the_limit_is_that_of_a_machine() {
        let posted = [posted(100, 1000); 6];
        assert_eq!(words(&posted, &[0, 0, 0, 1, 1, 1]), "", "three times 100 MiB each");
        let expected = "PEs 0-1,3-4, of one machine, take 400.0 MiB for raid5, and \
            SHMEM_FT_MEMORY_LIMIT allows 300.0 MiB";
        assert_eq!(words(&posted, &[0, 0, 1, 0, 0, 1]), expected);
        let expected = "PE 0 takes 400.0 MiB for raid5, and SHMEM_FT_MEMORY_LIMIT allows 300.0 MiB";
        assert_eq!(words(&[super::tests::posted(400, 1000)], &[0]), expected);
    }

    #[test]
    fn what_is_not_the_same_or_too_large_is_refused_before_memory_is_counted() {
        let short = posted(100, 1);
        let odd = PeerStatus { len: 900, ..short };
        let cannot = PeerStatus { len: CANNOT, ..short };
        let apart = words(&[short, odd], &[0, 1]);
        assert!(apart.starts_with("PEs 0 and 1 have not allocated"), "{apart}");
        let full = words(&[short, odd, cannot], &[0, 1, 2]);
        assert!(full.starts_with("PE 2 has more allocations"), "{full}");
        let large = [PeerStatus { len: 1 << 41, ..short }; 2];
        assert!(words(&large, &[0, 1]).ends_with("and the store holds 1099511627776 at most"));
        let elsewhere = PeerStatus { digest: 8 << 32, ..short };
        assert!(words(&[short, elsewhere], &[0, 1]).starts_with("PEs 0 and 1 have not allocated"));
    }

    /// What is registered is in the manifest, whose pages the lower half of a digest counts.
    #[test]
    fn private_memory_is_not_said_to_be_symmetric() {
        let of = |pages: u64, heap: u64| PeerStatus {
            digest: 9 << 32 | pages,
            len: pages * 4096 + heap,
            ..posted(100, 1)
        };
        let expected = "PEs 0 and 1 have not registered the same amount of private memory (12 and \
            8 KiB in whole pages, with what describes the heap)";
        assert_eq!(words(&[of(3, 5000), of(2, 5000)], &[0, 1]), expected);
        let both = words(&[of(3, 5000), of(2, 9096)], &[0, 1]);
        assert!(both.starts_with("PEs 0 and 1 have not allocated"), "{both}");
    }
}
