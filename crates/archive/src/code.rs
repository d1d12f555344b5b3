//! The code that computes the parity of a set, as recorded in its manifest.
//!
//! Invariant of a decoded one: every PE is in exactly one group, and each group has more members
//! than parities.

use raidshmem_codec::stripe::Scheme;
use raidshmem_core::disk::ParityShare;
use raidshmem_core::quantity::Pe;
use raidshmem_core::store::protection::{GroupLayout, Protection};

use crate::bytes::{Reader, Writer};
use crate::error::FormatError;

/// The placement of parity in files; `docs/format.md` has the schemes and the arithmetic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// `mirror`, `raid4`, `raid5` or `rs`.
    pub scheme: String,
    /// Parities of each stripe.
    pub parity: u32,
    /// The PEs of each group, in the order of their places.
    pub groups: Vec<Vec<Pe>>,
}

impl Code {
    /// Returns the code of a job.
    pub fn of(protection: &Protection) -> Code {
        let scheme = protection.mode.scheme(protection.plan.parity);
        let scheme = scheme.map_or("none", Scheme::name); // without a scheme there are no files
        let groups = protection.shapes.iter().map(|shape| shape.members.clone()).collect();
        Code { scheme: scheme.to_owned(), parity: protection.plan.parity as u32, groups }
    }

    /// Returns the amount of parity that each PE keeps, in their order.
    pub fn shares(protection: &Protection) -> Vec<ParityShare> {
        let share = |pe: Pe| {
            let (shape, place) = protection.place(pe);
            let (chunks, held) = (shape.layout.chunks(), shape.layout.parities_of(place).len());
            ParityShare { pe, chunks: chunks as u32, held: held as u32 }
        };
        Pe::all(protection.plan.of.len()).map(share).collect()
    }

    /// Returns true if its parity is computed by this scheme.
    pub fn is_by(&self, scheme: Scheme) -> bool {
        self.scheme == scheme.name() && self.parity as usize == scheme.parity()
    }

    /// Returns the layouts of its groups.
    ///
    /// # Errors
    /// This build does not know the scheme, or a group does not suit it, as text.
    pub fn groups(&self) -> Result<Vec<GroupLayout>, String> {
        let is_it = |scheme: &Scheme| scheme.name() == self.scheme;
        let scheme = Scheme::all(self.parity as usize).find(is_it).ok_or_else(|| {
            format!("its parity is of another kind, {}", self.scheme.escape_debug())
        })?;
        let group = |members: &Vec<Pe>| GroupLayout::new(scheme, members.clone());
        let groups = self.groups.iter().map(group).collect::<Result<_, _>>();
        groups.map_err(|error| format!("its parity: {error}"))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.run(self.scheme.as_bytes());
        out.u32(self.parity);
        out.count(self.groups.len());
        for group in &self.groups {
            out.count(group.len());
            group.iter().for_each(|pe| out.u32(pe.0));
        }
    }

    pub(crate) fn read(body: &mut Reader<'_>) -> Result<Code, FormatError> {
        let (scheme, parity) = (body.text()?, body.u32()?);
        let groups = body.list(8, |body| body.list(4, |body| Ok(Pe(body.u32()?))))?;
        Ok(Code { scheme, parity, groups })
    }

    /// Returns true if the code is valid for `pes` PEs.
    pub(crate) fn is_of(&self, pes: usize) -> bool {
        let mut all: Vec<Pe> = self.groups.iter().flatten().copied().collect();
        all.sort_unstable();
        let has_data = |group: &Vec<Pe>| group.len() > self.parity as usize;
        self.parity > 0 && self.groups.iter().all(has_data) && all.into_iter().eq(Pe::all(pes))
    }
}
