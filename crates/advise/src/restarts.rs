//! Restart points: the places where a program resumes after a restart, and whether it repeats the
//! work that followed the checkpoint.
//!
//! After a loss, memory is that of the last checkpoint. Each PE returns from the call in which it
//! learned of the loss: survivors from the call that made this checkpoint, or from the next one; a
//! substitute from the first one that it reaches from the top of `main`. So the work that a program
//! may do first after a checkpoint must be among the work that it may do first after a restart in
//! any of these calls:
//!
//! ```text
//! checkpoint X -> work -> checkpoint Y    a restart in X, and one in Y, must reach the work
//! start -> checkpoint F                   a restart in F must reach the work, for every X
//! ```
//!
//! A checkpoint on the way saves the same memory again, or is skipped: a substitute may call it
//! once where the other PEs do not. Work done only after a restart, such as a barrier or a message,
//! does not count.
//!
//! Invariant: only work that no path leads to is reported; the program's memory decides which path
//! is taken. Left out: second returns of `setjmp`, and restarts without a failing checkpoint,
//! except those of a substitute.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Memory;
use crate::program::Site;
use crate::steps::Steps;
use crate::ways::{Event, Go, Position, Spot, TooMany, Ways};

/// `SHMEM_FT_SUCCESS` and `SHMEM_FT_FAILURE`.
const SUCCESS: i64 = 0;
const FAILURE: i64 = 1;

/// A restart that does not reach the work that follows a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Elsewhere {
    /// The call that reports the loss; the call of a function if several calls share its
    /// checkpoint.
    pub call: Site,
    /// The work that it does not reach.
    pub work: Site,
    /// The call that made the checkpoint.
    pub from: Site,
    /// The kind of mistake.
    pub kind: RestartMistake,
}

/// A mistake in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartMistake {
    /// The restart does not reach the work.
    Program,
    /// The restart of a substitute does not reach the work.
    Substitute,
    /// A substitute that learns of the loss in `from` calls the checkpoint more or less often on
    /// its way to the work.
    Count,
}

type Works = BTreeMap<Spot, Vec<Position>>;

struct Restarts<'m, 'p> {
    ways: Ways<'m, 'p>,
    /// The work done without a loss.
    normal: BTreeSet<Spot>,
    calls: BTreeSet<Spot>,
    found: BTreeSet<(Spot, Spot, Spot, RestartMistake)>,
}

/// Returns the restarts that resume elsewhere; nothing if there are too many paths to analyse.
#[must_use]
pub fn elsewhere(memory: &Memory<'_>, steps: &Steps) -> Vec<Elsewhere> {
    let Some(ways) = Ways::new(memory, steps) else { return Vec::new() };
    let mut restarts =
        Restarts { ways, normal: BTreeSet::new(), calls: BTreeSet::new(), found: BTreeSet::new() };
    if restarts.look().is_err() {
        return Vec::new();
    }
    let told = restarts.found.iter().map(|(call, work, from, kind)| {
        let (call, from) = (restarts.named(*call), restarts.named(*from));
        Elsewhere { call, work: work.1, from, kind: *kind }
    });
    told.collect()
}

impl Restarts<'_, '_> {
    fn look(&mut self) -> Result<(), TooMany> {
        let calls = self.calls()?;
        let mut all = Vec::new();
        for call in &calls {
            let works = self.works(vec![self.ways.after(call, Some(SUCCESS))])?;
            self.compare(call, call, works.keys())?;
            for (work, states) in &works {
                for next in self.next(states)? {
                    self.compare(&next, call, std::iter::once(work))?;
                }
            }
            all.push((call, works));
        }
        for (first, restarts) in self.first()? {
            let after = match restarts {
                true => Some(self.works(vec![self.ways.after(&first, None)])?),
                false => self.restarted(&first)?,
            };
            let Some(comes) = after else { continue };
            let before = self.passed(self.ways.after(&first, Some(SUCCESS)))?;
            let own = self.ways.spot(&first);
            for (call, works) in &all {
                let spot = self.ways.spot(call);
                if spot == own || before.contains(&spot) {
                    self.tell(&first, call, works.keys(), &comes, RestartMistake::Substitute);
                    self.count(&first, call, &comes)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the innermost call that distinguishes this checkpoint from others.
    fn named(&self, spot: Spot) -> Site {
        let chain = self.ways.chain(spot);
        let alone = |to: &usize| {
            let same = |other: Spot| self.ways.chain(other).get(..=*to) == Some(&chain[..=*to]);
            !self.calls.iter().any(|other| *other != spot && same(*other))
        };
        chain[(0..chain.len()).find(alone).unwrap_or_default()]
    }

    /// Finds the checkpoints and the work of a program that suffers no loss.
    fn calls(&mut self) -> Result<Vec<Position>, TooMany> {
        let (mut calls, mut normal) = (Vec::new(), BTreeSet::new());
        let start = vec![self.ways.start()];
        self.ways.follow(start, &mut |event, spot, state| match event {
            Event::Checkpoint => {
                calls.push(state.clone());
                Go::With(SUCCESS)
            }
            Event::Restart => Go::Stop,
            Event::Asks => Go::On,
            Event::Work | Event::End => {
                normal.insert(spot);
                Go::On
            }
        })?;
        self.normal = normal;
        self.calls = calls.iter().map(|state| self.ways.spot(state)).collect();
        Ok(calls)
    }

    /// Returns the points where a substitute may learn of the loss: a checkpoint, or (true) a
    /// restart without one.
    fn first(&mut self) -> Result<Vec<(Position, bool)>, TooMany> {
        let mut found = Vec::new();
        let start = vec![self.ways.start()];
        self.ways.follow(start, &mut |event, _, state| match event {
            Event::Checkpoint | Event::Restart => {
                found.push((state.clone(), event == Event::Restart));
                Go::Stop
            }
            Event::Asks => Go::With(0),
            Event::Work | Event::End => Go::On,
        })?;
        Ok(found)
    }

    /// Returns the checkpoints that may be made after this position.
    fn passed(&mut self, from: Position) -> Result<BTreeSet<Spot>, TooMany> {
        let mut found = BTreeSet::new();
        self.ways.follow(vec![from], &mut |event, spot, _| match event {
            Event::Checkpoint => {
                found.insert(spot);
                Go::With(SUCCESS)
            }
            Event::Restart => Go::Stop,
            Event::Asks | Event::Work | Event::End => Go::On,
        })?;
        Ok(found)
    }

    /// Returns the work that may be done first from here, skipping checkpoints; the end of the
    /// program counts, too.
    fn works(&mut self, from: Vec<Position>) -> Result<Works, TooMany> {
        let mut works = Works::new();
        let normal = &self.normal;
        let from = from.iter().map(Position::uncounted).collect();
        self.ways.follow(from, &mut |event, spot, state| match event {
            Event::Checkpoint => Go::Counted(SUCCESS),
            Event::Restart => Go::Stop,
            Event::Asks => Go::On,
            Event::Work | Event::End if !normal.contains(&spot) => Go::On,
            Event::Work | Event::End => {
                works.entry(spot).or_default().push(state.clone());
                Go::Stop
            }
        })?;
        Ok(works)
    }

    /// Returns the checkpoints that come next after work.
    fn next(&mut self, works: &[Position]) -> Result<Vec<Position>, TooMany> {
        let mut found = Vec::new();
        let from = works.iter().map(Position::uncounted).collect();
        self.ways.follow(from, &mut |event, _, state| match event {
            Event::Checkpoint => {
                found.push(state.clone());
                Go::Stop
            }
            Event::Restart => Go::Stop,
            Event::Asks | Event::Work | Event::End => Go::On,
        })?;
        Ok(found)
    }

    /// Returns the work that may be done first after a restart in this call; `None` if no restart
    /// follows.
    fn restarted(&mut self, call: &Position) -> Result<Option<Works>, TooMany> {
        let mut restarts = Vec::new();
        let from = vec![self.ways.after(call, Some(FAILURE))];
        let normal = &self.normal;
        self.ways.follow(from, &mut |event, spot, state| match event {
            Event::Restart => {
                restarts.push(state.clone());
                Go::Stop
            }
            Event::Checkpoint => Go::Stop,
            // The program ignores the result of the call.
            Event::Work | Event::End if normal.contains(&spot) => Go::Stop,
            Event::Asks | Event::Work | Event::End => Go::On,
        })?;
        if restarts.is_empty() {
            return Ok(None);
        }
        let after = restarts.iter().map(|state| self.ways.after(state, None)).collect();
        self.works(after).map(Some)
    }

    fn compare<'w>(
        &mut self,
        call: &Position,
        from: &Position,
        wanted: impl Iterator<Item = &'w Spot>,
    ) -> Result<(), TooMany> {
        if let Some(comes) = self.restarted(call)? {
            self.tell(call, from, wanted, &comes, RestartMistake::Program);
        }
        Ok(())
    }

    /// Compares the numbers of checkpoint calls on the way to the same work: of a substitute that
    /// learned of the loss in `first`, and of other PEs that learned of it in `call`. The calls
    /// meet one by one; but if the other PEs make none, a first call of the substitute is skipped.
    fn count(&mut self, first: &Position, call: &Position, own: &Works) -> Result<(), TooMany> {
        let Some(others) = self.restarted(call)? else { return Ok(()) };
        let fits = |own: u8, other: u8| own == other || (own, other) == (1, 0);
        let (first, call) = (self.ways.spot(first), self.ways.spot(call));
        for (work, states) in &others {
            let pairs = own
                .get(work)
                .into_iter()
                .flatten()
                .flat_map(|own| states.iter().map(move |other| (own.calls, other.calls)));
            let mut pairs = pairs.peekable();
            if pairs.peek().is_some() && !pairs.any(|(own, other)| fits(own, other)) {
                self.found.insert((call, *work, first, RestartMistake::Count));
            }
        }
        Ok(())
    }

    fn tell<'w>(
        &mut self,
        call: &Position,
        from: &Position,
        wanted: impl Iterator<Item = &'w Spot>,
        comes: &Works,
        kind: RestartMistake,
    ) {
        let (call, from) = (self.ways.spot(call), self.ways.spot(from));
        let missed = wanted.filter(|work| !comes.contains_key(work));
        self.found.extend(missed.map(|work| (call, *work, from, kind)));
    }
}
