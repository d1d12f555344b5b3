//! The versions of the loops, as one type.
//!
//! A version with instructions of its own contains the proof that the CPU has them, which only its
//! constructor creates; so any existing [`Version`] can be run.

#![forbid(unsafe_code)]

use super::fold::{Block, Streamed};
use super::naive::Naive;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::sum::{Loops, Sum};
use super::wide::Wide;
#[cfg(target_arch = "x86_64")]
use super::{
    avx2::Avx2,
    avx512::Avx512,
    clmul::{Clmul256, Clmul512},
    gfni::{Gfni256, Gfni512},
    ssse3::Ssse3,
};

/// Defines [`Version`] and the methods that enumerate all versions.
macro_rules! versions {
    ($($(#[$cfg:meta])? $version:ident = $name:literal, $new:expr;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum Version {
            $($(#[$cfg])? $version($version),)*
        }

        impl Version {
            /// Returns the version of this name, if this machine can run it.
            pub(super) fn named(name: &str) -> Option<Version> {
                match name {
                    $($(#[$cfg])? $name => $new.map(Version::$version),)*
                    _ => None,
                }
            }

            pub(super) fn name(self) -> &'static str {
                match self {
                    $($(#[$cfg])? Version::$version(_) => $name,)*
                }
            }

            pub(super) fn combine(self, sum: &Sum<'_>, outs: &mut [&mut [u8]]) {
                match self {
                    $($(#[$cfg])? Version::$version(loops) => loops.combine(sum, outs),)*
                }
            }

            pub(super) fn powers(self, sum: &Sum<'_>, first: usize, outs: &mut [&mut [u8]]) {
                match self {
                    $($(#[$cfg])? Version::$version(loops) => loops.powers(sum, first, outs),)*
                }
            }
        }
    };
}

versions! {
    Naive = "naive", Some(Naive);
    Wide = "wide", Some(Wide);
    #[cfg(target_arch = "aarch64")] Neon = "neon", Neon::new();
    #[cfg(target_arch = "x86_64")] Ssse3 = "ssse3", Ssse3::new();
    #[cfg(target_arch = "x86_64")] Avx2 = "avx2", Avx2::new();
    #[cfg(target_arch = "x86_64")] Gfni256 = "gfni256", Gfni256::new();
    #[cfg(target_arch = "x86_64")] Avx512 = "avx512", Avx512::new();
    #[cfg(target_arch = "x86_64")] Gfni512 = "gfni512", Gfni512::new();
}

/// A version of the loop that folds checksums.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fold {
    #[cfg(target_arch = "x86_64")]
    Clmul256(Clmul256),
    #[cfg(target_arch = "x86_64")]
    Clmul512(Clmul512),
}

impl Fold {
    /// Replaces `sum` by the block equivalent to it followed by `from`. Also copies `from` to `to`,
    /// if given, past the caches if the destination is aligned to 64 bytes.
    ///
    /// # Panics
    /// If `to` is too short for the copy.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub(crate) fn run(self, sum: &mut Block, from: &[Block], to: Option<Streamed<'_>>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Fold::Clmul256(fold) => fold.run(sum, from, to),
            #[cfg(target_arch = "x86_64")]
            Fold::Clmul512(fold) => fold.run(sum, from, to),
        }
    }
}

impl Version {
    /// Returns the checksum loop for the registers of this version, if there is one.
    pub(super) fn fold(self) -> Option<Fold> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Version::Avx2(_) | Version::Gfni256(_) => Clmul256::new().map(Fold::Clmul256),
            #[cfg(target_arch = "x86_64")]
            Version::Avx512(_) | Version::Gfni512(_) => Clmul512::new().map(Fold::Clmul512),
            _ => None,
        }
    }
}
