//! Registered memory, completion queues and receive queues as safe objects.
//!
//! Invariants: each object holds the device, so that it cannot outlive it, and only the [`Region`]
//! that contains a [`Span`] can make it. Regions are dropped with the engine, after its queue
//! pairs. Bytes that the device writes into a region are read only after the completion.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use raidshmem_core::page::PAGE;
use raidshmem_sys::memory::{self, Mapping};
use rdma_sys::*;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::device::Device;

/// Maximum number of work requests that are linked and announced together.
pub const LINKED: usize = 16;

/// Formats the last error of the operating system.
pub(super) fn named(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

// ---- memory -------------------------------------------------------------------------------------

/// Memory that the device may access.
#[derive(Debug)]
pub struct Region {
    entry: *mut ibv_mr,
    base: *mut u8,
    len: usize,
    device: Arc<Device>,
}

// SAFETY: an address range and its registration, which is released only in drop; the engine decides
// who may touch which byte and when (module invariants).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Bytes of a region.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) key: u32,
}

impl Region {
    /// Registers `bytes`, which stay mapped for the rest of the process: peers may read them, write
    /// them if `writable`, and update them with the device's atomics if `atomics`.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn new(
        device: &Arc<Device>,
        bytes: &'static [u8],
        writable: bool,
        atomics: bool,
    ) -> Result<Region, String> {
        let mut access = ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        if writable {
            access = access
                | ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
                | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
        }
        if writable && atomics {
            access |= ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC;
        }
        Region::register(device, bytes.as_ptr().cast_mut(), bytes.len(), access.0)
    }

    /// Allocates memory that only this process's work requests use.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn private(device: &Arc<Device>, len: usize) -> Result<Region, String> {
        // Never freed: the device may write to it until the queue pairs are gone.
        let bytes: &'static mut [u8] = Box::leak(vec![0u8; len].into_boxed_slice());
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        Region::register(device, bytes.as_mut_ptr(), len, access.0)
    }

    /// Allocates a page that peers may read, with a counter at its start. The rest of the page
    /// holds the results of this process's reads. It is shared memory: after a fork, it stays where
    /// the device expects it.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn counter(device: &Arc<Device>) -> Result<(Region, &'static AtomicU64), String> {
        let words = |error: rustix::io::Errno| format!("memory for a counter: {error}");
        let file = memory::create("raidshmem-counter", PAGE).map_err(words)?;
        let page = Mapping::new(file.as_fd(), 0, PAGE, None, true).map_err(words)?;
        let page: &'static Mapping = Box::leak(Box::new(page));
        let access =
            ibv_access_flags::IBV_ACCESS_REMOTE_READ | ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let region = Region::register(device, page.base(), page.len(), access.0)?;
        // SAFETY: on its boundary, mapped for the rest of the process, and changed as an atomic.
        let counter = unsafe { AtomicU64::from_ptr(page.base().cast()) };
        Ok((region, counter))
    }

    fn register(
        device: &Arc<Device>,
        base: *mut u8,
        len: usize,
        access: u32,
    ) -> Result<Region, String> {
        // SAFETY: the range is mapped for the rest of the process (all callers).
        let entry =
            unsafe { device.api.ibv_reg_mr(device.domain, base.cast(), len, access as i32) };
        if entry.is_null() {
            return Err(named(&format!("{len} bytes cannot be registered")));
        }
        Ok(Region { entry, base, len, device: Arc::clone(device) })
    }

    /// Returns the address of the first byte, as peers use it, and its key.
    pub fn remote(&self) -> (u64, u32) {
        // SAFETY: registered, and released only in drop.
        (self.base as u64, unsafe { (*self.entry).rkey })
    }

    /// Returns `len` bytes from `at`.
    pub fn span(&self, at: usize, len: usize) -> Span {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "{at}+{len} of a region");
        // SAFETY: registered, and released only in drop.
        let key = unsafe { (*self.entry).lkey };
        Span { address: self.base as u64 + at as u64, len: len as u32, key }
    }

    /// Copies `from` to `at`. No work request under way may use these bytes.
    pub fn write(&self, at: usize, from: &[u8]) {
        let _ = self.span(at, from.len());
        // SAFETY: inside (checked by `span`), and used by no one else (the contract).
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.add(at), from.len()) }
    }

    /// Copies the bytes at `at` to `into`. No work request under way may use them.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let _ = self.span(at, into.len());
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(at), into.as_mut_ptr(), into.len()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: made in `register`.
        unsafe { self.device.api.ibv_dereg_mr(self.entry) };
    }
}

// ---- completions --------------------------------------------------------------------------------

/// A completion queue with its channel.
#[derive(Debug)]
pub struct Queue {
    pub(super) entry: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    device: Arc<Device>,
}

// SAFETY: libibverbs is thread-safe; the pointers are freed only in drop.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

/// The end of a work request.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The identifier of the work request.
    pub id: u64,
    /// True if the work request succeeded.
    pub ok: bool,
    /// True if a write with immediate consumed the buffer, which is empty then.
    pub wake: bool,
    /// The queue pair.
    pub qpn: u32,
    /// Bytes received.
    pub bytes: usize,
}

impl Queue {
    /// Creates a queue of `entries`.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn new(device: &Arc<Device>, entries: usize) -> Result<Queue, String> {
        // SAFETY: an open device.
        let channel = unsafe { device.api.ibv_create_comp_channel(device.context) };
        if channel.is_null() {
            return Err(named("completion channel"));
        }
        let mut own = Queue { entry: null_mut(), channel, device: Arc::clone(device) };
        let flags = fcntl_getfl(own.fd()).and_then(|f| fcntl_setfl(own.fd(), f | OFlags::NONBLOCK));
        flags.map_err(|error| format!("completion channel: {error}"))?;
        // SAFETY: an open device and its channel.
        own.entry = unsafe {
            device.api.ibv_create_cq(device.context, entries as i32, null_mut(), channel, 0)
        };
        if own.entry.is_null() {
            return Err(named(&format!("completion queue of {entries}")));
        }
        Ok(own)
    }

    /// Returns a descriptor that becomes readable after an event that `arm` requested.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel lives as long as self, and its descriptor with it.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Takes completions off the queue in batches, until there are at least `most` or no more.
    pub fn poll(&self, out: &mut Vec<Completion>, most: usize) {
        let mut done = [const { MaybeUninit::<ibv_wc>::uninit() }; LINKED];
        out.clear();
        while out.len() < most {
            let array = done.as_mut_ptr().cast();
            // SAFETY: space for as many as requested.
            let got = unsafe { ibv_poll_cq(self.entry, LINKED as i32, array) };
            for done in &done[..got.max(0) as usize] {
                // SAFETY: the call has filled that many.
                let done = unsafe { done.assume_init_ref() };
                let ok = done.status == ibv_wc_status::IBV_WC_SUCCESS;
                let bytes = if ok { done.byte_len as usize } else { 0 };
                let wake = ok && done.opcode == ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
                out.push(Completion { id: done.wr_id, ok, wake, qpn: done.qp_num, bytes });
            }
            if got < LINKED as i32 {
                return;
            }
        }
    }

    /// Requests one event: at the next completion or, if `solicited`, at the next one that its
    /// sender marked.
    pub fn arm(&self, solicited: bool) {
        // SAFETY: a queue with a channel. The call cannot fail on a valid queue.
        unsafe { ibv_req_notify_cq(self.entry, solicited.into()) };
    }

    /// Takes events off the channel.
    pub fn take_events(&self) {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: only this queue uses the channel, which does not block.
        while unsafe { self.device.api.ibv_get_cq_event(self.channel, &mut queue, &mut context) }
            == 0
        {
            // SAFETY: the event that was just taken.
            unsafe { self.device.api.ibv_ack_cq_events(queue, 1) };
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the queue pairs that use it are gone (they hold it).
        unsafe {
            if !self.entry.is_null() {
                self.device.api.ibv_destroy_cq(self.entry);
            }
            self.device.api.ibv_destroy_comp_channel(self.channel);
        }
    }
}

/// A receive queue shared by queue pairs.
#[derive(Debug)]
pub struct Inbox {
    pub(super) entry: *mut ibv_srq,
    device: Arc<Device>,
}

// SAFETY: libibverbs is thread-safe; the pointer is freed only in drop.
unsafe impl Send for Inbox {}
// SAFETY: as above.
unsafe impl Sync for Inbox {}

impl Inbox {
    /// Creates a queue for `buffers`.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn new(device: &Arc<Device>, buffers: usize) -> Result<Inbox, String> {
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut what: ibv_srq_init_attr = unsafe { std::mem::zeroed() };
        (what.attr.max_wr, what.attr.max_sge) = (buffers as u32, 1);
        // SAFETY: an open device.
        let entry = unsafe { device.api.ibv_create_srq(device.domain, &mut what) };
        if entry.is_null() {
            return Err(named(&format!("receive queue of {buffers}")));
        }
        Ok(Inbox { entry, device: Arc::clone(device) })
    }

    /// Posts a receive buffer. Returns true on success.
    pub fn offer(&self, id: u64, span: Span) -> bool {
        let mut piece = ibv_sge { addr: span.address, length: span.len, lkey: span.key };
        let mut work = receive(id, &mut piece);
        // SAFETY: the work request and its piece live until the call returns, which copies them.
        unsafe { ibv_post_srq_recv(self.entry, &mut work, &mut null_mut()) == 0 }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // SAFETY: made in `new`; the queue pairs that use it are gone (they hold it).
        unsafe { self.device.api.ibv_destroy_srq(self.entry) };
    }
}

pub(super) fn receive(id: u64, piece: &mut ibv_sge) -> ibv_recv_wr {
    ibv_recv_wr { wr_id: id, next: null_mut(), sg_list: piece, num_sge: 1 }
}
