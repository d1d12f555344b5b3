//! Whether what a process writes is under watch, and what a look at it is good for.
//!
//! Each process watches the pages through which *it* writes: those of its own memory, and of the
//! memory of the PEs near it, that it maps. Nobody sees all that was written to a PE, so each says
//! what it wrote to whom, and the owner puts it together:
//!
//! ```text
//! copy of n         all near PEs changed little: watch from here on   (live memory stands still)
//!    ... the program runs ...
//! intend of n + 1   what I wrote to each PE near me since n           -> shown to it
//! barrier Q         nobody writes any more
//! compare           what was written to me through my own process     + what all near me showed
//! ```
//!
//! The own memory is looked at later than that of others because the own process writes for far
//! PEs, which may be behind.
//!
//! Invariant: what was written is taken for known only if every process that can write has watched
//! from checkpoint `n` to now, the same bytes, and without a doubt. All else is
//! [`WriteReport::Nothing`], and then the owner finds out by itself. A process that died takes with
//! it what it had seen. So all forget what was written after every recovery, as they do what they
//! know of checkpoints ([`super::delta`]).

use super::coverage::Coverage;
use super::delta::TileSet;
use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;
use crate::settings::Track;

/// What a process says of its watch before a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteReport {
    /// It does not know all that it wrote.
    Nothing,
    /// It never will.
    Never,
    /// It shows all that it wrote to PEs near it from the checkpoint before this one on.
    All(CheckpointNumber),
}

impl WriteReport {
    /// As a word of shared memory; zeroes say nothing.
    pub fn pack(self) -> u64 {
        match self {
            WriteReport::Nothing => 0,
            WriteReport::Never => u64::MAX,
            WriteReport::All(number) => number.0,
        }
    }

    /// From a word of shared memory.
    pub fn unpack(word: u64) -> WriteReport {
        match word {
            0 => WriteReport::Nothing,
            u64::MAX => WriteReport::Never,
            number => WriteReport::All(CheckpointNumber(number)),
        }
    }
}

/// Bytes of [`Costs`] as they are shown.
pub const COSTS: usize = 32;
/// Cutting so many bytes of huge pages costs the program a nanosecond, at the first access to each
/// small page that they become.
const CUT: u64 = 2;
/// A program may lose this part of its time (1/16) by small pages in place of huge ones.
const LOST: u64 = 16;

/// What it costs a PE to find changes, as the PEs near it read it. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// The program ran so long before this checkpoint.
    pub ran: u64,
    /// To compare all by digests took so long when it was done last.
    pub looked: u64,
    /// What that took in all, since changes are few or a watch was over.
    pub spent: u64,
    /// Bytes in huge pages, which a watch cuts, or has cut.
    pub huge: u64,
}

impl Costs {
    /// As bytes of shared memory.
    pub fn pack(&self) -> [u8; COSTS] {
        let words = [self.ran, self.looked, self.spent, self.huge].map(u64::to_ne_bytes);
        std::array::from_fn(|at| words[at / 8][at % 8])
    }

    /// From bytes of shared memory.
    pub fn unpack(bytes: &[u8; COSTS]) -> Costs {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|nth| bytes[at * 8 + nth]));
        Costs { ran: word(0), looked: word(1), spent: word(2), huge: word(3) }
    }

    fn and(self, other: Costs) -> Costs {
        Costs {
            ran: self.ran.saturating_add(other.ran),
            looked: self.looked.saturating_add(other.looked),
            spent: self.spent.saturating_add(other.spent),
            huge: self.huge.saturating_add(other.huge),
        }
    }

    /// True if a watch saves more than it takes from the program. Small pages lose nothing. Huge
    /// ones are cut once the program has spent without a watch as much as the cut costs, so it
    /// never pays more than twice what was needed. Each checkpoint must then save more than small
    /// pages may cost a program that ran so long. Cutting stays because with 5 % of the blocks
    /// changed a checkpoint takes 0.15 to 0.24 of a full one instead of 0.5 and more
    /// (`benches/notes.md`).
    fn pay(&self, is_cut: bool) -> bool {
        let saved = self.looked > self.ran / LOST;
        self.huge == 0 || saved && (is_cut || self.spent >= self.huge / CUT)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Tracking {
    #[default]
    Off,
    /// All that is written is seen since checkpoint `.0`, which covered `.1`.
    Since(CheckpointNumber, Coverage),
    /// What was written to others before checkpoint `.0` is shown.
    Shown(CheckpointNumber),
    /// What was written to the own memory is known too, and watched from here on.
    Known(CheckpointNumber),
}

/// The watch of one process.
#[derive(Debug, Default)]
pub struct Tracked {
    state: Tracking,
    never: bool,
}

impl Tracked {
    /// Before checkpoint `number` of what `coverage` says: true if all that this process wrote
    /// since the last is under watch. Then it is to be shown; else the watch is over.
    pub fn show(&mut self, number: CheckpointNumber, coverage: &Coverage) -> bool {
        let state = std::mem::take(&mut self.state);
        let all = matches!(&state, Tracking::Since(n, of) if n.next() == number && of == coverage);
        if all && !self.never {
            self.state = Tracking::Shown(number);
        }
        self.state != Tracking::Off
    }

    /// What the others are told.
    pub fn said(&self) -> WriteReport {
        match self.state {
            _ if self.never => WriteReport::Never,
            Tracking::Shown(number) => WriteReport::All(number),
            _ => WriteReport::Nothing,
        }
    }

    /// After barrier Q: true if this process and all near it (`said`) show what they wrote before
    /// checkpoint `number`. Then the own memory is to be looked at; else the watch is over.
    pub fn gather(&mut self, number: CheckpointNumber, said: &[WriteReport]) -> bool {
        self.never |= said.contains(&WriteReport::Never);
        let doubts =
            |said: WriteReport| said != WriteReport::All(number) && !breaks(Mutant::DoubtsIgnored);
        let all = !said.iter().any(|&said| doubts(said));
        let known = all && !self.never && self.state == Tracking::Shown(number);
        self.state = if known { Tracking::Known(number) } else { Tracking::Off };
        known
    }

    /// The copy of checkpoint `number` is made. True if the watch that there is goes on.
    pub fn goes_on(&self, number: CheckpointNumber) -> bool {
        self.state == Tracking::Known(number)
    }

    /// All that is written from here on is seen; `number` covers `coverage`.
    pub fn begin(&mut self, number: CheckpointNumber, coverage: Coverage) {
        self.state = Tracking::Since(number, coverage);
    }

    /// The watch is over.
    pub fn end(&mut self) {
        self.state = Tracking::Off;
    }

    /// It cannot be had, or not believed: it is over, and no other will begin.
    pub fn never(&mut self) {
        (self.state, self.never) = (Tracking::Off, true);
    }

    /// True if a watch may begin, or go on after checkpoint `number`: as asked for, or if `few` of
    /// the tiles of each PE near changed and it is worth what all of them say of their `costs`. The
    /// same on all of them, who see the same words.
    pub fn pays(
        &self,
        track: Track,
        number: CheckpointNumber,
        few: bool,
        costs: impl Iterator<Item = Costs>,
    ) -> bool {
        let all = || costs.fold(Costs::default(), Costs::and);
        !self.never
            && match track {
                Track::Pages => true,
                Track::Digests => false,
                Track::Auto => few && all().pay(self.goes_on(number)),
            }
    }
}

/// True if so few of `tiles` are in each of the sets that to watch the pages of those costs less
/// than to read all.
pub fn few(tiles: usize, mut changed: impl Iterator<Item = TileSet>) -> bool {
    changed.all(|changed| changed.count() < tiles.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::layout::Layout;
    use crate::quantity::TileIndex;
    use CheckpointNumber as N;

    fn covering(bytes: usize) -> Coverage {
        let layout = Layout::new(1 << 20, 2);
        let mut heap = Heap::new(layout.heap_len);
        heap.alloc(bytes, 64).unwrap();
        Coverage::build(&layout, &[], &heap, [&[], &[]], &[]).unwrap().0
    }

    #[test]
    fn words_are_what_was_said() {
        for said in [
            WriteReport::Nothing,
            WriteReport::Never,
            WriteReport::All(N(1)),
            WriteReport::All(CheckpointNumber(77)),
        ] {
            assert_eq!(WriteReport::unpack(said.pack()), said);
        }
        assert_eq!(WriteReport::unpack(0), WriteReport::Nothing);
    }

    /// From a watch begun at checkpoint 4.
    fn begun() -> Tracked {
        let mut tracked = Tracked::default();
        tracked.begin(N(4), covering(100));
        tracked
    }

    #[test]
    fn a_watch_goes_on_from_checkpoint_to_checkpoint() {
        let mut tracked = begun();
        for number in 5..9 {
            assert!(tracked.show(N(number), &covering(100)));
            assert_eq!(tracked.said(), WriteReport::All(CheckpointNumber(number)));
            assert!(tracked.gather(N(number), &[WriteReport::All(N(number)); 3]));
            assert!(tracked.goes_on(N(number)));
            tracked.begin(N(number), covering(100));
        }
    }

    #[test]
    fn any_doubt_ends_it() {
        let (same, other) = (covering(100), covering(5000));
        for (number, coverage) in [(5, &other), (6, &same), (4, &same)] {
            let mut tracked = begun();
            assert!(!tracked.show(N(number), coverage));
            assert_eq!(tracked.said(), WriteReport::Nothing);
            assert!(
                !tracked.gather(N(number), &[WriteReport::All(N(number))])
                    && !tracked.goes_on(N(number))
            );
            assert!(!tracked.show(N(number + 1), coverage));
        }
        for said in [
            WriteReport::Nothing,
            WriteReport::Never,
            WriteReport::All(N(4)),
            WriteReport::All(N(6)),
        ] {
            let mut tracked = begun();
            assert!(tracked.show(N(5), &same));
            assert!(!tracked.gather(N(5), &[WriteReport::All(N(5)), said, WriteReport::All(N(5))]));
            assert!(!tracked.goes_on(N(5)));
            assert_eq!(tracked.said() == WriteReport::Never, said == WriteReport::Never);
        }
    }

    /// What was shown for an attempt that was given up is not all that was written before the next.
    #[test]
    fn a_second_attempt_at_a_checkpoint_knows_nothing() {
        let mut tracked = begun();
        assert!(tracked.show(N(5), &covering(100)));
        assert!(!tracked.show(N(5), &covering(100)));
        assert_eq!(tracked.said(), WriteReport::Nothing);
        let mut tracked = begun();
        assert!(tracked.show(N(5), &covering(100)) && tracked.gather(N(5), &[]));
        assert!(!tracked.show(N(5), &covering(100)));
    }

    #[test]
    fn few_are_few_on_all() {
        let sets = |counts: &[usize]| {
            let of = |&count: &usize| {
                let mut set = TileSet::none(80);
                TileIndex::all(count).for_each(|tile| set.insert(tile));
                set
            };
            counts.iter().map(of).collect::<Vec<TileSet>>().into_iter()
        };
        assert!(few(80, sets(&[0, 9, 3])) && few(80, sets(&[])));
        assert!(!few(80, sets(&[0, 10, 3])));
    }

    /// One step of a job in which two PEs say the same of their costs.
    fn pays(tracked: &Tracked, track: Track, few: bool, costs: Costs) -> bool {
        tracked.pays(track, N(5), few, [costs; 2].into_iter())
    }

    #[test]
    fn it_pays_as_asked_for_or_where_little_changes() {
        let (mut tracked, small) = (Tracked::default(), Costs { ran: 9, ..Costs::default() });
        let dear = Costs { huge: 1 << 30, ..small };
        assert!(pays(&tracked, Track::Auto, true, small));
        assert!(!pays(&tracked, Track::Auto, false, small));
        assert!(pays(&tracked, Track::Pages, false, dear));
        assert!(!pays(&tracked, Track::Digests, true, small));
        tracked.never();
        assert!(!pays(&tracked, Track::Pages, true, small) && tracked.said() == WriteReport::Never);
    }

    #[test]
    fn huge_pages_are_cut_where_that_is_won_back() {
        let new = Tracked::default();
        let mut going = begun();
        assert!(going.show(N(5), &covering(100)) && going.gather(N(5), &[]));
        let (huge, cut) = (200_000 * CUT, 200_000);
        let costs = |ran, looked, spent| Costs { ran, looked, spent, huge };
        let auto = |tracked: &Tracked, costs| pays(tracked, Track::Auto, true, costs);
        let (short, long) = (1000 * LOST, 1001 * LOST);
        assert!(auto(&new, costs(short, 1001, cut)));
        assert!(!auto(&new, costs(short, 1001, cut - 1)), "not yet");
        assert!(!auto(&new, costs(long, 1001, cut)), "the program runs longer");
        assert!(auto(&going, costs(short, 1001, 0)));
        assert!(!auto(&going, costs(long, 1001, 0)));
        assert!(!auto(&new, costs(u64::MAX, 1001, u64::MAX)), "nobody knows how long");
        assert!(!auto(&new, costs(0, 0, u64::MAX)), "nobody ever looked");
        assert!(auto(&new, Costs { huge: 0, ..costs(u64::MAX, 0, 0) }), "nothing is cut");
    }

    #[test]
    fn costs_are_read_as_they_were_shown() {
        let costs = Costs { ran: 1, looked: u64::MAX, spent: 3 << 40, huge: 4 };
        assert_eq!(Costs::unpack(&costs.pack()), costs);
        assert_eq!(Costs::unpack(&[0; COSTS]), Costs::default());
    }
}
