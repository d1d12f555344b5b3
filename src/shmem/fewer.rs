//! Shrink mode: exchanges among the surviving PEs, and agreements.
//!
//! Every survivor passes both gates of an exchange, whatever losses it knows of. At each gate all
//! reach one decision, so an exchange begins on all of them or on none, and has the same outcome on
//! all.
//!
//! Soundness: passing a gate proves that every surviving member reached it. A member that is lost
//! in the view of the decision has ended, and this PE has cut its connection before it proceeds, so
//! none of its writes arrive any more. A loss handler receives no token, and its panic ends the
//! process, so no call continues that it interrupted.

use raidshmem_core::quantity::Pe;
use raidshmem_runtime::fault_tolerance as ft;

use super::error::Loss;
use super::token::EndOnPanic;
use super::{Error, Fault, Peers, Shmem, SymRef, SymSlice, Symmetric, Team};
use crate::openshmem::check;
use crate::openshmem::group::{Group, SyncPoint};
use crate::openshmem::memory::address::In;
use crate::openshmem::memory::logged::unlogged;
use crate::openshmem::memory::twice;
use crate::openshmem::split::{self, Unsplit};
use crate::openshmem::team;

/// The result of an agreement among all living members of a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The bits that all members passed.
    pub value: u64,
    /// True if every living member has acknowledged ([`restart_pes`](super::ft::restart_pes)) every
    /// loss in the team.
    pub acknowledged: bool,
}

/// Agrees on one value with all living members of a team, whichever PEs die meanwhile: the bits
/// that all of them passed. The value of a member that dies counts on all survivors or on none.
/// Collective over the team, outside of exchanges. Only with `SHMEM_FT_ROLLBACK=none`.
///
/// # Panics
/// If this PE is not a member.
///
/// ```no_run
/// let mut shmem = raidshmem::Shmem::init();
/// let (world, mine) = (shmem.team_world(), 0b110 | shmem.my_pe() as u64);
/// let agreed = raidshmem::ft::agree(&mut shmem, world, mine);
/// assert_eq!(agreed.value & 0b110, 0b110);
/// ```
pub fn agree(shmem: &mut Shmem, team: Team, value: u64) -> Agreed {
    unlogged("ft::agree");
    let _alone = shmem;
    check::needs_shrink("ft::agree");
    let decision = team.group("ft::agree").through(SyncPoint::Agree).agree((value, 0));
    Agreed { value: decision.value, acknowledged: !decision.has_news() }
}

/// Makes a team of the living members of a team, in the order of their numbers; its exchanges work
/// normally until another PE is lost. Collective over the living members. Only with
/// `SHMEM_FT_ROLLBACK=none`.
///
/// # Errors
/// [`Error::NoTeam`] if a PE is already in 62 such teams.
///
/// # Panics
/// If this PE is not a member.
///
/// ```no_run
/// let mut shmem = raidshmem::Shmem::init();
/// let mut team = shmem.team_world();
/// while shmem.exchange_in(team, |peers| { /* work */ }).is_err() {
///     team = raidshmem::ft::shrink(&mut shmem, team)?; // and do it again
/// }
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn shrink(shmem: &mut Shmem, team: Team) -> Result<Team, Error> {
    unlogged("ft::shrink");
    let _alone = shmem;
    check::needs_shrink("ft::shrink");
    team.group("ft::shrink"); // panics for a PE that is not a member
    let made = split::shrink("ft::shrink", (team.number(), SyncPoint::Shrink));
    made.and_then(Team::of).ok_or_else(|| Unsplit::Full.into())
}

/// Returns the lost members of a team, by their numbers in it, ascending. A PE that a substitute
/// has replaced is not lost. Local: members may learn of a loss at different times.
///
/// # Panics
/// If the team does not exist.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// assert!(raidshmem::ft::failed(&shmem, shmem.team_world()).is_empty());
/// ```
pub fn failed(_shmem: &Shmem, team: Team) -> Vec<usize> {
    unlogged("ft::failed");
    let (_, _, size) = team.members();
    let pes = (0..size as i32).filter_map(|pe| team::to_world(team.number(), pe));
    let lost = ft::failed(pes).into_iter().enumerate();
    lost.filter_map(|(pe, lost)| lost.then_some(pe)).collect()
}

/// Returns a member of a team that suits as the shadow of member `pe` for [`Peers::put2`]: one on
/// another node, if the team has any. If all nodes have equally many members, each member is the
/// shadow of exactly one. All PEs get the same result; `None` if there is no other member.
///
/// # Panics
/// If the team or the member does not exist.
///
/// ```
/// let shmem = raidshmem::Shmem::init();
/// let world = shmem.team_world();
/// assert_eq!(raidshmem::ft::shadow(&shmem, world, 0), None, "one PE is alone");
/// ```
pub fn shadow(_shmem: &Shmem, team: Team, pe: usize) -> Option<usize> {
    let (_, _, size) = team.members();
    assert!(pe < size, "PE {pe}: expected 0..={}", size - 1);
    team::shadow(team.number(), pe)
}

/// Registers `handler`, which is called for each loss that has not been acknowledged: once, by this
/// thread, in its next call that concerns other PEs. Only with `SHMEM_FT_ROLLBACK=none`.
///
/// A panic of `handler` ends this PE, since it may interrupt any call.
///
/// ```no_run
/// let mut shmem = raidshmem::Shmem::init();
/// raidshmem::ft::on_fault(&mut shmem, |pe, how| eprintln!("PE {pe} is lost: {how:?}"));
/// ```
pub fn on_fault(shmem: &mut Shmem, handler: impl Fn(usize, Loss) + Send + 'static) {
    unlogged("ft::on_fault");
    let _alone = shmem;
    check::needs_shrink("ft::on_fault");
    ft::on_fault(move |pe, status| {
        let bomb = EndOnPanic;
        handler(pe.at(), Loss::of(status));
        std::mem::forget(bomb);
    });
}

/// Copies elements of PE `pe` (of all PEs), as of the last checkpoint, to private memory, decoded
/// from parity if the PE is lost; returns the checkpoint's number. Data read under equal numbers is
/// of one checkpoint. Only with `SHMEM_FT_ROLLBACK=none` and a mode with parity.
///
/// `None` if there is no checkpoint, if it does not hold all of the elements, or if the losses
/// exceed its parity; the contents of `to` are then unspecified. No other PE has to call it.
///
/// # Panics
/// If the lengths differ, the PE does not exist, or the handle names no symmetric memory.
///
/// ```no_run
/// let mut shmem = raidshmem::Shmem::init();
/// let cells = shmem.alloc::<f64>(8)?;
/// let mut theirs = [0.0; 8];
/// let number = raidshmem::ft::get_checkpoint(&mut shmem, 1, cells, &mut theirs);
/// println!("{theirs:?} in checkpoint {number:?}");
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub fn get_checkpoint<T: Symmetric>(
    shmem: &mut Shmem,
    pe: usize,
    from: SymSlice<T>,
    to: &mut [T],
) -> Option<u64> {
    unlogged("ft::get_checkpoint");
    check::needs_shrink("ft::get_checkpoint");
    let (n, elements) = (shmem.n_pes(), from.len());
    assert!(pe < n, "PE {pe}: expected 0..={}", n - 1);
    assert!(elements == to.len(), "get of {elements} elements to {}", to.len());
    let (at, mut done) = (from.checked(shmem.world), 0);
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(to);
    let give = |piece: &[u8]| {
        bytes[done..done + piece.len()].copy_from_slice(piece);
        done += piece.len();
    };
    let (number, got) = ft::get_checkpoint(Pe::of(pe), at..at + from.bytes(), give);
    got.then_some(number.program())
}

impl Shmem {
    /// Runs an exchange among the surviving PEs.
    pub(super) fn exchange_among<R>(
        &mut self,
        (team, group): (Team, Group),
        body: impl FnOnce(&Peers) -> R,
    ) -> Result<R, Fault> {
        let pass = |gate| group.through(gate).meet().map_err(Fault::of);
        pass(SyncPoint::Open)?;
        let bomb = EndOnPanic;
        let result = body(&Peers::new(self.world, team));
        std::mem::forget(bomb);
        self.world.transfers().quiet_all(); // contexts included
        pass(SyncPoint::Close)?;
        Ok(result)
    }
}

impl Peers<'_> {
    /// Gets elements like [`Peers::get`]; fails if they must not be used.
    ///
    /// # Errors
    /// [`Fault`] if the PE is lost, or, outside of shrink mode, if any PE is; the elements are
    /// zeroes.
    ///
    /// # Panics
    /// If the lengths differ or the PE does not exist.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc_from(&[1.5f64, 2.5])?;
    /// let mut there = [0.0; 2];
    /// shmem.exchange(|peers| peers.try_get(0, cells, &mut there))??;
    /// assert_eq!(there, [1.5, 2.5]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn try_get<T: Symmetric>(
        &self,
        pe: usize,
        from: SymSlice<T>,
        to: &mut [T],
    ) -> Result<(), Fault> {
        self.get(pe, from, to);
        if ft::may_use(Pe(self.pe(pe).pe as u32)) { Ok(()) } else { Err(Fault::new()) }
    }

    /// Copies private memory of this PE to elements of `pe`, and then to these elements of
    /// `shadow`; both copies are complete when it returns. Whichever PEs die meanwhile, this PE
    /// included, one copy is whole: that of `shadow` until the first is complete, that of `pe` from
    /// then on. An element that is updated with a second `put2` afterwards marks both copies as
    /// new. Both PEs are numbers of the exchange's team; [`ft::shadow`](super::ft::shadow) pairs
    /// them.
    ///
    /// # Errors
    /// [`Fault`] if one of the two is lost, or, outside of shrink mode, if any PE is. The other
    /// one then has the elements.
    ///
    /// # Panics
    /// If the lengths differ or a PE does not exist. If both are one PE, or are on one node while
    /// PEs live on several, the job ends with an error message.
    ///
    /// ```no_run
    /// let mut shmem = raidshmem::Shmem::init();
    /// let cells = shmem.alloc::<u64>(2)?;
    /// shmem.exchange(|peers| peers.put2([0, 1], cells, &[3, 4]))??;
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn put2<T: Symmetric>(
        &self,
        [pe, shadow]: [usize; 2],
        to: SymSlice<T>,
        from: &[T],
    ) -> Result<(), Fault> {
        unlogged("Peers::put2");
        assert!(from.len() == to.len(), "put2 of {} elements to {}", from.len(), to.len());
        let (both, dest) = ([pe, shadow].map(|pe| self.pe(pe)), self.at(to));
        let source = In::of(bytemuck::cast_slice::<T, u8>(from));
        match twice::put("Peers::put2", dest, source, to.bytes(), both) {
            true => Ok(()),
            false => Err(Fault::new()),
        }
    }

    /// Reads one element like [`Peers::read`]; fails if it must not be used.
    ///
    /// # Errors
    /// Like [`Peers::try_get`].
    pub fn try_read<T: Symmetric>(&self, pe: usize, from: SymRef<T>) -> Result<T, Fault> {
        let mut value = [T::zeroed()];
        self.try_get(pe, from.as_slice(), &mut value)?;
        Ok(value[0])
    }
}

/// Returns true if all members passed the same word.
pub(super) fn same(group: &Group, word: u64) -> Result<bool, Fault> {
    let ones = group.agree((word, 0));
    let zeroes = group.agree((!word, 0));
    group.whole(&ones).and_then(|()| group.whole(&zeroes)).map_err(Fault::of)?;
    Ok(ones.value | zeroes.value == u64::MAX)
}
