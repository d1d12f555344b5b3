//! Types and values of libfabric, as in its headers, cut to what the engine uses.
//!
//! The library allocates the structures that are shorter here than in its headers, and passes
//! pointers to them; fields that the engine does not use are missing at their ends.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A function that is not called here.
type unused = *const c_void;

pub const FI_MSG: u64 = 2;
pub const FI_RMA: u64 = 4;
pub const FI_READ: u64 = 0x100;
pub const FI_WRITE: u64 = 0x200;
pub const FI_RECV: u64 = 0x400;
pub const FI_SEND: u64 = 0x800;
pub const FI_REMOTE_READ: u64 = 0x1000;
pub const FI_REMOTE_WRITE: u64 = 0x2000;
pub const FI_DELIVERY_COMPLETE: u64 = 0x10000000;
pub const FI_COMPLETION: u64 = 0x1000000;
pub const FI_CONTEXT: u64 = 0x800000000000000;
pub const FI_CONTEXT2: u64 = 0x10000000000000;
pub const FI_ORDER_SAS: u64 = 0x100;
pub const FI_ADDR_UNSPEC: u64 = 0xffffffffffffffff;
pub const FI_ADDR_NOTAVAIL: u64 = 0xffffffffffffffff;
pub const FI_MR_LOCAL: c_int = 4;
pub const FI_MR_VIRT_ADDR: c_int = 16;
pub const FI_MR_ALLOCATED: c_int = 32;
pub const FI_MR_PROV_KEY: c_int = 64;
pub const FI_MR_ENDPOINT: c_int = 512;
pub const FI_EP_RDM: c_uint = 3;
pub const FI_RM_ENABLED: c_uint = 2;
pub const FI_AV_UNSPEC: c_uint = 0;
pub const FI_AV_TABLE: c_uint = 2;
pub const FI_CQ_FORMAT_MSG: c_uint = 2;
pub const FI_WAIT_NONE: c_uint = 0;
pub const FI_WAIT_FD: c_uint = 3;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_SUCCESS: c_int = 0;
pub const FI_EAGAIN: c_int = 11;
pub const FI_EAVAIL: c_int = 259;
pub const FI_ENODATA: c_int = 61;
pub const FI_ENOMEM: c_int = 12;

/// Bytes of this process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

/// The beginning of every object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

/// The functions of every object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
}

/// Attributes of sending.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

/// Attributes of receiving.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

/// Attributes of an endpoint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ep_attr {
    pub type_: c_uint,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
}

/// Attributes of a domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_domain_attr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_uint,
    pub control_progress: c_uint,
    pub data_progress: c_uint,
    pub resource_mgmt: c_uint,
    pub av_type: c_uint,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
}

/// Attributes of a fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

/// An interface that the library offers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut c_void,
}

/// The functions of a fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: unsafe extern "C" fn(
        *mut fid_fabric,
        *mut fi_info,
        *mut *mut fid_domain,
        *mut c_void,
    ) -> c_int,
    pub passive_ep: unused,
    pub eq_open: unused,
    pub wait_open: unused,
    pub trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
}

/// A fabric.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
}

/// Attributes of an address vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_av_attr {
    pub type_: c_uint,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

/// The functions of an address vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: unsafe extern "C" fn(
        *mut fid_av,
        *const c_void,
        usize,
        *mut u64,
        u64,
        *mut c_void,
    ) -> c_int,
}

/// An address vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

/// Attributes of a completion queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: c_uint,
    pub wait_obj: c_uint,
    pub signaling_vector: c_int,
    pub wait_cond: c_uint,
    pub wait_set: *mut c_void,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

/// The failure of an operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

/// The functions of a completion queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
    pub readfrom: unused,
    pub readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
}

/// A completion queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

/// Registered memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

/// The functions for registration.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: unsafe extern "C" fn(
        *mut fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
}

/// The functions of a domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_av_attr,
        *mut *mut fid_av,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut fid_domain,
        *mut fi_cq_attr,
        *mut *mut fid_cq,
        *mut c_void,
    ) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
}

/// A domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

/// The functions for addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: unused,
    pub getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
}

/// The functions for messages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
    pub recvv: unused,
    pub recvmsg: unused,
    pub send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        *mut c_void,
    ) -> isize,
}

/// Bytes of a peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// A transfer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// The functions for transfers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub readv: unused,
    pub readmsg: unused,
    pub write: unused,
    pub writev: unused,
    pub writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
}

/// An endpoint.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut c_void,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
}

/// Space for the library while an operation is under way.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

// The layouts that `tests/bindings.rs` of raidshmem compares with the headers.
const _: () = {
    use std::mem::{offset_of, size_of};
    ["Size of iovec"][size_of::<iovec>() - 16usize];
    ["Offset of field: iovec::iov_base"][offset_of!(iovec, iov_base) - 0usize];
    ["Offset of field: iovec::iov_len"][offset_of!(iovec, iov_len) - 8usize];
    ["Size of fid"][size_of::<fid>() - 24usize];
    ["Offset of field: fid::fclass"][offset_of!(fid, fclass) - 0usize];
    ["Offset of field: fid::context"][offset_of!(fid, context) - 8usize];
    ["Offset of field: fid::ops"][offset_of!(fid, ops) - 16usize];
    ["Size of fi_ops"][size_of::<fi_ops>() - 32usize];
    ["Offset of field: fi_ops::size"][offset_of!(fi_ops, size) - 0usize];
    ["Offset of field: fi_ops::close"][offset_of!(fi_ops, close) - 8usize];
    ["Offset of field: fi_ops::bind"][offset_of!(fi_ops, bind) - 16usize];
    ["Offset of field: fi_ops::control"][offset_of!(fi_ops, control) - 24usize];
    ["Size of fi_tx_attr"][size_of::<fi_tx_attr>() - 80usize];
    ["Offset of field: fi_tx_attr::caps"][offset_of!(fi_tx_attr, caps) - 0usize];
    ["Offset of field: fi_tx_attr::mode"][offset_of!(fi_tx_attr, mode) - 8usize];
    ["Offset of field: fi_tx_attr::op_flags"][offset_of!(fi_tx_attr, op_flags) - 16usize];
    ["Offset of field: fi_tx_attr::msg_order"][offset_of!(fi_tx_attr, msg_order) - 24usize];
    ["Offset of field: fi_tx_attr::comp_order"][offset_of!(fi_tx_attr, comp_order) - 32usize];
    ["Offset of field: fi_tx_attr::inject_size"][offset_of!(fi_tx_attr, inject_size) - 40usize];
    ["Offset of field: fi_tx_attr::size"][offset_of!(fi_tx_attr, size) - 48usize];
    ["Offset of field: fi_tx_attr::iov_limit"][offset_of!(fi_tx_attr, iov_limit) - 56usize];
    ["Offset of field: fi_tx_attr::rma_iov_limit"][offset_of!(fi_tx_attr, rma_iov_limit) - 64usize];
    ["Offset of field: fi_tx_attr::tclass"][offset_of!(fi_tx_attr, tclass) - 72usize];
    ["Size of fi_rx_attr"][size_of::<fi_rx_attr>() - 64usize];
    ["Offset of field: fi_rx_attr::caps"][offset_of!(fi_rx_attr, caps) - 0usize];
    ["Offset of field: fi_rx_attr::mode"][offset_of!(fi_rx_attr, mode) - 8usize];
    ["Offset of field: fi_rx_attr::op_flags"][offset_of!(fi_rx_attr, op_flags) - 16usize];
    ["Offset of field: fi_rx_attr::msg_order"][offset_of!(fi_rx_attr, msg_order) - 24usize];
    ["Offset of field: fi_rx_attr::comp_order"][offset_of!(fi_rx_attr, comp_order) - 32usize];
    ["Offset of field: fi_rx_attr::total_buffered_recv"]
        [offset_of!(fi_rx_attr, total_buffered_recv) - 40usize];
    ["Offset of field: fi_rx_attr::size"][offset_of!(fi_rx_attr, size) - 48usize];
    ["Offset of field: fi_rx_attr::iov_limit"][offset_of!(fi_rx_attr, iov_limit) - 56usize];
    ["Size of fi_ep_attr"][size_of::<fi_ep_attr>() - 32usize];
    ["Offset of field: fi_ep_attr::type"][offset_of!(fi_ep_attr, type_) - 0usize];
    ["Offset of field: fi_ep_attr::protocol"][offset_of!(fi_ep_attr, protocol) - 4usize];
    ["Offset of field: fi_ep_attr::protocol_version"]
        [offset_of!(fi_ep_attr, protocol_version) - 8usize];
    ["Offset of field: fi_ep_attr::max_msg_size"][offset_of!(fi_ep_attr, max_msg_size) - 16usize];
    ["Offset of field: fi_ep_attr::msg_prefix_size"]
        [offset_of!(fi_ep_attr, msg_prefix_size) - 24usize];
    ["Size of fi_domain_attr"][size_of::<fi_domain_attr>() - 64usize];
    ["Offset of field: fi_domain_attr::domain"][offset_of!(fi_domain_attr, domain) - 0usize];
    ["Offset of field: fi_domain_attr::name"][offset_of!(fi_domain_attr, name) - 8usize];
    ["Offset of field: fi_domain_attr::threading"][offset_of!(fi_domain_attr, threading) - 16usize];
    ["Offset of field: fi_domain_attr::control_progress"]
        [offset_of!(fi_domain_attr, control_progress) - 20usize];
    ["Offset of field: fi_domain_attr::data_progress"]
        [offset_of!(fi_domain_attr, data_progress) - 24usize];
    ["Offset of field: fi_domain_attr::resource_mgmt"]
        [offset_of!(fi_domain_attr, resource_mgmt) - 28usize];
    ["Offset of field: fi_domain_attr::av_type"][offset_of!(fi_domain_attr, av_type) - 32usize];
    ["Offset of field: fi_domain_attr::mr_mode"][offset_of!(fi_domain_attr, mr_mode) - 36usize];
    ["Offset of field: fi_domain_attr::mr_key_size"]
        [offset_of!(fi_domain_attr, mr_key_size) - 40usize];
    ["Offset of field: fi_domain_attr::cq_data_size"]
        [offset_of!(fi_domain_attr, cq_data_size) - 48usize];
    ["Offset of field: fi_domain_attr::cq_cnt"][offset_of!(fi_domain_attr, cq_cnt) - 56usize];
    ["Size of fi_fabric_attr"][size_of::<fi_fabric_attr>() - 32usize];
    ["Offset of field: fi_fabric_attr::fabric"][offset_of!(fi_fabric_attr, fabric) - 0usize];
    ["Offset of field: fi_fabric_attr::name"][offset_of!(fi_fabric_attr, name) - 8usize];
    ["Offset of field: fi_fabric_attr::prov_name"][offset_of!(fi_fabric_attr, prov_name) - 16usize];
    ["Offset of field: fi_fabric_attr::prov_version"]
        [offset_of!(fi_fabric_attr, prov_version) - 24usize];
    ["Offset of field: fi_fabric_attr::api_version"]
        [offset_of!(fi_fabric_attr, api_version) - 28usize];
    ["Size of fi_info"][size_of::<fi_info>() - 120usize];
    ["Offset of field: fi_info::next"][offset_of!(fi_info, next) - 0usize];
    ["Offset of field: fi_info::caps"][offset_of!(fi_info, caps) - 8usize];
    ["Offset of field: fi_info::mode"][offset_of!(fi_info, mode) - 16usize];
    ["Offset of field: fi_info::addr_format"][offset_of!(fi_info, addr_format) - 24usize];
    ["Offset of field: fi_info::src_addrlen"][offset_of!(fi_info, src_addrlen) - 32usize];
    ["Offset of field: fi_info::dest_addrlen"][offset_of!(fi_info, dest_addrlen) - 40usize];
    ["Offset of field: fi_info::src_addr"][offset_of!(fi_info, src_addr) - 48usize];
    ["Offset of field: fi_info::dest_addr"][offset_of!(fi_info, dest_addr) - 56usize];
    ["Offset of field: fi_info::handle"][offset_of!(fi_info, handle) - 64usize];
    ["Offset of field: fi_info::tx_attr"][offset_of!(fi_info, tx_attr) - 72usize];
    ["Offset of field: fi_info::rx_attr"][offset_of!(fi_info, rx_attr) - 80usize];
    ["Offset of field: fi_info::ep_attr"][offset_of!(fi_info, ep_attr) - 88usize];
    ["Offset of field: fi_info::domain_attr"][offset_of!(fi_info, domain_attr) - 96usize];
    ["Offset of field: fi_info::fabric_attr"][offset_of!(fi_info, fabric_attr) - 104usize];
    ["Offset of field: fi_info::nic"][offset_of!(fi_info, nic) - 112usize];
    ["Size of fi_ops_fabric"][size_of::<fi_ops_fabric>() - 48usize];
    ["Offset of field: fi_ops_fabric::size"][offset_of!(fi_ops_fabric, size) - 0usize];
    ["Offset of field: fi_ops_fabric::domain"][offset_of!(fi_ops_fabric, domain) - 8usize];
    ["Offset of field: fi_ops_fabric::passive_ep"][offset_of!(fi_ops_fabric, passive_ep) - 16usize];
    ["Offset of field: fi_ops_fabric::eq_open"][offset_of!(fi_ops_fabric, eq_open) - 24usize];
    ["Offset of field: fi_ops_fabric::wait_open"][offset_of!(fi_ops_fabric, wait_open) - 32usize];
    ["Offset of field: fi_ops_fabric::trywait"][offset_of!(fi_ops_fabric, trywait) - 40usize];
    ["Size of fid_fabric"][size_of::<fid_fabric>() - 32usize];
    ["Offset of field: fid_fabric::fid"][offset_of!(fid_fabric, fid) - 0usize];
    ["Offset of field: fid_fabric::ops"][offset_of!(fid_fabric, ops) - 24usize];
    ["Size of fi_av_attr"][size_of::<fi_av_attr>() - 48usize];
    ["Offset of field: fi_av_attr::type"][offset_of!(fi_av_attr, type_) - 0usize];
    ["Offset of field: fi_av_attr::rx_ctx_bits"][offset_of!(fi_av_attr, rx_ctx_bits) - 4usize];
    ["Offset of field: fi_av_attr::count"][offset_of!(fi_av_attr, count) - 8usize];
    ["Offset of field: fi_av_attr::ep_per_node"][offset_of!(fi_av_attr, ep_per_node) - 16usize];
    ["Offset of field: fi_av_attr::name"][offset_of!(fi_av_attr, name) - 24usize];
    ["Offset of field: fi_av_attr::map_addr"][offset_of!(fi_av_attr, map_addr) - 32usize];
    ["Offset of field: fi_av_attr::flags"][offset_of!(fi_av_attr, flags) - 40usize];
    ["Size of fi_ops_av"][size_of::<fi_ops_av>() - 16usize];
    ["Offset of field: fi_ops_av::size"][offset_of!(fi_ops_av, size) - 0usize];
    ["Offset of field: fi_ops_av::insert"][offset_of!(fi_ops_av, insert) - 8usize];
    ["Size of fid_av"][size_of::<fid_av>() - 32usize];
    ["Offset of field: fid_av::fid"][offset_of!(fid_av, fid) - 0usize];
    ["Offset of field: fid_av::ops"][offset_of!(fid_av, ops) - 24usize];
    ["Size of fi_cq_attr"][size_of::<fi_cq_attr>() - 40usize];
    ["Offset of field: fi_cq_attr::size"][offset_of!(fi_cq_attr, size) - 0usize];
    ["Offset of field: fi_cq_attr::flags"][offset_of!(fi_cq_attr, flags) - 8usize];
    ["Offset of field: fi_cq_attr::format"][offset_of!(fi_cq_attr, format) - 16usize];
    ["Offset of field: fi_cq_attr::wait_obj"][offset_of!(fi_cq_attr, wait_obj) - 20usize];
    ["Offset of field: fi_cq_attr::signaling_vector"]
        [offset_of!(fi_cq_attr, signaling_vector) - 24usize];
    ["Offset of field: fi_cq_attr::wait_cond"][offset_of!(fi_cq_attr, wait_cond) - 28usize];
    ["Offset of field: fi_cq_attr::wait_set"][offset_of!(fi_cq_attr, wait_set) - 32usize];
    ["Size of fi_cq_msg_entry"][size_of::<fi_cq_msg_entry>() - 24usize];
    ["Offset of field: fi_cq_msg_entry::op_context"]
        [offset_of!(fi_cq_msg_entry, op_context) - 0usize];
    ["Offset of field: fi_cq_msg_entry::flags"][offset_of!(fi_cq_msg_entry, flags) - 8usize];
    ["Offset of field: fi_cq_msg_entry::len"][offset_of!(fi_cq_msg_entry, len) - 16usize];
    ["Size of fi_cq_err_entry"][size_of::<fi_cq_err_entry>() - 80usize];
    ["Offset of field: fi_cq_err_entry::op_context"]
        [offset_of!(fi_cq_err_entry, op_context) - 0usize];
    ["Offset of field: fi_cq_err_entry::flags"][offset_of!(fi_cq_err_entry, flags) - 8usize];
    ["Offset of field: fi_cq_err_entry::len"][offset_of!(fi_cq_err_entry, len) - 16usize];
    ["Offset of field: fi_cq_err_entry::buf"][offset_of!(fi_cq_err_entry, buf) - 24usize];
    ["Offset of field: fi_cq_err_entry::data"][offset_of!(fi_cq_err_entry, data) - 32usize];
    ["Offset of field: fi_cq_err_entry::tag"][offset_of!(fi_cq_err_entry, tag) - 40usize];
    ["Offset of field: fi_cq_err_entry::olen"][offset_of!(fi_cq_err_entry, olen) - 48usize];
    ["Offset of field: fi_cq_err_entry::err"][offset_of!(fi_cq_err_entry, err) - 56usize];
    ["Offset of field: fi_cq_err_entry::prov_errno"]
        [offset_of!(fi_cq_err_entry, prov_errno) - 60usize];
    ["Offset of field: fi_cq_err_entry::err_data"][offset_of!(fi_cq_err_entry, err_data) - 64usize];
    ["Offset of field: fi_cq_err_entry::err_data_size"]
        [offset_of!(fi_cq_err_entry, err_data_size) - 72usize];
    ["Size of fi_ops_cq"][size_of::<fi_ops_cq>() - 32usize];
    ["Offset of field: fi_ops_cq::size"][offset_of!(fi_ops_cq, size) - 0usize];
    ["Offset of field: fi_ops_cq::read"][offset_of!(fi_ops_cq, read) - 8usize];
    ["Offset of field: fi_ops_cq::readfrom"][offset_of!(fi_ops_cq, readfrom) - 16usize];
    ["Offset of field: fi_ops_cq::readerr"][offset_of!(fi_ops_cq, readerr) - 24usize];
    ["Size of fid_cq"][size_of::<fid_cq>() - 32usize];
    ["Offset of field: fid_cq::fid"][offset_of!(fid_cq, fid) - 0usize];
    ["Offset of field: fid_cq::ops"][offset_of!(fid_cq, ops) - 24usize];
    ["Size of fid_mr"][size_of::<fid_mr>() - 40usize];
    ["Offset of field: fid_mr::fid"][offset_of!(fid_mr, fid) - 0usize];
    ["Offset of field: fid_mr::mem_desc"][offset_of!(fid_mr, mem_desc) - 24usize];
    ["Offset of field: fid_mr::key"][offset_of!(fid_mr, key) - 32usize];
    ["Size of fi_ops_mr"][size_of::<fi_ops_mr>() - 16usize];
    ["Offset of field: fi_ops_mr::size"][offset_of!(fi_ops_mr, size) - 0usize];
    ["Offset of field: fi_ops_mr::reg"][offset_of!(fi_ops_mr, reg) - 8usize];
    ["Size of fi_ops_domain"][size_of::<fi_ops_domain>() - 32usize];
    ["Offset of field: fi_ops_domain::size"][offset_of!(fi_ops_domain, size) - 0usize];
    ["Offset of field: fi_ops_domain::av_open"][offset_of!(fi_ops_domain, av_open) - 8usize];
    ["Offset of field: fi_ops_domain::cq_open"][offset_of!(fi_ops_domain, cq_open) - 16usize];
    ["Offset of field: fi_ops_domain::endpoint"][offset_of!(fi_ops_domain, endpoint) - 24usize];
    ["Size of fid_domain"][size_of::<fid_domain>() - 40usize];
    ["Offset of field: fid_domain::fid"][offset_of!(fid_domain, fid) - 0usize];
    ["Offset of field: fid_domain::ops"][offset_of!(fid_domain, ops) - 24usize];
    ["Offset of field: fid_domain::mr"][offset_of!(fid_domain, mr) - 32usize];
    ["Size of fi_ops_cm"][size_of::<fi_ops_cm>() - 24usize];
    ["Offset of field: fi_ops_cm::size"][offset_of!(fi_ops_cm, size) - 0usize];
    ["Offset of field: fi_ops_cm::setname"][offset_of!(fi_ops_cm, setname) - 8usize];
    ["Offset of field: fi_ops_cm::getname"][offset_of!(fi_ops_cm, getname) - 16usize];
    ["Size of fi_ops_msg"][size_of::<fi_ops_msg>() - 40usize];
    ["Offset of field: fi_ops_msg::size"][offset_of!(fi_ops_msg, size) - 0usize];
    ["Offset of field: fi_ops_msg::recv"][offset_of!(fi_ops_msg, recv) - 8usize];
    ["Offset of field: fi_ops_msg::recvv"][offset_of!(fi_ops_msg, recvv) - 16usize];
    ["Offset of field: fi_ops_msg::recvmsg"][offset_of!(fi_ops_msg, recvmsg) - 24usize];
    ["Offset of field: fi_ops_msg::send"][offset_of!(fi_ops_msg, send) - 32usize];
    ["Size of fi_rma_iov"][size_of::<fi_rma_iov>() - 24usize];
    ["Offset of field: fi_rma_iov::addr"][offset_of!(fi_rma_iov, addr) - 0usize];
    ["Offset of field: fi_rma_iov::len"][offset_of!(fi_rma_iov, len) - 8usize];
    ["Offset of field: fi_rma_iov::key"][offset_of!(fi_rma_iov, key) - 16usize];
    ["Size of fi_msg_rma"][size_of::<fi_msg_rma>() - 64usize];
    ["Offset of field: fi_msg_rma::msg_iov"][offset_of!(fi_msg_rma, msg_iov) - 0usize];
    ["Offset of field: fi_msg_rma::desc"][offset_of!(fi_msg_rma, desc) - 8usize];
    ["Offset of field: fi_msg_rma::iov_count"][offset_of!(fi_msg_rma, iov_count) - 16usize];
    ["Offset of field: fi_msg_rma::addr"][offset_of!(fi_msg_rma, addr) - 24usize];
    ["Offset of field: fi_msg_rma::rma_iov"][offset_of!(fi_msg_rma, rma_iov) - 32usize];
    ["Offset of field: fi_msg_rma::rma_iov_count"][offset_of!(fi_msg_rma, rma_iov_count) - 40usize];
    ["Offset of field: fi_msg_rma::context"][offset_of!(fi_msg_rma, context) - 48usize];
    ["Offset of field: fi_msg_rma::data"][offset_of!(fi_msg_rma, data) - 56usize];
    ["Size of fi_ops_rma"][size_of::<fi_ops_rma>() - 56usize];
    ["Offset of field: fi_ops_rma::size"][offset_of!(fi_ops_rma, size) - 0usize];
    ["Offset of field: fi_ops_rma::read"][offset_of!(fi_ops_rma, read) - 8usize];
    ["Offset of field: fi_ops_rma::readv"][offset_of!(fi_ops_rma, readv) - 16usize];
    ["Offset of field: fi_ops_rma::readmsg"][offset_of!(fi_ops_rma, readmsg) - 24usize];
    ["Offset of field: fi_ops_rma::write"][offset_of!(fi_ops_rma, write) - 32usize];
    ["Offset of field: fi_ops_rma::writev"][offset_of!(fi_ops_rma, writev) - 40usize];
    ["Offset of field: fi_ops_rma::writemsg"][offset_of!(fi_ops_rma, writemsg) - 48usize];
    ["Size of fid_ep"][size_of::<fid_ep>() - 56usize];
    ["Offset of field: fid_ep::fid"][offset_of!(fid_ep, fid) - 0usize];
    ["Offset of field: fid_ep::ops"][offset_of!(fid_ep, ops) - 24usize];
    ["Offset of field: fid_ep::cm"][offset_of!(fid_ep, cm) - 32usize];
    ["Offset of field: fid_ep::msg"][offset_of!(fid_ep, msg) - 40usize];
    ["Offset of field: fid_ep::rma"][offset_of!(fid_ep, rma) - 48usize];
    ["Size of fi_context2"][size_of::<fi_context2>() - 64usize];
    ["Offset of field: fi_context2::internal"][offset_of!(fi_context2, internal) - 0usize];
};
