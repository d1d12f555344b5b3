//! The state of write tracking in a process, and the conditions under which its result is valid.
//!
//! Each process tracks the pages through which *it* writes: its own memory, and the mapped memory
//! of local PEs. No process sees all writes to a PE. So each reports its writes to each PE, and the
//! owner combines the reports:
//!
//! ```text
//! copy of n         all mapped PEs changed little: tracking starts    (live memory is quiescent)
//!    ... the program runs ...
//! intend of n + 1   own writes to each mapped PE since n              -> published to it
//! barrier Q         no PE writes from here on
//! compare           writes to own memory by the own process           + those that peers published
//! ```
//!
//! A process scans its own memory later than that of other PEs, because it also writes there on
//! behalf of remote PEs, which may lag.
//!
//! Invariant: the set of written pages counts as known only if every process that can write has
//! tracked the same bytes from checkpoint `n` until now, without a gap. Otherwise the report is
//! [`WriteReport::Nothing`], and the owner detects changes itself. The observations of a process
//! are lost with it. So every recovery discards all tracked writes, like the history of checkpoints
//! ([`super::delta`]).

use super::coverage::Coverage;
use super::delta::TileSet;
use crate::mutant::{Mutant, breaks};
use crate::quantity::CheckpointNumber;
use crate::settings::Track;

/// The report of a process on its write tracking before a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteReport {
    /// The process does not know all of its writes.
    Nothing,
    /// The process will never know them.
    Never,
    /// The process publishes all its writes to local PEs since the checkpoint before this one.
    All(CheckpointNumber),
}

impl WriteReport {
    /// Packs the report into a word of shared memory; zero means `Nothing`.
    pub fn pack(self) -> u64 {
        match self {
            WriteReport::Nothing => 0,
            WriteReport::Never => u64::MAX,
            WriteReport::All(number) => number.0,
        }
    }

    /// Unpacks a word of shared memory.
    pub fn unpack(word: u64) -> WriteReport {
        match word {
            0 => WriteReport::Nothing,
            u64::MAX => WriteReport::Never,
            number => WriteReport::All(CheckpointNumber(number)),
        }
    }
}

/// Bytes of [`Costs`] as published.
pub const COSTS: usize = 32;
/// Bytes of huge pages whose split costs the program one nanosecond, at the first access to each
/// resulting small page.
const CUT: u64 = 2;
/// Maximum slowdown of a program by small pages instead of huge ones, as a divisor: 1/16 of its
/// time.
const LOST: u64 = 16;

/// The costs of change detection on a PE, as read by local PEs. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Costs {
    /// Time that the program ran before this checkpoint.
    pub ran: u64,
    /// Duration of the last comparison of all tiles by digests.
    pub looked: u64,
    /// Total duration of comparisons since changes became few or tracking ended.
    pub spent: u64,
    /// Bytes in huge pages that tracking splits, or has split.
    pub huge: u64,
}

impl Costs {
    /// Packs the costs into bytes of shared memory.
    pub fn pack(&self) -> [u8; COSTS] {
        let words = [self.ran, self.looked, self.spent, self.huge].map(u64::to_ne_bytes);
        std::array::from_fn(|at| words[at / 8][at % 8])
    }

    /// Unpacks bytes of shared memory.
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

    /// True if tracking saves more time than it costs the program. Small pages cost nothing extra.
    /// Huge pages are split once the time spent without tracking equals the cost of the split, so
    /// the total cost is at most twice the optimum. Each checkpoint must then save more than small
    /// pages may cost a program that ran that long. Splitting pays because, with 5 % of the blocks
    /// changed, a checkpoint takes 0.15 to 0.24 of the time of a full one instead of 0.5 and more
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
    /// All writes since checkpoint `.0`, which covered `.1`, are tracked.
    Since(CheckpointNumber, Coverage),
    /// The writes to other PEs before checkpoint `.0` are published.
    Shown(CheckpointNumber),
    /// The writes to its own memory are known too, and tracked from here on.
    Known(CheckpointNumber),
}

/// The write tracking of one process.
#[derive(Debug, Default)]
pub struct Tracked {
    state: Tracking,
    never: bool,
}

impl Tracked {
    /// Prepares for checkpoint `number` of `coverage`. Returns true if all writes of this process
    /// since the last checkpoint are tracked. The caller must then publish them; otherwise tracking
    /// ends.
    pub fn show(&mut self, number: CheckpointNumber, coverage: &Coverage) -> bool {
        let state = std::mem::take(&mut self.state);
        let all = matches!(&state, Tracking::Since(n, of) if n.next() == number && of == coverage);
        if all && !self.never {
            self.state = Tracking::Shown(number);
        }
        self.state != Tracking::Off
    }

    /// Returns the report for the other PEs.
    pub fn said(&self) -> WriteReport {
        match self.state {
            _ if self.never => WriteReport::Never,
            Tracking::Shown(number) => WriteReport::All(number),
            _ => WriteReport::Nothing,
        }
    }

    /// Evaluates the reports (`said`) after barrier Q. Returns true if this process and all local
    /// PEs publish their writes before checkpoint `number`. The caller must then scan its own
    /// memory; otherwise tracking ends.
    pub fn gather(&mut self, number: CheckpointNumber, said: &[WriteReport]) -> bool {
        self.never |= said.contains(&WriteReport::Never);
        let doubts =
            |said: WriteReport| said != WriteReport::All(number) && !breaks(Mutant::DoubtsIgnored);
        let all = !said.iter().any(|&said| doubts(said));
        let known = all && !self.never && self.state == Tracking::Shown(number);
        self.state = if known { Tracking::Known(number) } else { Tracking::Off };
        known
    }

    /// True if tracking continues after the copy of checkpoint `number`.
    pub fn goes_on(&self, number: CheckpointNumber) -> bool {
        self.state == Tracking::Known(number)
    }

    /// Begins tracking: all writes from here on are recorded; `number` covers `coverage`.
    pub fn begin(&mut self, number: CheckpointNumber, coverage: Coverage) {
        self.state = Tracking::Since(number, coverage);
    }

    /// Ends tracking.
    pub fn end(&mut self) {
        self.state = Tracking::Off;
    }

    /// Disables tracking for good, because it is unavailable or unreliable.
    pub fn never(&mut self) {
        (self.state, self.never) = (Tracking::Off, true);
    }

    /// True if tracking may begin, or continue after checkpoint `number`: by setting, or, in
    /// `auto`, if `few` of the tiles of each local PE changed and the `costs` of all of them
    /// justify it. All of them read the same words, so they get the same result.
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

/// True if each set holds so few of `tiles` that tracking their pages costs less than reading all
/// tiles.
pub fn few(tiles: usize, mut changed: impl Iterator<Item = TileSet>) -> bool {
    changed.all(|changed| changed.count() < tiles.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;
    use crate::layout::Layout;
    use crate::page::PAGE;
    use crate::quantity::TileIndex;
    use CheckpointNumber as N;

    fn covering(bytes: usize) -> Coverage {
        let layout = Layout::new(1 << 20, 2);
        let mut heap = Heap::new(layout.heap_len);
        heap.alloc(bytes, 64).unwrap();
        Coverage::build(&layout, &[], &heap, [&[], &[]], &[]).unwrap().0
    }

    #[test]
    fn words_survive_packing() {
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

    /// Returns tracking that began at checkpoint 4.
    fn begun() -> Tracked {
        let mut tracked = Tracked::default();
        tracked.begin(N(4), covering(100));
        tracked
    }

    #[test]
    fn a_watch_continues_from_checkpoint_to_checkpoint() {
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
        let (same, other) = (covering(100), covering(PAGE + 100));
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

    /// Writes published for an abandoned attempt are not all writes before the next one.
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

    /// Evaluates one step of a job in which two PEs report equal costs.
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
