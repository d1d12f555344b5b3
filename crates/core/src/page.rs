//! Sizes of pages, as this library lays memory out.

/// Bytes of a page; the unit of mappings and protections.
pub const PAGE: usize = 4096;

/// Bytes of a huge page, where shared memory has them.
pub const HUGE: usize = 2 << 20;

/// `len` rounded up to whole pages.
pub const fn page_up(len: usize) -> usize {
    len.div_ceil(PAGE) * PAGE
}
