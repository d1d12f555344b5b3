//! Creation and destruction of teams: collective over the parent, by [`Shmem`].

#![forbid(unsafe_code)]

use super::fewer;
use super::{Error, Fault, Shmem, Team, TeamConfig};
use crate::openshmem::collective;
use crate::openshmem::group::{Group, MASK_AT, SyncPoint};
use crate::openshmem::split::{self, TeamPart, Unsplit};
use crate::openshmem::team;
use raidshmem_core::quantity::Pe;

const DIFFER: &str = "the arguments differ from PE to PE";

impl Shmem {
    /// Returns the team of all PEs, in the order of their numbers.
    ///
    /// ```
    /// let shmem = raidshmem::Shmem::init();
    /// assert_eq!(shmem.team_size(shmem.team_world()), shmem.n_pes());
    /// ```
    pub fn team_world(&self) -> Team {
        Team::WORLD
    }

    /// Returns the team of the PEs that share memory with this one.
    ///
    /// ```
    /// let shmem = raidshmem::Shmem::init();
    /// assert!(shmem.team_pe(shmem.team_shared()).is_some());
    /// ```
    pub fn team_shared(&self) -> Team {
        Team::SHARED
    }

    /// Returns the configuration that a team was made with; all zero for the predefined teams.
    ///
    /// # Panics
    /// If the team does not exist. See [`Shmem::split_strided_with`] for an example.
    pub fn team_config(&self, team: Team) -> TeamConfig {
        team.members();
        TeamConfig { contexts: team::contexts(team.number()) }
    }

    /// Returns the number of PEs in a team.
    ///
    /// # Panics
    /// If the team does not exist.
    ///
    /// ```
    /// let shmem = raidshmem::Shmem::init();
    /// assert_eq!(shmem.team_size(shmem.team_world()), 1); // started without oshrun
    /// ```
    pub fn team_size(&self, team: Team) -> usize {
        team.members().2
    }

    /// Returns the number of this PE in a team; `None` if it is not a member.
    ///
    /// # Panics
    /// If the team does not exist.
    ///
    /// ```
    /// let shmem = raidshmem::Shmem::init();
    /// assert_eq!(shmem.team_pe(shmem.team_world()), Some(shmem.my_pe()));
    /// ```
    pub fn team_pe(&self, team: Team) -> Option<usize> {
        team.members();
        usize::try_from(team::index_of(team.number(), Pe::of(self.my_pe()))).ok()
    }

    /// Translates `pe` of team `from` to its number in team `to`; `None` if it is not a member of
    /// both.
    ///
    /// # Panics
    /// If a team does not exist.
    ///
    /// ```
    /// let shmem = raidshmem::Shmem::init();
    /// let all = shmem.team_world();
    /// assert_eq!(shmem.translate_pe(all, 0, all), Some(0));
    /// assert_eq!(shmem.translate_pe(all, shmem.n_pes(), all), None);
    /// ```
    pub fn translate_pe(&self, from: Team, pe: usize, to: Team) -> Option<usize> {
        let _teams = (from.members(), to.members());
        let in_world = team::to_world(from.number(), i32::try_from(pe).ok()?)?;
        let index = team::index_of(to.number(), in_world);
        usize::try_from(index).ok()
    }

    /// Makes a team of `size` PEs of `parent`: its PEs `start, start + stride, ..`, in this order.
    /// Collective over `parent`, with equal arguments; `None` on a PE that is not a member.
    ///
    /// # Errors
    /// [`Error::NoTeam`] on every PE if the PEs named are not in `parent`, if arguments differ, or
    /// if a PE is already in 62 such teams. [`Error::Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If this PE is not a member of `parent`.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let half = shmem.n_pes().div_ceil(2);
    /// let even = shmem.split_strided(shmem.team_world(), 0, 2, half)?;
    /// assert_eq!(even.is_some(), shmem.my_pe() % 2 == 0);
    /// if let Some(even) = even {
    ///     let sum = shmem.exchange_in(even, |peers| peers.reduce(1, |a, b| a + b))??;
    ///     assert_eq!(sum, half);
    /// }
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn split_strided(
        &mut self,
        parent: Team,
        start: usize,
        stride: isize,
        size: usize,
    ) -> Result<Option<Team>, Error> {
        self.split_strided_with(parent, (start, stride, size), TeamConfig::default())
    }

    /// Like [`Shmem::split_strided`] with `(start, stride, size)`, and with a configuration, which
    /// may differ from PE to PE.
    ///
    /// # Errors
    /// Like [`Shmem::split_strided`].
    ///
    /// ```
    /// use raidshmem::TeamConfig;
    ///
    /// let mut shmem = raidshmem::Shmem::init();
    /// let config = TeamConfig { contexts: 4 };
    /// let team = shmem.split_strided_with(shmem.team_world(), (0, 1, 1), config)?;
    /// assert_eq!(shmem.team_config(team.expect("PE 0 is in it")), config);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn split_strided_with(
        &mut self,
        parent: Team,
        (start, stride, size): (usize, isize, usize),
        config: TeamConfig,
    ) -> Result<Option<Team>, Error> {
        let start = isize::try_from(start).unwrap_or(isize::MAX);
        agree(parent, &[start as u64, stride as u64, size as u64])?;
        let part = TeamPart { start, stride, size, num_contexts: config.contexts };
        let [new] = split::split("split_strided", (parent.number(), SyncPoint::Split), [part])?;
        Ok(Team::of(new))
    }

    /// Arranges the PEs of `parent` in rows of `columns` PEs, and makes a team of each row and of
    /// each column; returns those of this PE. The last row may be shorter. Collective over
    /// `parent`.
    ///
    /// # Errors
    /// Like [`Shmem::split_strided`]; also if `columns` is 0.
    ///
    /// # Panics
    /// If this PE is not a member of `parent`.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let [row, column] = shmem.split_2d(shmem.team_world(), 2)?;
    /// let (x, y) = (shmem.team_pe(row), shmem.team_pe(column));
    /// assert_eq!((x, y), (Some(shmem.my_pe() % 2), Some(shmem.my_pe() / 2)));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn split_2d(&mut self, parent: Team, columns: usize) -> Result<[Team; 2], Error> {
        agree(parent, &[columns as u64])?;
        let (index, (_, _, size)) = (parent.group("split_2d").index, parent.members());
        if columns == 0 {
            return Err(Error::NoTeam("rows of 0 columns"));
        }
        let part = |(start, stride, size)| TeamPart { start, stride, size, num_contexts: 0 };
        let parts = split::row_and_column(index, size, columns.min(size)).map(part);
        let made = split::split("split_2d", (parent.number(), SyncPoint::Split), parts)?;
        Ok(made.map(|team| Team::of(team).expect("a PE is in its own row and column")))
    }

    /// Destroys a team made by a split. Collective over the team: its members meet, then it is
    /// gone.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost: the team is then as it was in the checkpoint. With
    /// `SHMEM_FT_ROLLBACK=none` there is no error: the survivors destroy it.
    ///
    /// # Panics
    /// If this PE is not a member, or the team is a predefined one.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let alone = shmem.split_strided(shmem.team_world(), 0, 1, 1)?.expect("PE 0 is in it");
    /// shmem.destroy(alone)?;
    /// let ask = std::panic::AssertUnwindSafe(|| shmem.team_size(alone));
    /// assert!(std::panic::catch_unwind(ask).is_err()); // it is not a team any more
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn destroy(&mut self, team: Team) -> Result<(), Fault> {
        let given = team == self.team_world() || team == self.team_shared();
        assert!(!given, "{team:?} cannot be destroyed: expected a team from a split");
        let group = team.group("destroy").through(SyncPoint::Destroy);
        // Agreements succeed even if a member is lost.
        if group.agreed((u64::MAX, 0)).is_none() {
            self.healthy()?;
            collective::pass(group).map_err(Fault::of)?;
        }
        split::destroy("destroy", team.number());
        Ok(())
    }
}

/// Checks that all members passed the same words, or fails on all.
fn agree(team: Team, words: &[u64]) -> Result<(), Error> {
    let group = team.group("split").through(SyncPoint::Split);
    let world = raidshmem_runtime::pgas::world();
    if world.shrinks() {
        return agree_among(&group, words);
    }
    world.loss_response().healthy().map_err(Fault::of)?;
    let mut equal = true;
    for &word in words {
        let said = collective::all_gather(&group, MASK_AT, word).map_err(Fault::of)?;
        equal &= said.iter().all(|other| *other == word);
    }
    if equal { Ok(()) } else { Err(Error::NoTeam(DIFFER)) }
}

/// Like [`agree`], among the survivors.
fn agree_among(group: &Group, words: &[u64]) -> Result<(), Error> {
    let same: Result<Vec<bool>, Fault> =
        words.iter().map(|&word| fewer::same(group, word)).collect();
    match same?.into_iter().all(|same| same) {
        true => Ok(()),
        false => Err(Error::NoTeam(DIFFER)),
    }
}

impl From<Unsplit> for Error {
    fn from(why: Unsplit) -> Error {
        match why {
            Unsplit::Outside => Error::NoTeam("it would have PEs that the parent has not, or none"),
            Unsplit::Full => Error::NoTeam("a PE is in as many teams as there can be"),
            Unsplit::Fault => Error::Fault(Fault::new()),
        }
    }
}
