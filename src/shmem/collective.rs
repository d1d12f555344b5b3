//! Collectives over the team of an exchange, on checked handles.
//!
//! Every PE of the team makes these calls in one order, from one thread at a time, and with equal
//! lengths unless a function allows otherwise. Sources are read in place, so they must be complete:
//! if a PE has put data into a peer's source in this exchange, a [`Peers::barrier`] must come
//! first.
//!
//! Errors, of all: [`Fault`] if a PE was lost; the contents of the destination are then
//! unspecified. Panics, of all: if a handle names no symmetric memory, or lengths do not fit.

use super::atomic::{Bits, Number, Word};
use super::{Fault, Peers, SymSlice, Symmetric};
use crate::openshmem::bits::Zero;
use crate::openshmem::collective;
use crate::openshmem::memory::address::{Sym, SymIn};
use crate::openshmem::memory::strides::Strided;
use crate::openshmem::number::{Bitwise, Number as Arithmetic, Ordered};

/// An element of any plain type, for the functions under the C API.
#[repr(transparent)]
struct Plain<T>(T);

impl<T: Copy> Clone for Plain<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for Plain<T> {}

impl<T: Symmetric> Zero for Plain<T> {
    fn zero() -> Self {
        Plain(T::zeroed())
    }
}

/// Defines the named reductions of slices.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $bound:ident $trait:ident $op:ident;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// [`Fault`] if a PE was lost.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn $name<T: $bound>(&self, to: SymSlice<T>, from: SymSlice<T>) -> Result<(), Fault> {
            self.reduce_into(to, from, <T as $trait>::$op)
        })*
    };
}

impl Peers<'_> {
    /// Gathers the values of all PEs on every PE, in the order of the team.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let me = shmem.my_pe() as u64;
    /// let all = shmem.exchange(|peers| peers.gather(me))??;
    /// assert!(all.into_iter().eq(0..shmem.n_pes() as u64));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn gather<T: Word>(&self, value: T) -> Result<Vec<T>, Fault> {
        let all =
            collective::gather(&self.group("Peers::gather"), value.bits()).map_err(Fault::of)?;
        Ok(all.into_iter().map(T::of).collect())
    }

    /// Combines the values of all PEs, in the order of the team; every PE gets the same result.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let error = 0.25 * (shmem.my_pe() + 1) as f64;
    /// let worst = shmem.exchange(|peers| peers.reduce(error, f64::max))??;
    /// assert_eq!(worst, 0.25 * shmem.n_pes() as f64);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn reduce<T: Word>(&self, value: T, op: impl Fn(T, T) -> T) -> Result<T, Fault> {
        let all = self.gather(value)?;
        Ok(all.into_iter().reduce(op).expect("a team has a PE"))
    }

    /// Copies `from` of PE `root` to `to` of every PE, including `root`.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the lengths differ or `root` does not exist.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (mine, theirs) = (shmem.alloc_from(&[shmem.my_pe(); 3])?, shmem.alloc::<usize>(3)?);
    /// shmem.exchange(|peers| peers.broadcast(0, theirs, mine))??;
    /// assert_eq!(shmem.local(theirs), [0; 3]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn broadcast<T: Symmetric>(
        &self,
        root: usize,
        to: SymSlice<T>,
        from: SymSlice<T>,
    ) -> Result<(), Fault> {
        self.pe(root);
        assert!(to.len() == from.len(), "broadcast of {} elements to {}", from.len(), to.len());
        let group = self.group("Peers::broadcast");
        let root = (root as i32, true);
        collective::broadcast(group, self.at(to), self.from(from), to.bytes(), root)
            .map_err(Fault::of)
    }

    /// Concatenates the `from` of all PEs into `to` of every PE. Lengths may differ from PE to PE.
    /// Returns the total number of elements.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If there are more elements than fit `to`, the job ends with an error message.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let n = shmem.n_pes();
    /// let (mine, all) = (shmem.alloc_from(&[7u8; 5])?, shmem.alloc::<u8>(5 * n)?);
    /// let count = shmem.my_pe() + 1; // PE p gives p + 1
    /// let there = shmem.exchange(|peers| peers.collect(all, mine.range(..count)))??;
    /// assert_eq!(there, n * (n + 1) / 2);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn collect<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
    ) -> Result<usize, Fault> {
        let group = self.group("Peers::collect");
        let dest = (self.at(to), to.bytes());
        let bytes = collective::collect(group, dest, self.from(from), from.bytes());
        Ok(bytes.map_err(Fault::of)? / size_of::<T>())
    }

    /// Concatenates the `from` of all PEs, of equal lengths, into `to` of every PE.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the length of `to` is not the sum of their lengths.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let n = shmem.n_pes();
    /// let (mine, all) = (shmem.alloc_one(shmem.my_pe())?, shmem.alloc::<usize>(n)?);
    /// shmem.exchange(|peers| peers.fcollect(all, mine.as_slice()))??;
    /// assert!(shmem.local(all).iter().copied().eq(0..n));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn fcollect<T: Symmetric>(&self, to: SymSlice<T>, from: SymSlice<T>) -> Result<(), Fault> {
        let (n, each) = (self.n_pes(), from.len());
        assert!(Some(to.len()) == each.checked_mul(n), "{n} times {each} elements to {}", to.len());
        let group = self.group("Peers::fcollect");
        collective::fcollect(group, self.at(to), self.from(from), from.bytes()).map_err(Fault::of)
    }

    /// Splits `from` into one block per PE, and concatenates in `to` the blocks of all PEs for this
    /// one.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the lengths differ or are not a multiple of the number of PEs.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (me, n) = (shmem.my_pe(), shmem.n_pes());
    /// let row: Vec<usize> = (0..n).map(|column| me * n + column).collect();
    /// let (row, column) = (shmem.alloc_from(&row)?, shmem.alloc::<usize>(n)?);
    /// shmem.exchange(|peers| peers.alltoall(column, row))??;
    /// assert!(shmem.local(column).iter().copied().eq((0..n).map(|row| row * n + me)));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn alltoall<T: Symmetric>(&self, to: SymSlice<T>, from: SymSlice<T>) -> Result<(), Fault> {
        let (n, len) = (self.n_pes(), from.len());
        assert!(to.len() == len && len.is_multiple_of(n), "{len} to {} of {n} PEs", to.len());
        let group = self.group("Peers::alltoall");
        let bytes = from.bytes() / n;
        collective::alltoall(group, self.at(to), self.from(from), bytes).map_err(Fault::of)
    }

    /// Like [`Peers::alltoall`], with blocks of `count` elements that are `step` elements apart, in
    /// `to` and in `from`.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If a step is 0, or a slice does not reach to its last element.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (me, n) = (shmem.my_pe(), shmem.n_pes());
    /// let (from, to) = (shmem.alloc_from(&vec![me; n])?, shmem.alloc::<usize>(2 * n)?);
    /// shmem.exchange(|peers| peers.alltoalls((to, 2), (from, 1), 1))??;
    /// assert!(shmem.local(to).iter().step_by(2).copied().eq(0..n));
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn alltoalls<T: Symmetric>(
        &self,
        (to, to_step): (SymSlice<T>, usize),
        (from, from_step): (SymSlice<T>, usize),
        count: usize,
    ) -> Result<(), Fault> {
        let elements = self.n_pes().checked_mul(count);
        for (slice, step) in [(to, to_step), (from, from_step)] {
            let reach = elements.map(|elements| elements.saturating_sub(1).saturating_mul(step));
            let fits = reach.is_some_and(|reach| count == 0 || reach < slice.len());
            assert!(step > 0 && fits, "{count} for each PE, steps of {step}, in {}", slice.len());
        }
        let shape = Strided {
            dst: to_step.cast_signed(),
            sst: from_step.cast_signed(),
            bsize: 1,
            nblocks: count,
            element_bytes: size_of::<T>(),
        };
        let group = self.group("Peers::alltoalls");
        collective::alltoalls(group, self.at(to), self.from(from), shape).map_err(Fault::of)
    }

    /// Combines the elements of all PEs' `from` one by one into `to` of every PE; all get the same
    /// bytes. Operands stay in the order of the team, and their grouping depends only on its size
    /// (`core/schedule/reduction.rs`). `to` may be `from`.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the lengths differ.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let boxes = shmem.alloc_from(&[[0.0f32, 1.0], [2.0, 3.0]])?; // [low, high] of each
    /// shmem.exchange(|peers| {
    ///     peers.reduce_into(boxes, boxes, |a, b| [a[0].min(b[0]), a[1].max(b[1])])
    /// })??;
    /// assert_eq!(shmem.local(boxes), [[0.0, 1.0], [2.0, 3.0]]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn reduce_into<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
        op: impl Fn(T, T) -> T,
    ) -> Result<(), Fault> {
        let (dest, source) = self.both(to, from);
        let op = |Plain(a), Plain(b)| Plain(op(a, b));
        let group = self.group("Peers::reduce_into");
        collective::reduce(group, dest, source, from.len(), op).map_err(Fault::of)
    }

    reductions! {
        /// Sums element by element: [`Peers::reduce_into`] with `+`, integers wrapping.
        ///
        /// ```
        /// let mut shmem = raidshmem::Shmem::init();
        /// let (ones, sum) = (shmem.alloc_from(&[1i32; 4])?, shmem.alloc::<i32>(4)?);
        /// shmem.exchange(|peers| peers.sum(sum, ones))??;
        /// assert_eq!(shmem.local(sum), [shmem.n_pes() as i32; 4]);
        /// # Ok::<(), raidshmem::Error>(())
        /// ```
        sum Number Arithmetic sum;
        /// Multiplies element by element, integers wrapping. See [`Peers::sum`].
        prod Number Arithmetic prod;
        /// Takes the minimum element by element. See [`Peers::sum`].
        min Number Ordered min;
        /// Takes the maximum element by element. See [`Peers::sum`].
        max Number Ordered max;
        /// Combines by bitwise and, element by element. See [`Peers::sum`].
        and Bits Bitwise and;
        /// Combines by bitwise or, element by element. See [`Peers::sum`].
        or Bits Bitwise or;
        /// Combines by bitwise exclusive or, element by element. See [`Peers::sum`].
        xor Bits Bitwise xor;
    }

    /// Combines, element by element, the `from` of the PEs up to and including this one.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the lengths differ.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (one, upto) = (shmem.alloc_one(1u64)?, shmem.alloc::<u64>(1)?);
    /// shmem.exchange(|peers| peers.inscan(upto, one.as_slice(), |a, b| a + b))??;
    /// assert_eq!(shmem.local(upto), [shmem.my_pe() as u64 + 1]);
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn inscan<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
        op: impl Fn(T, T) -> T,
    ) -> Result<(), Fault> {
        self.scan(to, from, (true, op))
    }

    /// Combines, element by element, the `from` of the PEs before this one; zeroes on the first PE.
    ///
    /// # Errors
    /// [`Fault`] if a PE was lost.
    ///
    /// # Panics
    /// If the lengths differ.
    ///
    /// ```
    /// let mut shmem = raidshmem::Shmem::init();
    /// let (count, first) = (shmem.alloc_one(10u64)?, shmem.alloc::<u64>(1)?);
    /// shmem.exchange(|peers| peers.exscan(first, count.as_slice(), |a, b| a + b))??;
    /// assert_eq!(shmem.local(first), [10 * shmem.my_pe() as u64]); // where this PE's ten begin
    /// # Ok::<(), raidshmem::Error>(())
    /// ```
    pub fn exscan<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
        op: impl Fn(T, T) -> T,
    ) -> Result<(), Fault> {
        self.scan(to, from, (false, op))
    }

    fn scan<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
        (inclusive, op): (bool, impl Fn(T, T) -> T),
    ) -> Result<(), Fault> {
        let (dest, source) = self.both(to, from);
        let op = |Plain(a), Plain(b)| Plain(op(a, b));
        let group = self.group("Peers::scan");
        collective::scan(group, dest, source, from.len(), (inclusive, op)).map_err(Fault::of)
    }

    /// Returns both ends of a reduction, which have equal lengths.
    fn both<T: Symmetric>(
        &self,
        to: SymSlice<T>,
        from: SymSlice<T>,
    ) -> (Sym<Plain<T>>, SymIn<Plain<T>>) {
        assert!(to.len() == from.len(), "{} elements to {}", from.len(), to.len());
        (Sym::at(self.at(to).addr()), SymIn::at(self.from(from).addr()))
    }
}
