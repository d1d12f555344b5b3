//! x86-64 with VPCLMULQDQ: the loop of [`super::fold`] on the registers of AVX2 or AVX-512.
//!
//! Unsafe because the instructions are: each call relies on [`Clmul256`] or [`Clmul512`] being a
//! proof. Left out: loads, stores and XOR, which come from the register types.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)] // as in `generic`

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::fold::{Block, Streamed};
use super::vector::Vector;

/// Bits of a block: the distance by which a word is moved.
const MOVED: u32 = 8 * size_of::<Block>() as u32;

/// The factors for the first and the second word of each pair. Both products end at the end of the
/// pair, so the first word is moved by half a word more than a block, and the second, which ends a
/// word later, by half a word less.
const FACTORS: [u8; 16] =
    (power(MOVED + 32) as u128 | (power(MOVED - 32) as u128) << 64).to_le_bytes();

/// Returns `x^n` modulo the polynomial of CRC-32, the bit of the highest power first. It is shifted
/// because the product of two words in this order is one bit short.
const fn power(n: u32) -> u64 {
    let (mut power, mut at) = (1u32 << 31, 0);
    while at < n {
        power = (power >> 1) ^ (0xedb8_8320 * (power & 1));
        at += 1;
    }
    (power as u64) << 1
}

/// Defines a version of the loop: a proof type over that of the registers, which are `$width` bytes
/// wide, `$lanes` to a block.
macro_rules! fold {
    ($kernel:ident, $vector:ident, $features:literal, $width:literal, $lanes:literal,
     $product:ident) => {
        /// Proof that this CPU has VPCLMULQDQ and these registers.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $kernel($vector);

        impl $kernel {
            pub(super) fn new() -> Option<$kernel> {
                $vector::new().filter(|_| is_x86_feature_detected!("vpclmulqdq")).map($kernel)
            }

            /// Folds `from` into `sum`: see [`super::version::Fold::run`].
            pub(super) fn run(
                self,
                sum: &mut Block,
                from: &[Block],
                streamed: Option<Streamed<'_>>,
            ) {
                #[target_feature(enable = $features)]
                fn run<const COPY: bool>(
                    vector: $vector,
                    sum: &mut Block,
                    from: &[Block],
                    to: &mut [Block],
                ) {
                    let factors = vector.spread(&FACTORS);
                    let mut words = [vector.zero(); $lanes];
                    for u in 0..$lanes {
                        words[u] = vector.load(&sum.as_chunks::<$width>().0[u]);
                    }
                    for at in 0..from.len() {
                        for u in 0..$lanes {
                            let word = vector.load(&from[at].as_chunks::<$width>().0[u]);
                            if COPY {
                                vector.stream(word, &mut to[at].as_chunks_mut::<$width>().0[u]);
                            }
                            let first = $product::<0x00>(words[u], factors);
                            let second = $product::<0x11>(words[u], factors);
                            words[u] = vector.xor3(first, second, word);
                        }
                    }
                    for u in 0..$lanes {
                        vector.store(words[u], &mut sum.as_chunks_mut::<$width>().0[u]);
                    }
                }
                let Some(Streamed { to, more }) = streamed else {
                    // SAFETY: there is a value of this type, so this CPU has the features.
                    return unsafe { run::<false>(self.0, sum, from, &mut []) };
                };
                // SAFETY: as above.
                unsafe { run::<true>(self.0, sum, from, to) }
                if !more {
                    self.0.fence();
                }
            }
        }
    };
}

fold!(Clmul256, Avx2, "vpclmulqdq,avx2", 32, 8, _mm256_clmulepi64_epi128);
fold!(Clmul512, Avx512, "vpclmulqdq,avx512f,avx512bw", 64, 4, _mm512_clmulepi64_epi128);
