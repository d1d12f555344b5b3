//! Queue pairs: connections and datagrams, and the work requests posted to them.
//!
//! Invariant: a work request uses memory only through [`Span`]s, so that the device never accesses
//! unregistered memory; inline bytes are copied when it is posted.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

use rdma_sys::*;

use crate::device::Device;
use crate::objects::{Inbox, LINKED, Queue, Span, named, receive};
use crate::wire::{Address, RemoteAddress};

/// Maximum bytes that travel in a work request itself.
pub const INLINE: usize = 128;

/// The operation of a work request.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// RDMA write.
    Write(RemoteAddress),
    /// RDMA write that also completes a buffer of the receiver, which wakes it.
    WriteAndWake(RemoteAddress),
    /// RDMA read.
    Read(RemoteAddress),
    /// Adds this to a word of 8 bytes; returns the previous value.
    FetchAdd(RemoteAddress, u64),
    /// Swaps a word of 8 bytes if it equals the first value for the second; returns the previous
    /// value.
    CompareSwap(RemoteAddress, u64, u64),
    /// Send; `true` to wake the receiver.
    Send(bool),
    /// Send by datagram, to a queue pair with this number and key.
    Datagram(&'a Route, u32, u32),
}

/// The local bytes of a work request.
#[derive(Debug, Clone, Copy)]
pub enum Local<'a> {
    /// Copied when posted; at most [`INLINE`].
    Inline(&'a [u8]),
    /// In use until completion.
    Span(Span),
}

/// A work request.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The identifier for its completion.
    pub id: u64,
    /// Its operation.
    pub what: What<'a>,
    /// Its local bytes.
    pub local: Local<'a>,
    /// True to request a completion.
    pub signal: bool,
}

/// A queue pair.
#[derive(Debug)]
pub struct Pair {
    entry: *mut ibv_qp,
    _queue: Arc<Queue>,
    _inbox: Option<Arc<Inbox>>,
    device: Arc<Device>,
}

// SAFETY: libibverbs is thread-safe; the pointer is freed only in drop.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

fn state(state: ibv_qp_state::Type) -> ibv_qp_attr {
    // SAFETY: plain numbers, for which zero is a value.
    let mut to: ibv_qp_attr = unsafe { std::mem::zeroed() };
    to.qp_state = state;
    to
}

impl Pair {
    /// Creates a queue pair for `depth` work requests: a connection if there is an inbox, else for
    /// datagrams.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn new(
        device: &Arc<Device>,
        queue: &Arc<Queue>,
        inbox: Option<&Arc<Inbox>>,
        depth: usize,
    ) -> Result<Pair, String> {
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut what: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        (what.send_cq, what.recv_cq) = (queue.entry, queue.entry);
        (what.cap.max_send_wr, what.cap.max_send_sge) = (depth as u32, 1);
        what.cap.max_inline_data = INLINE as u32;
        match inbox {
            Some(inbox) => (what.qp_type, what.srq) = (ibv_qp_type::IBV_QPT_RC, inbox.entry),
            None => {
                what.qp_type = ibv_qp_type::IBV_QPT_UD;
                (what.cap.max_recv_wr, what.cap.max_recv_sge) = (depth as u32, 1);
            }
        }
        // SAFETY: an open device; queues that live as long as self.
        let entry = unsafe { device.api.ibv_create_qp(device.domain, &mut what) };
        if entry.is_null() {
            return Err(named("queue pair"));
        }
        let (queue, inbox) = (Arc::clone(queue), inbox.map(Arc::clone));
        let own = Pair { entry, _queue: queue, _inbox: inbox, device: Arc::clone(device) };
        if (what.cap.max_inline_data as usize) < INLINE {
            return Err(format!("{}: work requests cannot hold {INLINE} bytes", device.name));
        }
        Ok(own)
    }

    fn modify(&self, mut to: ibv_qp_attr, mask: ibv_qp_attr_mask) -> Result<(), String> {
        // SAFETY: made in `new`, with the attributes to change.
        match unsafe { self.device.api.ibv_modify_qp(self.entry, &mut to, mask.0 as i32) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error).to_string()),
        }
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        // SAFETY: made in `new`.
        unsafe { (*self.entry).qp_num }
    }

    /// Makes a datagram queue pair ready.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn open(&self, key: u32) -> Result<(), String> {
        use ibv_qp_attr_mask as mask;
        let mut to = state(ibv_qp_state::IBV_QPS_INIT);
        (to.port_num, to.qkey) = (self.device.port, key);
        let first = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.modify(to, first | mask::IBV_QP_QKEY)?;
        self.modify(state(ibv_qp_state::IBV_QPS_RTR), mask::IBV_QP_STATE)?;
        let to = state(ibv_qp_state::IBV_QPS_RTS);
        self.modify(to, mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN)
    }

    /// Connects it to queue pair `qpn` at `peer`, which may use the device's atomics here if
    /// `atomics`. `psn` holds the initial packet numbers of this end and of the peer.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn connect(
        &self,
        peer: &Address,
        qpn: u32,
        psn: (u32, u32),
        atomics: bool,
    ) -> Result<(), String> {
        use ibv_access_flags as access;
        use ibv_qp_attr_mask as mask;
        let mut to = state(ibv_qp_state::IBV_QPS_INIT);
        to.port_num = self.device.port;
        to.qp_access_flags = (access::IBV_ACCESS_REMOTE_READ | access::IBV_ACCESS_REMOTE_WRITE).0;
        if atomics {
            to.qp_access_flags |= access::IBV_ACCESS_REMOTE_ATOMIC.0;
        }
        let first = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT;
        self.modify(to, first | mask::IBV_QP_ACCESS_FLAGS)?;

        let mut to = state(ibv_qp_state::IBV_QPS_RTR);
        (to.path_mtu, to.dest_qp_num) = (self.device.mtu.min(peer.mtu).into(), qpn);
        (to.rq_psn, to.max_dest_rd_atomic) = (psn.1, self.device.reads.0);
        to.min_rnr_timer = 12; // 0.64 ms: a full inbox is soon emptied
        to.ah_attr = route(&self.device, peer);
        let mask_ = mask::IBV_QP_STATE | mask::IBV_QP_AV | mask::IBV_QP_PATH_MTU;
        let mask_ = mask_ | mask::IBV_QP_DEST_QPN | mask::IBV_QP_RQ_PSN;
        let mask_ = mask_ | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
        self.modify(to, mask_)?;

        let mut to = state(ibv_qp_state::IBV_QPS_RTS);
        (to.sq_psn, to.max_rd_atomic) = (psn.0, self.device.reads.1.min(peer.reads));
        // A packet is sent again after 0.5 s, 7 times: views declare a death sooner. A packet
        // without a receive buffer is retried indefinitely: its receiver is slow, not dead.
        (to.timeout, to.retry_cnt, to.rnr_retry) = (17, 7, 7);
        let mask_ = mask::IBV_QP_STATE | mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT;
        let mask_ = mask_ | mask::IBV_QP_RNR_RETRY | mask::IBV_QP_SQ_PSN;
        self.modify(to, mask_ | mask::IBV_QP_MAX_QP_RD_ATOMIC)
    }

    /// Puts it into the error state: nothing is sent or received any more, and requests under way
    /// complete with an error.
    pub fn fail(&self) {
        let to = state(ibv_qp_state::IBV_QPS_ERR);
        let _ = self.modify(to, ibv_qp_attr_mask::IBV_QP_STATE); // allowed in every state
    }

    /// Posts a receive buffer for a datagram. Returns true on success.
    pub fn offer(&self, id: u64, span: Span) -> bool {
        let mut piece = ibv_sge { addr: span.address, length: span.len, lkey: span.key };
        let mut work = receive(id, &mut piece);
        // SAFETY: the work request and its piece live until the call returns, which copies them.
        unsafe { ibv_post_recv(self.entry, &mut work, &mut null_mut()) == 0 }
    }

    /// Posts at most [`LINKED`] work requests, announced to the device together.
    ///
    /// # Errors
    /// The number of requests posted, from the first, if the device did not take all.
    pub fn post(&self, works: &[Work]) -> Result<(), usize> {
        assert!(works.len() <= LINKED, "{} linked work requests", works.len());
        let mut pieces = [const { MaybeUninit::<ibv_sge>::uninit() }; LINKED];
        let mut chain = [const { MaybeUninit::<ibv_send_wr>::uninit() }; LINKED];
        let mut next = null_mut();
        for (at, work) in works.iter().enumerate().rev() {
            let piece = pieces[at].write(match work.local {
                Local::Inline(bytes) => {
                    ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 }
                }
                Local::Span(span) => {
                    ibv_sge { addr: span.address, length: span.len, lkey: span.key }
                }
            });
            // SAFETY: plain numbers and pointers, for which zero is a value.
            let one = chain[at].write(unsafe { std::mem::zeroed() });
            fill(one, work);
            (one.sg_list, one.next) = (piece, next);
            next = one;
        }
        let mut bad = null_mut();
        // SAFETY: the chain, its pieces and inline bytes live until the call returns, which copies
        // them; spans lie in regions, which outlive this queue pair.
        if works.is_empty() || unsafe { ibv_post_send(self.entry, next, &mut bad) } == 0 {
            return Ok(());
        }
        // A device that names no bad request may have taken all.
        Err(chain.iter().position(|one| one.as_ptr() == bad).unwrap_or(works.len()))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: made in `new`.
        unsafe { self.device.api.ibv_destroy_qp(self.entry) };
    }
}

fn fill(out: &mut ibv_send_wr, work: &Work) {
    use ibv_send_flags as flags;
    out.wr_id = work.id;
    out.num_sge = 1;
    if work.signal {
        out.send_flags |= flags::IBV_SEND_SIGNALED.0;
    }
    if let Local::Inline(_) = work.local {
        out.send_flags |= flags::IBV_SEND_INLINE.0;
    }
    match work.what {
        What::Write((remote_addr, rkey)) => {
            out.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
            out.wr.rdma = rdma_t { remote_addr, rkey };
        }
        What::WriteAndWake((remote_addr, rkey)) => {
            out.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
            out.send_flags |= flags::IBV_SEND_SOLICITED.0;
            out.wr.rdma = rdma_t { remote_addr, rkey };
        }
        What::Read((remote_addr, rkey)) => {
            out.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
            out.wr.rdma = rdma_t { remote_addr, rkey };
        }
        What::FetchAdd((remote_addr, rkey), compare_add) => {
            out.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
            out.wr.atomic = atomic_t { remote_addr, compare_add, swap: 0, rkey };
        }
        What::CompareSwap((remote_addr, rkey), compare_add, swap) => {
            out.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
            out.wr.atomic = atomic_t { remote_addr, compare_add, swap, rkey };
        }
        What::Send(wake) => {
            out.opcode = ibv_wr_opcode::IBV_WR_SEND;
            if wake {
                out.send_flags |= flags::IBV_SEND_SOLICITED.0;
            }
        }
        What::Datagram(route, remote_qpn, remote_qkey) => {
            out.opcode = ibv_wr_opcode::IBV_WR_SEND;
            out.send_flags |= flags::IBV_SEND_SOLICITED.0;
            out.wr.ud = ud_t { ah: route.entry, remote_qpn, remote_qkey };
        }
    }
}

/// The route to a peer, for datagrams.
#[derive(Debug)]
pub struct Route {
    entry: *mut ibv_ah,
    device: Arc<Device>,
}

// SAFETY: libibverbs is thread-safe; the pointer is freed in drop only.
unsafe impl Send for Route {}
// SAFETY: as above.
unsafe impl Sync for Route {}

impl Route {
    /// Creates the route to `peer`.
    ///
    /// # Errors
    /// A message that describes the failure.
    pub fn new(device: &Arc<Device>, peer: &Address) -> Result<Route, String> {
        // SAFETY: an open device and a description that the call copies.
        let entry = unsafe { device.api.ibv_create_ah(device.domain, &mut route(device, peer)) };
        if entry.is_null() {
            return Err(named("route"));
        }
        Ok(Route { entry, device: Arc::clone(device) })
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: made in `new`.
        unsafe { self.device.api.ibv_destroy_ah(self.entry) };
    }
}

fn route(device: &Device, peer: &Address) -> ibv_ah_attr {
    let dgid = ibv_gid { raw: peer.gid };
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid,
            flow_label: 0,
            sgid_index: device.gid_index,
            hop_limit: 64,
            traffic_class: 0,
        },
        dlid: peer.lid,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: device.ethernet.into(),
        port_num: device.port,
    }
}
