//! Page sizes that memory layouts are based on.

/// Bytes of the largest page that a kernel for this processor uses, a multiple of all smaller ones;
/// the unit of mappings and protections. AArch64 kernels have pages of 4, 16 or 64 KiB.
pub const PAGE: usize = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

/// Bytes of a huge page, if shared memory supports them.
pub const HUGE: usize = 2 << 20;

/// Rounds `len` up to whole pages.
pub const fn page_up(len: usize) -> usize {
    len.div_ceil(PAGE) * PAGE
}
