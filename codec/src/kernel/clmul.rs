//! x86-64 with VPCLMULQDQ: the loop of [`super::fold`] on the registers of AVX2 or AVX-512.
//!
//! Unsafe because the instructions are: each call rests on the proof a value of [`Clmul256`] or
//! [`Clmul512`] is. Left out: loads, stores and XOR, which are those of the registers.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)] // as in `generic`

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::avx512::Avx512;
use super::fold::{Block, Streamed};
use super::vector::Vector;

/// Bits of a block: how far a word is moved.
const MOVED: u32 = 8 * size_of::<Block>() as u32;

/// What the first and the second word of each pair are multiplied by. Both products end where the
/// pair does, so the first word is moved by a half of a word more than a block, and the second,
/// which ends a word later, by that much less.
const FACTORS: [u8; 16] =
    (power(MOVED + 32) as u128 | (power(MOVED - 32) as u128) << 64).to_le_bytes();

/// `x^n` modulo the polynomial of CRC-32, the bit of the highest power first. It is shifted since
/// the product of two words in this order has one bit too few.
const fn power(n: u32) -> u64 {
    let (mut power, mut at) = (1u32 << 31, 0);
    while at < n {
        power = (power >> 1) ^ (0xedb8_8320 * (power & 1));
        at += 1;
    }
    (power as u64) << 1
}

/// Makes a version of the loop: a proof type over that of the registers, which are of `$width`
/// bytes, `$lanes` to a block.
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

            /// As [`super::version::Fold::run`] says.
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
