//! libfabric's objects as Rust values: an endpoint with its queue, registered memory, and what is
//! posted to them.
//!
//! Only this file and `offers` call libfabric. The engine keeps everything here behind one
//! lock, so no more of the library's thread safety is needed.
//!
//! Invariant: what an operation refers to (its bytes, its [`Context`]) is never freed, since a
//! provider may complete the operation late, or never.
//!
//! Left out: the provider's own atomics, which are not atomic with the target's processor.

use std::ffi::{c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::null_mut;

use ofi_sys::*;

use crate::offers::{Offers, Status, check};
use crate::provider;

/// Maximum completions of one poll.
const BATCH: usize = 32;
/// Maximum bytes of the name of an endpoint.
const NAME: usize = 256;

/// The state of an operation for the library, and the slot that the operation uses.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    space: [usize; 8],
    slot: usize,
}

impl Context {
    /// Makes the context of operations of a slot.
    pub fn leak(slot: usize) -> *mut Context {
        Box::into_raw(Box::new(Context { space: [0; 8], slot }))
    }
}

/// The bytes of an operation on this side.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Their address.
    pub at: *mut u8,
    /// Their number.
    pub len: usize,
    /// Their registration, if the provider demands one.
    pub description: *mut c_void,
    /// The context of the operation.
    pub context: *mut Context,
}

/// The bytes of a transfer on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Their address, as the provider counts.
    pub at: u64,
    /// The key of their memory.
    pub key: u64,
}

/// A peer in the address vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(u64);

impl Peer {
    /// The peer of an operation that names none.
    pub const NONE: Peer = Peer(FI_ADDR_UNSPEC);
}

/// The result of posting an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It is under way.
    Begun,
    /// The provider has no room, or no connection yet: try again after some progress.
    Later,
    /// The provider refuses it.
    Refused,
}

impl Posted {
    fn of(code: isize) -> Posted {
        match code {
            0 => Posted::Begun,
            code if code == -FI_EAGAIN as isize => Posted::Later,
            _ => Posted::Refused,
        }
    }
}

/// The end of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Its slot.
    pub slot: usize,
    /// The bytes that were received, if it received a message.
    pub len: usize,
    /// True if it succeeded.
    pub worked: bool,
}

/// Space for the failure of an operation: a newer library may write more than the bindings know.
#[repr(C)]
struct Failed {
    entry: fi_cq_err_entry,
    _more: [u64; 16],
}

/// The demands of the provider that was chosen.
#[derive(Debug, Clone, Default)]
pub struct Demands {
    /// Its name.
    pub provider: String,
    /// Bytes on this side must be registered (`FI_MR_LOCAL`).
    pub local: bool,
    /// Peers name bytes by their address in their owner's memory (`FI_MR_VIRT_ADDR`).
    pub addresses: bool,
    /// Registered memory belongs to an endpoint (`FI_MR_ENDPOINT`).
    pub of_endpoint: bool,
    /// The length of a key in bytes.
    pub key_bytes: usize,
}

/// An endpoint with everything that it needs.
#[derive(Debug)]
pub struct Port {
    api: &'static Libfabric,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    peers: *mut fid_av,
    queue: *mut fid_cq,
    endpoint: *mut fid_ep,
    memory: Vec<*mut fid_mr>,
    waits: bool,
    /// The demands of its provider.
    pub demands: Demands,
}

// SAFETY: any thread may call the library, one at a time; the engine holds its lock for every call.
unsafe impl Send for Port {}

impl Port {
    /// Opens the provider of this name, or the best one, for `operations` at a time to `peers`.
    pub fn open(
        api: &'static Libfabric,
        asked: Option<&str>,
        operations: usize,
        peers: usize,
    ) -> Result<Option<Port>, Status> {
        let offers = Offers::ask(api)?;
        let list = offers.list();
        let names = list.iter().map(|(_, name)| name.as_str());
        let Some(index) = provider::choose(names, asked) else { return Ok(None) };
        let (info, name) = &list[index];
        let mut port = Port {
            api,
            fabric: null_mut(),
            domain: null_mut(),
            peers: null_mut(),
            queue: null_mut(),
            endpoint: null_mut(),
            memory: Vec::new(),
            waits: false,
            demands: Demands::default(),
        };
        // SAFETY: an offer of a list that lives until the end of this function.
        unsafe { port.make(*info, operations, peers) }?;
        port.demands.provider.clone_from(name);
        Ok(Some(port))
    }

    /// Makes all objects.
    ///
    /// # Safety
    /// `info` is an offer of the library.
    unsafe fn make(
        &mut self,
        info: *mut fi_info,
        operations: usize,
        peers: usize,
    ) -> Result<(), Status> {
        let api = self.api;
        let ok = |code| check(api, code);
        // SAFETY: every object is made by the one before it, with attributes that live during the
        // call; an offer has all its parts (caller).
        unsafe {
            let domain = (*info).domain_attr;
            let mode = (*domain).mr_mode;
            self.demands = Demands {
                provider: String::new(),
                local: mode & FI_MR_LOCAL != 0,
                addresses: mode & FI_MR_VIRT_ADDR != 0,
                of_endpoint: mode & FI_MR_ENDPOINT != 0,
                key_bytes: (*domain).mr_key_size,
            };
            (*(*info).tx_attr).op_flags = 0; // each operation has its own
            ok((api.fi_fabric)((*info).fabric_attr, &mut self.fabric, null_mut()))?;
            let make = (*(*self.fabric).ops).domain;
            ok(make(self.fabric, info, &mut self.domain, null_mut()))?;
            let kind = match (*domain).av_type {
                FI_AV_UNSPEC => FI_AV_TABLE,
                kind => kind,
            };
            let mut attributes: fi_av_attr = std::mem::zeroed();
            (attributes.type_, attributes.count) = (kind, peers);
            let make = (*(*self.domain).ops).av_open;
            ok(make(self.domain, &mut attributes, &mut self.peers, null_mut()))?;
            self.make_queue(operations)?;
            let make = (*(*self.domain).ops).endpoint;
            ok(make(self.domain, info, &mut self.endpoint, null_mut()))?;
            let own = &raw mut (*self.endpoint).fid;
            let bind = (*(*own).ops).bind;
            ok(bind(own, &raw mut (*self.peers).fid, 0))?;
            ok(bind(own, &raw mut (*self.queue).fid, FI_SEND | FI_RECV))?;
            ok(((*(*own).ops).control)(own, FI_ENABLE, null_mut()))
        }
    }

    /// Makes the completion queue; with a descriptor to wait on if the provider has one.
    fn make_queue(&mut self, operations: usize) -> Result<(), Status> {
        let mut made = FI_SUCCESS;
        for (object, waits) in [(FI_WAIT_FD, true), (FI_WAIT_NONE, false)] {
            let mut attributes = fi_cq_attr {
                size: operations,
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj: object,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: null_mut(),
            };
            // SAFETY: a live domain, and attributes that live during the call.
            made = unsafe {
                let make = (*(*self.domain).ops).cq_open;
                make(self.domain, &mut attributes, &mut self.queue, null_mut())
            };
            if made == FI_SUCCESS {
                self.waits = waits;
                break;
            }
        }
        check(self.api, made)
    }

    /// Returns a descriptor that is readable when the queue has something to do; `None` if the
    /// provider must be polled.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        let mut fd: c_int = -1;
        // SAFETY: a live queue, and a place for the descriptor.
        let got = unsafe {
            let own = &raw mut (*self.queue).fid;
            match self.waits {
                true => ((*(*own).ops).control)(own, FI_GETWAIT, (&raw mut fd).cast()),
                false => return None,
            }
        };
        // SAFETY: open as long as the queue; it is duplicated here.
        let fd = (got == FI_SUCCESS && fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) });
        fd.and_then(|fd| fd.try_clone_to_owned().ok())
    }

    /// Returns true if a thread may wait on the descriptor now: nothing is left to do.
    pub fn may_wait(&self) -> bool {
        // SAFETY: a live fabric and queue; the queue has an object to wait on.
        self.waits
            && unsafe {
                let mut own = &raw mut (*self.queue).fid;
                ((*(*self.fabric).ops).trywait)(self.fabric, &mut own, 1) == FI_SUCCESS
            }
    }

    /// Returns the name of the endpoint, for [`Port::insert`] of peers.
    pub fn name(&self) -> Result<Vec<u8>, Status> {
        let (mut name, mut len) = (vec![0u8; NAME], NAME);
        // SAFETY: a live endpoint, and a place of that length.
        let got = unsafe {
            let own = &raw mut (*self.endpoint).fid;
            ((*(*self.endpoint).cm).getname)(own, name.as_mut_ptr().cast(), &mut len)
        };
        check(self.api, got)?;
        name.truncate(len);
        Ok(name)
    }

    /// Registers memory, so that peers may `access` it or the provider may use it. Returns its
    /// description and its key.
    ///
    /// # Safety
    /// The memory stays mapped.
    pub unsafe fn register(
        &mut self,
        (at, len): (*mut u8, usize),
        access: u64,
        key: u64,
    ) -> Result<(*mut c_void, u64), Status> {
        let mut made = null_mut();
        let nothing = null_mut();
        // SAFETY: a live domain and endpoint; the caller guarantees the memory.
        unsafe {
            let make = (*(*self.domain).mr).reg;
            let domain = &raw mut (*self.domain).fid;
            let code = make(domain, at.cast(), len, access, 0, key, 0, &mut made, nothing);
            check(self.api, code)?;
            self.memory.push(made);
            if self.demands.of_endpoint {
                let own = &raw mut (*made).fid;
                let endpoint = &raw mut (*self.endpoint).fid;
                check(self.api, ((*(*own).ops).bind)(own, endpoint, 0))?;
                check(self.api, ((*(*own).ops).control)(own, FI_ENABLE, null_mut()))?;
            }
            Ok(((*made).mem_desc, (*made).key))
        }
    }

    /// Adds a peer by the name of its endpoint; `None` if the name is invalid. Peers are never
    /// removed: operations to a dead one may still be under way.
    pub fn insert(&self, name: &[u8]) -> Option<Peer> {
        let mut padded = [0u8; NAME]; // a provider reads as many bytes as its names have
        padded.get_mut(..name.len())?.copy_from_slice(name);
        let mut peer = FI_ADDR_NOTAVAIL;
        // SAFETY: a live address vector, a name of at most that length, and a place for the result.
        let inserted = unsafe {
            let insert = (*(*self.peers).ops).insert;
            insert(self.peers, padded.as_ptr().cast(), 1, &mut peer, 0, null_mut())
        };
        (inserted == 1 && peer != FI_ADDR_NOTAVAIL).then_some(Peer(peer))
    }

    /// Posts a put, which completes when the bytes have arrived.
    ///
    /// # Safety
    /// The bytes on this side do not change before its end.
    pub unsafe fn write(&self, peer: Peer, from: Local, to: Remote) -> Posted {
        let iov = iovec { iov_base: from.at.cast(), iov_len: from.len };
        let rma = fi_rma_iov { addr: to.at, len: from.len, key: to.key };
        let mut description = from.description;
        let message = fi_msg_rma {
            msg_iov: &iov,
            desc: &mut description,
            iov_count: 1,
            addr: peer.0,
            rma_iov: &rma,
            rma_iov_count: 1,
            context: from.context.cast(),
            data: 0,
        };
        let flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
        // SAFETY: a live endpoint and a context that is never freed; the caller guarantees the
        // bytes, and the provider copies the rest.
        Posted::of(unsafe { ((*(*self.endpoint).rma).writemsg)(self.endpoint, &message, flags) })
    }

    /// Posts a get.
    ///
    /// # Safety
    /// The bytes on this side are not used before its end.
    pub unsafe fn read(&self, peer: Peer, into: Local, from: Remote) -> Posted {
        // SAFETY: as for `write`.
        Posted::of(unsafe {
            ((*(*self.endpoint).rma).read)(
                self.endpoint,
                into.at.cast(),
                into.len,
                into.description,
                peer.0,
                from.at,
                from.key,
                into.context.cast(),
            )
        })
    }

    /// Posts a message.
    ///
    /// # Safety
    /// Its bytes do not change before its end.
    pub unsafe fn send(&self, peer: Peer, from: Local) -> Posted {
        let Local { at, len, description, context } = from;
        // SAFETY: as for `write`.
        Posted::of(unsafe {
            let send = (*(*self.endpoint).msg).send;
            send(self.endpoint, at.cast(), len, description, peer.0, context.cast())
        })
    }

    /// Posts space for a message of any peer.
    ///
    /// # Safety
    /// The space is not used before its end.
    pub unsafe fn receive(&self, into: Local) -> Posted {
        let Local { at, len, description, context } = into;
        // SAFETY: as for `write`.
        Posted::of(unsafe {
            let receive = (*(*self.endpoint).msg).recv;
            receive(self.endpoint, at.cast(), len, description, FI_ADDR_UNSPEC, context.cast())
        })
    }

    /// Makes progress, and adds operations that are over to `events`: some, or one that failed.
    pub fn poll(&self, events: &mut Vec<Event>) {
        let empty = fi_cq_msg_entry { op_context: null_mut(), flags: 0, len: 0 };
        let mut entries = [empty; BATCH];
        // SAFETY: a live queue, and places for that many entries of its format.
        let count = unsafe {
            let read = (*(*self.queue).ops).read;
            read(self.queue, entries.as_mut_ptr().cast(), BATCH)
        };
        let event = |context: *mut c_void, len, worked| {
            // SAFETY: null, or the context of an operation of this engine, which is never freed.
            let context = unsafe { context.cast::<Context>().as_ref() };
            context.map(|context| Event { slot: context.slot, len, worked })
        };
        if count == -FI_EAVAIL as isize {
            // SAFETY: an entry of zeros is valid.
            let mut failed: Failed = unsafe { std::mem::zeroed() };
            // SAFETY: a live queue, and a place for an entry.
            let read = unsafe {
                let read = (*(*self.queue).ops).readerr;
                read(self.queue, (&raw mut failed).cast(), 0)
            };
            if read > 0 {
                events.extend(event(failed.entry.op_context, 0, false));
            }
        }
        let entries = entries.iter().take(usize::try_from(count).unwrap_or(0));
        events.extend(entries.filter_map(|entry| event(entry.op_context, entry.len, true)));
    }

    /// Ends the endpoint and everything that it needed, so that the library can be unloaded.
    pub fn close(&mut self) {
        let close = |object: *mut fid| {
            if !object.is_null() {
                // SAFETY: an object of the library that is not used any more, closed once: those
                // that use others before these.
                unsafe { ((*(*object).ops).close)(object) };
            }
        };
        // Every object begins with its `fid`.
        close(std::mem::replace(&mut self.endpoint, null_mut()).cast());
        self.memory.drain(..).for_each(|memory| close(memory.cast()));
        close(std::mem::replace(&mut self.queue, null_mut()).cast());
        close(std::mem::replace(&mut self.peers, null_mut()).cast());
        close(std::mem::replace(&mut self.domain, null_mut()).cast());
        close(std::mem::replace(&mut self.fabric, null_mut()).cast());
    }
}
