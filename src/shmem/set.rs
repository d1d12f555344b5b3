//! Reading of a checkpoint on disk by a job of any number of PEs.

#![forbid(unsafe_code)]

use raidshmem_core::quantity::Pe;
use raidshmem_disk::reader::{ReadError, SetReader};

use super::error::Error;
use super::handle::Symmetric;

/// A checkpoint on disk (`SHMEM_FT_STORE`), open for reading. The job that reads it may have
/// another number of PEs than the one that wrote it, and distributes the data anew. Not collective:
/// each PE opens it for itself.
///
/// Bytes are verified when they are read; those of a missing or damaged file are decoded if the set
/// has parity (`SHMEM_FT_STORE_LAYOUT=local`, with the folders of all nodes in one place).
///
/// The names of objects:
///
/// | name | object |
/// | --- | --- |
/// | `heap:3` | the fourth block of the heap by address; a Rust program's own begin at 1 |
/// | `private:state` | memory of [`protect`](super::ft::protect) under the name `state` |
/// | `static:swept` | a static variable of a C program |
/// | `heap:grid`, `heap:row[1]` | the block that a static pointer of a C program points to |
///
/// Without a kind, `private` is tried before `heap`, and `heap` before `static`.
///
/// ```no_run
/// use raidshmem::ft::CheckpointSet;
///
/// let set = CheckpointSet::open("store@7")?;
/// let mut cells = vec![0.0f64; 1000];
/// for pe in 0..set.n_pes() {
///     set.read("heap:1", pe, 0, &mut cells)?;
///     // use the cells that PE `pe` had
/// }
/// # Ok::<(), raidshmem::Error>(())
/// ```
pub struct CheckpointSet {
    reader: SetReader,
}

impl CheckpointSet {
    /// Opens set 7 of a folder (`DIR@7`), or the newest that is whole or can be decoded (`DIR`).
    ///
    /// # Errors
    /// [`Error::Set`] if there is none.
    pub fn open(given: &str) -> Result<CheckpointSet, Error> {
        Ok(CheckpointSet { reader: SetReader::open(given).map_err(of)? })
    }

    /// Returns the number of the set.
    pub fn number(&self) -> u64 {
        self.reader.number()
    }

    /// Returns the number of PEs that wrote it.
    pub fn n_pes(&self) -> usize {
        self.reader.pes()
    }

    /// Returns the names of the objects of a PE, and their bytes.
    ///
    /// # Errors
    /// [`Error::Set`] if there is no such PE, or its file can be neither read nor decoded.
    pub fn objects(&self, pe: usize) -> Result<Vec<(&str, u64)>, Error> {
        let objects = self.reader.objects(Pe::of(pe)).map_err(of)?;
        Ok(objects.iter().map(|object| (object.name.as_str(), object.len)).collect())
    }

    /// Fills `into` from an object of a PE, starting at its element `first`.
    ///
    /// # Errors
    /// [`Error::Set`] if there is no such object, PE or element, or if they can be neither read nor
    /// decoded; some of `into` may then be filled.
    pub fn read<T: Symmetric>(
        &self,
        object: &str,
        pe: usize,
        first: usize,
        into: &mut [T],
    ) -> Result<(), Error> {
        let offset = (first as u64).saturating_mul(size_of::<T>() as u64);
        let bytes = bytemuck::cast_slice_mut(into);
        self.reader.read(object, Pe::of(pe), offset, bytes).map_err(of)
    }
}

fn of(error: ReadError) -> Error {
    Error::Set(error.to_string())
}
