//! Page sizes that memory layouts are based on.

/// Bytes of a page; the unit of mappings and protections.
pub const PAGE: usize = 4096;

/// Bytes of a huge page, if shared memory supports them.
pub const HUGE: usize = 2 << 20;

/// Rounds `len` up to whole pages.
pub const fn page_up(len: usize) -> usize {
    len.div_ceil(PAGE) * PAGE
}
