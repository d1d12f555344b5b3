//! Transfers to PEs that are not mapped, and their completion by streams
//! ([`super::world::stream`]).
//!
//! Invariants: gathered operations are carried out or dropped once, with their lock held. A note is
//! made after its put, so that a reader of the note finds the put begun.
//!
//! Unsafe code: buffers of calls that have returned, which the callers of `later_*` keep valid.

use std::sync::TryLockError;
use std::sync::atomic::{Ordering, fence};

use raidshmem_core::quantity::Pe;
use raidshmem_fabric::{AmoRequest, Read, Write};
use raidshmem_sys::lock;

use super::remote::Transfers;
use super::world::stream::{Bytes, Gathered, Id, WINDOW, WriteStream};

impl Transfers<'_> {
    // ---- streams ------------------------------------------------------------------------------

    /// Begins or ends the gathering of puts in stream `id`; about `expected` of them will follow.
    pub fn batch(self, id: Id, on: bool, expected: usize) {
        if !self.world.comm.has_engine() {
            return;
        }
        let stream = self.world.comm.streams.of(id);
        stream.batch.store(on, Ordering::Relaxed);
        if on {
            lock(&stream.gathered).writes.reserve(expected.min(WINDOW));
        } else {
            self.land(stream);
        }
    }

    /// Completes all operations of stream `id`, and resets it.
    pub fn close_stream(self, id: Id) {
        if let Some(stream) = self.world.comm.streams.table[usize::from(id)].get() {
            self.complete(stream);
            stream.batch.store(false, Ordering::Relaxed);
            stream.no_store.store(false, Ordering::Relaxed);
        }
    }

    // ---- deferred operations ------------------------------------------------------------------

    /// Reads from PE `pe`, which is remote.
    ///
    /// # Safety
    /// `[into, into + len)` is writable, and left alone until the stream's next quiet is over or
    /// `Communication::forget` was called.
    pub unsafe fn later_get(self, id: Id, pe: Pe, offset: usize, into: *mut u8, len: usize) {
        let read = Bytes { pe, offset, at: into, len };
        self.gather(id, |gathered| gathered.reads.push(read));
    }

    /// Writes to PE `pe`, which is remote; gathered in a session for batches only.
    ///
    /// # Safety
    /// `[from, from + len)` is readable and does not change until the stream's next quiet is over
    /// or `Communication::forget` was called.
    pub unsafe fn later_put(self, id: Id, pe: Pe, offset: usize, from: *const u8, len: usize) {
        if self.world.comm.streams.of(id).batch.load(Ordering::Relaxed) {
            let write = Bytes { pe, offset, at: from, len };
            return self.gather(id, |gathered| gathered.writes.push(write));
        }
        // SAFETY: the caller's promise.
        let from = unsafe { std::slice::from_raw_parts(from, len) };
        self.remote_put(id, pe, offset, from);
    }

    /// Updates a word of a remote PE; the old value goes to `into`, which may be null.
    ///
    /// # Safety
    /// As for `later_get`, for as many bytes as the word has.
    pub unsafe fn later_update(self, id: Id, ask: AmoRequest, into: *mut u8) {
        self.gather(id, |gathered| gathered.asks.push((ask, into)));
    }

    fn gather(self, id: Id, push: impl FnOnce(&mut Gathered)) {
        let (streams, stream) = (&self.world.comm.streams, self.world.comm.streams.of(id));
        streams.change(stream, lock(&stream.gathered), push);
        if stream.waiting.load(Ordering::Relaxed) >= WINDOW {
            self.land(stream);
        }
    }

    fn land(self, stream: &WriteStream) {
        if stream.waiting.load(Ordering::SeqCst) != 0 {
            let gathered = lock(&stream.gathered);
            self.world.comm.streams.change(stream, gathered, |gathered| {
                self.carry_out(stream, std::mem::take(gathered));
            });
        }
    }

    /// Carries out gathered operations, unless another thread does: for threads about to sleep.
    pub(super) fn land_before_sleep(self) {
        if self.world.comm.streams.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        for stream in self.world.comm.streams.made() {
            let gathered = match stream.gathered.try_lock() {
                Ok(gathered) => gathered,
                Err(TryLockError::Poisoned(gathered)) => gathered.into_inner(),
                Err(TryLockError::WouldBlock) => continue, // perhaps this thread, in an outer call
            };
            self.world.comm.streams.change(stream, gathered, |gathered| {
                self.carry_out(stream, std::mem::take(gathered));
            });
        }
    }

    /// Carries out gathered operations. Between a death and the restart puts are dropped, and all
    /// results are zero.
    fn carry_out(self, stream: &WriteStream, gathered: Gathered) {
        let Gathered { writes, reads, asks } = gathered;
        // SAFETY: buffers that are left alone until now (`later_put`).
        let from = |w: &Bytes<*const u8>| unsafe { std::slice::from_raw_parts(w.at, w.len) };
        let whole = |w: &Bytes<*const u8>| Write { pe: w.pe, offset: w.offset, from: from(w) };
        let writes: Vec<Write> = writes.iter().map(whole).collect();
        self.remote_put_all(&writes);
        writes.iter().for_each(|write| stream.note(write.pe));

        // SAFETY: buffers that no other code uses until now (`later_get`).
        let into = |r: &Bytes<*mut u8>| unsafe { std::slice::from_raw_parts_mut(r.at, r.len) };
        let whole = |r: &Bytes<*mut u8>| Read { pe: r.pe, offset: r.offset, into: into(r) };
        let mut reads: Vec<Read> = reads.iter().map(whole).collect();
        match (reads.is_empty(), !reads.is_empty() && self.world.loss_response().cut_short()) {
            (true, _) => {}
            (false, true) => reads.iter_mut().for_each(|read| read.into.fill(0)),
            (false, false) => self.pull(&mut reads),
        }

        let (asks, places): (Vec<AmoRequest>, Vec<*mut u8>) = asks.into_iter().unzip();
        for ((ask, place), value) in asks.iter().zip(places).zip(self.remote_update_all(&asks)) {
            let bytes = value.to_ne_bytes();
            let from = if cfg!(target_endian = "big") { 8 - ask.word.bytes } else { 0 };
            if !place.is_null() {
                // SAFETY: a word that no other code uses until now (`later_update`).
                unsafe { place.copy_from(bytes[from..].as_ptr(), ask.word.bytes) };
            }
        }
    }

    // ---- order and completion -----------------------------------------------------------------

    /// Orders the transfers of stream `id` before those that follow.
    #[inline]
    pub fn fence_of(self, id: Id) {
        fence(Ordering::Release);
        if self.world.comm.has_engine() {
            let stream = self.world.comm.streams.of(id);
            self.land(stream);
            if !stream.no_store.load(Ordering::Relaxed) {
                self.remote_fence(&stream.open().0);
            }
        }
    }

    /// Orders operations of stream `id` at PE `pe`, which is remote, before what follows there.
    pub fn fence_at(self, id: Id, pe: Pe) {
        self.land(self.world.comm.streams.of(id));
        if !self.world.fewer.is_lost(pe) {
            self.remote_fence(&[pe]);
        }
    }

    /// Completes the outstanding transfers of stream `id`. Copies to mapped peers are synchronous,
    /// so a full fence completes those.
    #[inline]
    pub fn quiet_of(self, id: Id) {
        fence(Ordering::SeqCst);
        self.world.far_calls().quiet();
        if self.world.comm.has_engine() {
            let stream = self.world.comm.streams.of(id);
            match stream.no_store.load(Ordering::Relaxed) {
                true => self.land(stream),
                false => self.complete(stream),
            }
        }
    }

    /// Completes the outstanding transfers of the default stream.
    #[inline]
    pub fn quiet(self) {
        self.quiet_of(0);
    }

    /// Completes the outstanding transfers of all streams.
    pub fn quiet_all(self) {
        fence(Ordering::SeqCst);
        self.world.far_calls().quiet();
        if self.world.comm.has_engine() {
            self.world.comm.streams.made().for_each(|stream| self.complete(stream));
        }
    }

    /// Completes the outstanding transfers of stream `id` to some PEs.
    pub fn quiet_at(self, id: Id, pes: &[Pe]) {
        fence(Ordering::SeqCst);
        self.world.far_calls().quiet();
        if self.world.comm.has_engine() {
            self.land(self.world.comm.streams.of(id));
            let remote: Vec<Pe> =
                pes.iter().copied().filter(|&pe| self.world.segments.is_remote(pe)).collect();
            if !remote.is_empty() {
                self.remote_quiet(&remote);
            }
        }
    }

    fn complete(self, stream: &WriteStream) {
        self.land(stream);
        let (peers, begun) = stream.open();
        if !peers.is_empty() && self.remote_quiet(&peers) {
            for (pe, begun) in peers.into_iter().zip(begun) {
                stream.notes[pe.at()].over.fetch_max(begun, Ordering::SeqCst);
            }
        }
    }
}
