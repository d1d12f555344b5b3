//! The choice of a kernel: the names of all kernels, those this machine can run, the one in use.
//!
//! Invariant: [`Kernel::NAMES`] lists every version of every architecture, slowest first;
//! [`Kernel::available`] is a subsequence of it. The choice is made once and does not change.
//!
//! Left out: a choice by measurement.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::OnceLock;

use super::Kernel;
use super::naive::Naive;
use super::version::Version;
use super::wide::Wide;
use crate::error::Error;

/// The environment variable that names the kernel to use. Empty counts as not set.
pub const KNOB: &str = "RAIDSHMEM_KERNEL";

impl Kernel {
    /// The reference for testing the others: one byte at a time, field products bit by bit.
    pub const NAIVE: Kernel = Kernel(Version::Naive(Naive));

    /// The portable version: XOR in blocks the compiler turns into vector code, field products by
    /// `reed-solomon-erasure`.
    pub const WIDE: Kernel = Kernel(Version::Wide(Wide));

    /// The names of all versions of all architectures, slowest first.
    pub const NAMES: [&str; 8] =
        ["naive", "wide", "neon", "ssse3", "avx2", "avx512", "gfni256", "gfni512"];

    /// Returns the kernel of this name, or `None` if it does not exist or this machine cannot run
    /// it.
    pub fn named(name: &str) -> Option<Kernel> {
        Version::named(name).map(Kernel)
    }

    /// Returns the name of this kernel, one of [`Kernel::NAMES`].
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns the kernels that can run on this machine, slowest first; never empty. Examines the
    /// CPU once.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(|| Kernel::NAMES.into_iter().filter_map(Kernel::named).collect())
    }

    /// Returns the fastest kernel that can run on this machine.
    pub fn best() -> Kernel {
        *Kernel::available().last().expect("two kernels run anywhere")
    }

    /// Returns the default kernel of codes: the one that the environment variable
    /// `RAIDSHMEM_KERNEL` names, or else [`Kernel::best`]. Reads the variable once.
    ///
    /// # Errors
    /// [`Error::Kernel`] if it names a kernel that is not in [`Kernel::available`].
    pub fn chosen() -> Result<Kernel, Error> {
        static CHOSEN: OnceLock<Result<Kernel, Error>> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let asked = std::env::var_os(KNOB).unwrap_or_default();
            match asked.to_string_lossy() {
                name if name.is_empty() => Ok(Kernel::best()),
                name => Kernel::named(&name).ok_or_else(|| refusal(&name)),
            }
        })
    }
}

/// Builds the error. It is built at most once per process, so leaking its strings is harmless.
fn refusal(asked: &str) -> Error {
    let names: Vec<&str> = Kernel::available().iter().map(|kernel| kernel.name()).collect();
    Error::Kernel { expected: names.join(", ").leak(), got: asked.to_owned().leak() }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
