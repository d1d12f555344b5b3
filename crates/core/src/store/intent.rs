//! The comparison of all PEs' inputs to a checkpoint: equal coverage, and memory for all of it.
//!
//! [`Intents`] accumulates the intents of PEs in any order. The total is equal on every PE, so
//! every PE reaches the same result.
//!
//! Invariant: memory is counted per machine, for the PEs that currently run on it.

use super::coverage::Coverage;
use crate::mutant::{Mutant, breaks};
use crate::quantity::Pe;

/// A length that marks a PE whose manifest does not fit.
pub const CANNOT: u64 = u64::MAX;

/// The limits of a checkpoint, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Name of the backup mode.
    pub mode: &'static str,
    /// Space for a manifest.
    pub manifest: usize,
    /// Space for a snapshot.
    pub snapshot: usize,
    /// `SHMEM_FT_MEMORY_LIMIT`: the maximum total of all stores of a machine.
    pub limit: Option<u64>,
}

/// The reason why a checkpoint cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // each variant's message describes its fields
pub enum Refusal {
    #[error(
        "PE {pe} has more allocations or registered private memory than the manifest holds \
         ({} KiB)", capacity >> 10
    )]
    Manifest { pe: Pe, capacity: usize },
    #[error(
        "PEs {first} and {pe} have not allocated the same symmetric memory ({} and {} bytes live)",
        len.0, len.1
    )]
    Different { first: Pe, pe: Pe, len: (u64, u64) },
    #[error(
        "PEs {first} and {pe} have not registered the same amount of private memory ({} and {} KiB \
         in whole pages, including the heap's metadata)", len.0 >> 10, len.1 >> 10
    )]
    Private { first: Pe, pe: Pe, len: (u64, u64) },
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
    #[error("{len} bytes live, and the store holds at most {capacity}")]
    Store { len: u64, capacity: usize },
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The requirements of one PE for a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Intent {
    /// Digest of the covered ranges.
    pub digest: u64,
    /// Number of covered bytes.
    pub len: u64,
    /// Bytes that the store will hold with this checkpoint.
    pub hold: u64,
    /// Bytes of `hold`, and of live data never written, that are still to be allocated.
    pub need: u64,
    /// Bytes available on the machine when the PE checked.
    pub available: u64,
}

/// The combined requirements of PEs of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    machine: u32,
    need: u64,
    hold: u64,
    free: u64,
}

impl Share {
    fn add(&mut self, other: &Share) {
        assert_eq!(self.machine, other.machine, "a machine is closed before another one is added");
        self.need = self.need.saturating_add(other.need);
        self.hold = self.hold.saturating_add(other.hold);
        self.free = self.free.min(other.free);
    }

    fn fits(&self, limit: Option<u64>) -> bool {
        self.need <= self.free && limit.is_none_or(|limit| self.hold <= limit)
    }
}

/// The relevant part of the intents of several PEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intents {
    /// The lowest PE, with its digest and length.
    first: (Pe, u64, u64),
    /// The lowest PE that differs from it, with its digest and length.
    odd: Option<(Pe, (u64, u64))>,
    /// The lowest PE that cannot describe its memory in a manifest.
    cannot: Option<Pe>,
    /// The machine whose PEs are being added up.
    open: Option<Share>,
    /// The lowest machine whose memory does not suffice for its PEs.
    short: Option<Share>,
    /// `SHMEM_FT_MEMORY_LIMIT`, equal on all PEs.
    limit: Option<u64>,
}

/// Returns the entry with the lower key.
pub(super) fn lower<K: Ord, T>(one: Option<(K, T)>, other: Option<(K, T)>) -> Option<(K, T)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.0 <= other.0 { one } else { other }),
        (one, other) => one.or(other),
    }
}

impl Intents {
    /// Returns the intent of PE `pe`, which runs on `machine`.
    pub fn of((pe, machine): (Pe, u32), intent: &Intent, limit: Option<u64>) -> Intents {
        let Intent { digest, len, hold, need, available: free } = *intent;
        let machine = if breaks(Mutant::MemoryOfTheJob) { 0 } else { machine };
        let open = Some(Share { machine, need, hold, free });
        let cannot = (len == CANNOT).then_some(pe);
        Intents { first: (pe, digest, len), odd: None, cannot, open, short: None, limit }
    }

    /// Adds the intents of other PEs.
    pub fn add(&mut self, other: &Intents) {
        let (low, high) =
            if self.first.0 < other.first.0 { (*self, other) } else { (*other, &*self) };
        let (pe, digest, len) = high.first;
        let like = (digest, len) == (low.first.1, low.first.2);
        let odd = lower(low.odd, if like { high.odd } else { Some((pe, (digest, len))) });
        self.cannot = [self.cannot, other.cannot].into_iter().flatten().min();
        (self.first, self.odd) = (low.first, odd);
        match (&mut self.open, &other.open) {
            (Some(own), Some(other)) => own.add(other),
            (own, other) => *own = own.or(*other),
        }
        self.note_short(other.short);
    }

    /// Closes the sum of a machine, once all its PEs are added up.
    pub fn close(&mut self) {
        if !breaks(Mutant::MemoryOfTheJob) {
            self.count();
        }
    }

    fn count(&mut self) {
        let limit = self.limit;
        let short = self.open.take().filter(|share| !share.fits(limit));
        self.note_short(short);
    }

    fn note_short(&mut self, other: Option<Share>) {
        let of = |share: Option<Share>| share.map(|share| (share.machine, share));
        self.short = lower(of(self.short), of(other)).map(|(_, share)| share);
    }

    /// Packs the intents into words.
    pub fn words(&self) -> [u64; INTENTS] {
        let pe = |pe: Option<Pe>| pe.map_or(0, |pe| u64::from(pe.0) + 1);
        let (first, digest, len) = self.first;
        let (odd, odd_like) = self.odd.unzip();
        let (odd_digest, odd_len) = odd_like.unwrap_or_default();
        let share = |share: Option<Share>| {
            let machine = share.map_or(0, |share| u64::from(share.machine) + 1);
            let share = share.unwrap_or(Share { machine: 0, need: 0, hold: 0, free: 0 });
            [machine, share.need, share.hold, share.free]
        };
        let pes = [u64::from(first.0), digest, len, pe(odd), odd_digest, odd_len, pe(self.cannot)];
        let mut words = [0; INTENTS];
        words[..7].copy_from_slice(&pes);
        words[7..11].copy_from_slice(&share(self.open));
        words[11..].copy_from_slice(&share(self.short));
        words
    }

    /// Unpacks intents, on a PE with this limit.
    pub fn read(words: [u64; INTENTS], limit: Option<u64>) -> Intents {
        let [first, digest, len, odd, odd_digest, odd_len, cannot, ..] = words;
        let pe = |word: u64| word.checked_sub(1).map(|pe| Pe(pe as u32));
        let share = |at: usize| {
            let [need, hold, free] = [words[at + 1], words[at + 2], words[at + 3]];
            let machine = words[at].checked_sub(1)?;
            Some(Share { machine: machine as u32, need, hold, free })
        };
        let (first, odd) =
            ((Pe(first as u32), digest, len), pe(odd).map(|pe| (pe, (odd_digest, odd_len))));
        Intents { first, odd, cannot: pe(cannot), open: share(7), short: share(11), limit }
    }
}

/// Number of words of packed [`Intents`].
pub const INTENTS: usize = 15;

/// Checks the intents of all PEs; `machine_of` gives the machine number of each PE.
///
/// # Errors
/// The first reason to refuse the checkpoint.
pub fn agree(all: &Intents, machine_of: &[u32], bounds: &Bounds) -> Result<(), Refusal> {
    let (mut all, len) = (*all, all.first.2);
    all.count();
    if let Some(pe) = all.cannot {
        return Err(Refusal::Manifest { pe, capacity: bounds.manifest });
    }
    if let Some((pe, odd)) = all.odd {
        return Err(differ([all.first.0, pe], [(all.first.1, len), odd]));
    }
    if len > bounds.snapshot as u64 {
        return Err(Refusal::Store { len, capacity: bounds.snapshot });
    }
    let Some(short) = all.short else { return Ok(()) };
    let here =
        |&(_, &machine): &(usize, &u32)| machine == short.machine || breaks(Mutant::MemoryOfTheJob);
    let here = machine_of.iter().enumerate().filter(here);
    let pes: Vec<Pe> = here.map(|(pe, _)| Pe::of(pe)).collect();
    Err(refuse(&short, &pes, bounds))
}

/// Describes how PE `pe` differs from the lowest PE, from their digests and lengths.
fn differ([first, pe]: [Pe; 2], brought: [(u64, u64); 2]) -> Refusal {
    let manifests = brought.map(|(digest, _)| Coverage::manifest_of(digest));
    let symmetric = |at: usize| {
        let (digest, len) = brought[at];
        (digest >> 32, len.saturating_sub(manifests[at]))
    };
    if symmetric(0) == symmetric(1) {
        Refusal::Private { first, pe, len: manifests.into() }
    } else {
        Refusal::Different { first, pe, len: (brought[0].1, brought[1].1) }
    }
}

/// Builds the refusal for a machine whose memory does not suffice for its PEs.
fn refuse(&Share { need, hold, free, .. }: &Share, pes: &[Pe], bounds: &Bounds) -> Refusal {
    let (mode, shown) = (bounds.mode, Pe::names(pes));
    let (needs, whose, takes) = match pes.len() {
        1 => (format!("{shown} needs"), "its", format!("{shown} takes")),
        _ => (format!("{shown} need"), "their", format!("{shown}, of one machine, take")),
    };
    match bounds.limit {
        Some(limit) if need <= free => Refusal::Limit { who: takes, mode, hold, limit },
        _ => Refusal::Memory { who: needs, whose, mode, need, free },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE;

    const BOUNDS: Bounds =
        Bounds { mode: "raid5", manifest: 4096, snapshot: 1 << 40, limit: Some(300 << 20) };

    fn posted(need: u64, available: u64) -> Intent {
        let (need, available) = (need << 20, available << 20);
        Intent { digest: 7 << 32, len: 1000, hold: need, need, available }
    }

    /// Adds up all intents, machine by machine, in an order that `turn` selects.
    fn sum(posted: &[Intent], machine_of: &[u32], turn: usize) -> Intents {
        let mut machines: Vec<u32> = machine_of.to_vec();
        machines.sort_unstable();
        machines.dedup();
        let add = |one: Intents, other: Intents| {
            let mut one = Intents::read(one.words(), BOUNDS.limit);
            one.add(&other);
            one
        };
        let turned = |mut all: Vec<Intents>| {
            let by = turn % all.len();
            all.rotate_left(by);
            all
        };
        let of_machine = |&machine: &u32| {
            let here = (0..posted.len()).filter(|&pe| machine_of[pe] == machine);
            let own = |pe: usize| Intents::of((Pe::of(pe), machine), &posted[pe], BOUNDS.limit);
            let mut all = turned(here.map(own).collect()).into_iter().reduce(add).unwrap();
            all.close();
            all
        };
        turned(machines.iter().map(of_machine).collect()).into_iter().reduce(add).unwrap()
    }

    fn words(posted: &[Intent], machine_of: &[u32]) -> String {
        let all = sum(posted, machine_of, 0);
        assert!((1..posted.len()).all(|turn| sum(posted, machine_of, turn) == all), "in any order");
        agree(&all, machine_of, &BOUNDS)
            .map_or_else(|refusal| refusal.to_string(), |()| String::new())
    }

    /// Sixteen hosts have memory for their own PEs only.
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
        let none = Intent { available: u64::MAX, ..posted(0, 0) };
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
        let expected = "PEs 0,1,3,4, of one machine, take 400.0 MiB for raid5, and \
            SHMEM_FT_MEMORY_LIMIT allows 300.0 MiB";
        assert_eq!(words(&posted, &[0, 0, 1, 0, 0, 1]), expected);
        let expected = "PE 0 takes 400.0 MiB for raid5, and SHMEM_FT_MEMORY_LIMIT allows 300.0 MiB";
        assert_eq!(words(&[super::tests::posted(400, 1000)], &[0]), expected);
    }

    #[test]
    fn different_or_oversized_intents_are_refused_before_memory_counts() {
        let short = posted(100, 1);
        let odd = Intent { len: 900, ..short };
        let cannot = Intent { len: CANNOT, ..short };
        let apart = words(&[short, odd], &[0, 1]);
        assert!(apart.starts_with("PEs 0 and 1 have not allocated"), "{apart}");
        let full = words(&[short, odd, cannot], &[0, 1, 2]);
        assert!(full.starts_with("PE 2 has more allocations"), "{full}");
        let large = [Intent { len: 1 << 41, ..short }; 2];
        assert!(words(&large, &[0, 1]).ends_with("and the store holds at most 1099511627776"));
        let elsewhere = Intent { digest: 8 << 32, ..short };
        assert!(words(&[short, elsewhere], &[0, 1]).starts_with("PEs 0 and 1 have not allocated"));
    }

    /// Registered memory is part of the manifest, whose pages the lower half of a digest counts.
    #[test]
    fn private_memory_is_not_called_symmetric() {
        let of = |pages: u64, heap: u64| Intent {
            digest: 9 << 32 | pages,
            len: pages * PAGE as u64 + heap,
            ..posted(100, 1)
        };
        let expected = format!(
            "PEs 0 and 1 have not registered the same amount of private memory ({} and {} KiB in \
             whole pages, including the heap's metadata)",
            (3 * PAGE) >> 10,
            (2 * PAGE) >> 10
        );
        assert_eq!(words(&[of(3, 5000), of(2, 5000)], &[0, 1]), expected);
        let both = words(&[of(3, 5000), of(2, 5000 + PAGE as u64)], &[0, 1]);
        assert!(both.starts_with("PEs 0 and 1 have not allocated"), "{both}");
    }
}
