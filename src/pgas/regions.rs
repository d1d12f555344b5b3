//! Memory the program adds to its checkpoints, or takes out of them.
//!
//! Private memory (a loop counter on the stack, a C++ object) can be registered: its bytes travel
//! in the manifest. It is found again by the order of registration, not by its address, which may
//! be another one in a substitute; so a substitute must register the same things before it
//! restarts. Symmetric memory that can be computed again can be excluded.

use std::ops::Range;

/// What a program registered and excluded.
#[derive(Debug, Default)]
pub struct Regions {
    /// Address and length of private memory, in order of registration.
    private: Vec<(usize, usize)>,
    /// Offsets in the segment that no checkpoint covers.
    pub excluded: Vec<Range<usize>>,
}

impl Regions {
    /// Adds private memory.
    ///
    /// # Safety
    /// `[addr, addr + len)` must be readable and writable until the job ends or `clear` is called.
    pub unsafe fn register(&mut self, addr: usize, len: usize) {
        self.private.push((addr, len));
    }

    /// The registered bytes, each region with its length before it.
    pub fn gather(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(addr, len) in &self.private {
            bytes.extend_from_slice(&(len as u64).to_le_bytes());
            // SAFETY: the promise made to `register`; the program does not run meanwhile.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(addr as *const u8, len) });
        }
        bytes
    }

    /// Writes gathered bytes back, region by region; a region of another length is left alone.
    pub fn scatter(&self, mut bytes: &[u8]) {
        for &(addr, len) in &self.private {
            let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return };
            let stored = u64::from_le_bytes(*head) as usize;
            let Some((data, rest)) = rest.split_at_checked(stored) else { return };
            if stored == len {
                // SAFETY: the promise made to `register`; lengths are equal.
                unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len) }
                    .copy_from_slice(data);
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_bytes_come_back_by_order_not_address() {
        let (mut a, mut b) = ([1u8, 2, 3], [9u8; 5]);
        let mut regions = Regions::default();
        // SAFETY: locals that outlive the registry.
        unsafe {
            regions.register(a.as_mut_ptr() as usize, 3);
            regions.register(b.as_mut_ptr() as usize, 5);
        }
        let bytes = regions.gather();
        let (mut c, mut d) = ([0u8; 3], [0u8; 5]);
        let mut other = Regions::default();
        // SAFETY: as above.
        unsafe {
            other.register(c.as_mut_ptr() as usize, 3);
            other.register(d.as_mut_ptr() as usize, 5);
        }
        other.scatter(&bytes);
        assert_eq!((c, d), (a, b));
        other.scatter(&bytes[..4]); // cut short: nothing happens
        assert_eq!((c, d), (a, b));
        (c, d) = ([0; 3], [0; 5]);
        assert_ne!((c, d), (a, b));
    }
}
