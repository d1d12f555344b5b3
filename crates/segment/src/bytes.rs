//! Access to bytes of this process's segment on behalf of peers: visible bytes word by word, those
//! of the store, which peers only read, by plain copies. The owner fills its store from a file.

#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use raidshmem_core::update::{Change, Update, WordAt};

use crate::Segment;

/// Returns bytes of a segment as they are now; `None` if peers may not read them.
pub fn read(segment: &Segment, offset: u64, len: u64) -> Option<Vec<u8>> {
    let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
    let (before, end) = (offset % 8, offset.checked_add(len)?);
    let layout = segment.layout();
    if end > layout.spills[0] {
        return None;
    }
    if offset >= layout.store {
        // Memory beyond the store is shared only by a PE and its agent.
        return Some(segment.bytes(offset, len).to_vec());
    }
    let words = segment.words_in(offset - before, (before + len).div_ceil(8))?;
    let mut bytes = Vec::with_capacity(len + 16);
    words.iter().for_each(|word| bytes.extend(word.load(Ordering::Acquire).to_ne_bytes()));
    bytes.truncate(before + len);
    bytes.drain(..before);
    Some(bytes)
}

/// Fills `len` bytes of this process's own store from a file from `at`.
///
/// # Errors
/// The file is too short, the system's error, or there is no memory for them.
pub fn fill(
    segment: &Segment,
    (offset, len): (usize, usize),
    (file, at): (impl AsFd, u64),
) -> rustix::io::Result<()> {
    segment.store.fill(offset - segment.layout.store, len, file, at)
}

/// Writes bytes of a segment, using whole words if possible. Returns `None` if they do not exist.
pub fn write(segment: &Segment, offset: u64, bytes: &[u8]) -> Option<()> {
    let mut offset = usize::try_from(offset).ok()?;
    let mut bytes = bytes;
    while !bytes.is_empty() {
        if offset.is_multiple_of(8) && bytes.len() >= 16 {
            let (whole, rest) = bytes.as_chunks::<8>();
            let words = segment.words_in(offset, whole.len())?;
            for (word, value) in words.iter().zip(whole) {
                word.store(u64::from_ne_bytes(*value), Ordering::Release);
            }
            (offset, bytes) = (offset + whole.len() * 8, rest);
            continue;
        }
        let fits = |len: &usize| offset.is_multiple_of(*len) && bytes.len() >= *len;
        let len = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let (now, later) = bytes.split_at(len);
        let mut value = [0; 8];
        value[..len].copy_from_slice(now);
        match len {
            1 => write_byte(segment, offset, now[0])?,
            _ => {
                let shift = if cfg!(target_endian = "big") { 64 - 8 * len } else { 0 };
                let operand = u64::from_ne_bytes(value) >> shift;
                segment.update(
                    WordAt { offset, bytes: len },
                    Change { how: Update::Store, operand },
                )?;
            }
        }
        (offset, bytes) = (offset.checked_add(len)?, later);
    }
    Some(())
}

/// Writes a byte of a word whose other bytes may be written concurrently.
fn write_byte(segment: &Segment, offset: usize, byte: u8) -> Option<()> {
    let word = WordAt { offset: offset & !7, bytes: 8 };
    loop {
        let before = segment.update(word, Change { how: Update::Load, operand: 0 })?;
        let mut bytes = before.to_ne_bytes();
        bytes[offset % 8] = byte;
        let (how, operand) = (Update::CompareSwap(before), u64::from_ne_bytes(bytes));
        if segment.update(word, Change { how, operand })? == before {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use raidshmem_core::layout::Layout;
    use raidshmem_sys::memory::{self, Part};
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn any_bytes_of_a_segment_are_read_and_written_and_none_outside() {
        let layout = Layout::new(1 << 20, 2);
        let file = memory::create("own", layout.total).unwrap();
        let part = Part::new(Arc::new(file), 0, layout.total);
        let segment = Segment::own(&part, layout).unwrap().0.leak();
        let heap = layout.heap as u64;
        let old: Vec<u8> = (0..64).collect();
        for from in 0..20usize {
            for len in 0..40 {
                write(segment, heap, &old).unwrap();
                let bytes = read(segment, heap + from as u64, len as u64);
                assert_eq!(bytes.as_deref(), Some(&old[from..from + len]), "{len} from {from}");
                write(segment, heap + from as u64, &vec![200; len]).unwrap();
                let mut new = old.clone();
                new[from..from + len].fill(200);
                assert_eq!(read(segment, heap, 64), Some(new), "{len} to {from}");
            }
        }
        for outside in [layout.spills[0] as u64, u64::MAX - 3, u64::MAX] {
            assert_eq!(read(segment, outside, 8), None);
            assert_eq!(write(segment, outside, &[1; 8]), None);
        }
        assert_eq!(read(segment, heap, u64::MAX), None);
        let (snapshot, end) = (layout.snapshots[0] as u64, layout.spills[0] as u64);
        assert_eq!(read(segment, snapshot + 3, 40), Some(vec![0; 40]), "the store can be read");
        assert_eq!(write(segment, snapshot, &[1; 8]), None, "and not be written");
        assert_eq!(read(segment, end - 8, 8), Some(vec![0; 8]));
        assert_eq!(read(segment, end - 8, 16), None);
    }

    #[test]
    fn a_store_is_filled_from_a_file_and_memory_that_is_not_there_is_an_error() {
        let layout = Layout::new(1 << 20, 2);
        let (snapshot, page) = (layout.snapshots[0], memory::page_size());
        let file = memory::create("short", snapshot + page).unwrap();
        let part = Part::new(Arc::new(file), 0, layout.total);
        let segment = Segment::own(&part, layout).unwrap().0.leak();
        let bytes: Vec<u8> = (0..3 * page).map(|at| ((at * at) >> 3) as u8).collect();
        let source = memory::create("source", bytes.len()).unwrap();
        memory::write_at(&source, 0, &bytes).unwrap();
        fill(segment, (snapshot + 5, 1000), (&source, 7)).unwrap();
        assert_eq!(segment.bytes(snapshot, 5), [0; 5]);
        assert_eq!(segment.bytes(snapshot + 5, 1000), &bytes[7..1007]);
        assert_eq!(segment.bytes(snapshot + 1005, 8), [0; 8]);
        let short = fill(segment, (snapshot, 100), (&source, bytes.len() as u64 - 99));
        assert_eq!(short, Err(Errno::NXIO));
        // Memory of the file that it maps ends after a page.
        let none = fill(segment, (snapshot, 2 * page), (&source, 0));
        assert_eq!(none, Err(Errno::FAULT), "no signal");
    }
}
