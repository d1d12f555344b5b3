//! The stored form of a heap, which is saved in symmetric memory with every checkpoint.
//!
//! ```text
//! | magic 8 | length 8 | blocks 8 | offset 8 | size 8 | ... one pair per block ... | digest 8 |
//! ```
//!
//! All little-endian, blocks sorted by offset. Free ranges are not stored: they follow from the
//! blocks.
//!
//! Invariants: `decode(encode(h)) == h`; equal heaps have equal bytes; bytes that `decode` accepts
//! are a heap whose invariants hold, whatever wrote them; and no bytes make it panic or allocate
//! more than their own size requires.
//!
//! Left out: protection against tampering. The digest detects damage, not forgery.

use super::{GRANULE, Heap, HeapError, round_up};

/// `RSHEAP01`, read as a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"RSHEAP01");
const WORD: usize = 8;
const HEADER: usize = 3 * WORD;
const PAIR: usize = 2 * WORD;

impl Heap {
    /// Returns the length of the bytes that [`Heap::encode`] returns.
    pub fn encoded_len(&self) -> usize {
        HEADER + PAIR * self.blocks.len() + WORD
    }

    /// Returns the state as bytes; equal heaps give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        let mut put = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
        put(MAGIC);
        put(self.len as u64);
        put(self.blocks.len() as u64);
        for (&offset, &size) in &self.blocks {
            put(offset as u64);
            put(size as u64);
        }
        put(self.digest);
        bytes
    }

    /// Decodes a heap from its stored form, which must span all of `bytes`.
    ///
    /// # Errors
    /// `Length`, `Magic`, `BadLen`, `BadBlock` or `BadDigest`.
    pub fn decode(bytes: &[u8]) -> Result<Heap, HeapError> {
        let (heap, length) = Heap::decode_prefix(bytes)?;
        if length == bytes.len() {
            Ok(heap)
        } else {
            Err(HeapError::Length { expected: length, found: bytes.len() })
        }
    }

    /// Like [`Heap::decode`], but allows bytes after the state, as in an area of fixed length, and
    /// also returns the length of the state in bytes.
    ///
    /// # Errors
    /// As [`Heap::decode`].
    pub fn decode_prefix(bytes: &[u8]) -> Result<(Heap, usize), HeapError> {
        let short = |expected| HeapError::Length { expected, found: bytes.len() };
        let word = |at: usize| read(bytes, at).ok_or(short(HEADER + WORD));
        let (magic, len, count) = (word(0)?, word(WORD)?, word(2 * WORD)?);
        if magic != MAGIC {
            return Err(HeapError::Magic { found: magic });
        }
        let total = usize::try_from(count)
            .ok()
            .and_then(|n| n.checked_mul(PAIR)?.checked_add(HEADER + WORD))
            .ok_or(short(usize::MAX))?;
        let (pairs, stored) = match bytes.get(HEADER..total) {
            Some(body) => body.split_at(body.len() - WORD),
            None => return Err(short(total)),
        };
        let mut heap = usize::try_from(len)
            .ok()
            .filter(|len| len.is_multiple_of(GRANULE))
            .map(Heap::new)
            .ok_or(HeapError::BadLen { len })?;
        heap.place_all(pairs)?;
        let expected = read(stored, 0).unwrap_or_default();
        if heap.digest != expected {
            return Err(HeapError::BadDigest { expected, found: heap.digest });
        }
        Ok((heap, total))
    }

    /// Fills an empty heap with stored blocks, each of which must lie after the previous one.
    fn place_all(&mut self, pairs: &[u8]) -> Result<(), HeapError> {
        self.take(&(0..self.len));
        let mut end = 0;
        for index in 0..pairs.len() / PAIR {
            let word = |at| read(pairs, index * PAIR + at).unwrap_or_default();
            let (offset, size) = (word(0), word(WORD));
            let bad = HeapError::BadBlock { index, offset, size };
            let (start, size) = match (usize::try_from(offset), usize::try_from(size)) {
                (Ok(start), Ok(size)) if size > 0 && start.is_multiple_of(GRANULE) => (start, size),
                _ => return Err(bad),
            };
            let block_end = round_up(size).and_then(|len| start.checked_add(len)).ok_or(bad)?;
            if start < end || block_end > self.len {
                return Err(bad);
            }
            self.release(end..start);
            self.insert_block(start, size);
            end = block_end;
        }
        self.release(end..self.len);
        Ok(())
    }
}

/// Returns the little-endian word at byte `at`, if it is in range.
fn read(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}
