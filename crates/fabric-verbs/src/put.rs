//! Puts.
//!
//! A put returns when its bytes are in blocks or in work requests. The pieces of one call to one
//! peer go out together. A put of one range that fits into a work request allocates nothing.

#![forbid(unsafe_code)]

use raidshmem_fabric::{Lost, Write};

use crate::blocks::BLOCK;
use crate::conn::{Conn, Used};
use crate::objects::LINKED;
use crate::pair::{INLINE, Local as Bytes, What, Work};
use crate::shared::Shared;
use crate::windows::Windows;

/// Pieces that go out together.
#[derive(Default)]
struct Batch<'a> {
    works: Vec<Work<'a>>,
    blocks: Vec<Used>,
}

impl Shared {
    /// Copies bytes to peers; to the remaining ones even if one is lost. With `wake`, the last
    /// piece wakes each peer.
    pub fn put(&self, writes: &[Write], wake: bool) -> Result<(), Lost> {
        let mut first = Ok(());
        for to_one in writes.chunk_by(|a, b| a.pe == b.pe) {
            first = first.and(self.put_to_one(to_one, wake));
        }
        first
    }

    /// Copies bytes to one peer, which the first of `writes` names.
    fn put_to_one(&self, writes: &[Write], wake: bool) -> Result<(), Lost> {
        let conn = self.ready_in_order(writes[0].pe)?;
        if let [write] = writes
            && let Some(mut work) = inline(&self.windows, &conn, write)
        {
            return self.submit(&conn, &mut work, (&[], false), wake).map(drop);
        }
        let mut batch = Batch::default();
        for write in writes {
            for piece in self.windows.pieces(write.offset, write.from.len(), BLOCK) {
                let bytes = &write.from[piece.at..piece.at + piece.len];
                if batch.works.len() == LINKED || conn.keys[piece.window].place().is_none() {
                    batch.send(self, &conn, false)?; // holds no blocks while it asks
                }
                let key = self.key(&conn, piece.window)?;
                let local = match bytes.len() <= INLINE {
                    true => Bytes::Inline(bytes),
                    false => batch.fill_block(self, &conn, bytes)?,
                };
                let what = What::Write(self.windows.remote(piece.window, key, piece.offset));
                batch.works.push(Work { id: 0, what, local, signal: false });
            }
        }
        batch.send(self, &conn, wake)
    }
}

/// Returns a put as one work request that contains its bytes, without allocating memory or a block.
/// `None` if it needs more, or if the window's address is not known yet.
fn inline<'a>(windows: &Windows, conn: &Conn, write: &Write<'a>) -> Option<[Work<'a>; 1]> {
    let piece = windows.pieces(write.offset, write.from.len(), INLINE).next()?;
    let whole = piece.len == write.from.len();
    let key = conn.keys[piece.window].place().filter(|_| whole)?;
    let what = What::Write(windows.remote(piece.window, key, piece.offset));
    Some([Work { id: 0, what, local: Bytes::Inline(write.from), signal: false }])
}

impl<'a> Batch<'a> {
    /// Posts the gathered work requests, if any.
    fn send(&mut self, engine: &Shared, conn: &Conn, wake: bool) -> Result<(), Lost> {
        if self.works.is_empty() {
            return Ok(());
        }
        let number = engine.submit(conn, &mut self.works, (&self.blocks, false), wake);
        self.works.clear();
        self.blocks.clear();
        number.map(drop)
    }

    /// Copies bytes to a block, which belongs to the next work request; sends the earlier requests
    /// if blocks are short.
    fn fill_block(
        &mut self,
        engine: &Shared,
        conn: &Conn,
        bytes: &[u8],
    ) -> Result<Bytes<'a>, Lost> {
        let block = match engine.blocks.take() {
            Some(block) => block,
            None => {
                self.send(engine, conn, false)?;
                engine.until(conn, || engine.blocks.take())?
            }
        };
        engine.blocks.write(block, bytes);
        self.blocks.push((self.works.len(), block));
        Ok(Bytes::Span(engine.blocks.span(block, bytes.len())))
    }
}
