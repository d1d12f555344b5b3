//! Types that involve a union, directly or indirectly. Bindgen handles unions badly, so they are
//! defined by hand.

use crate::*;

// ibv_gid related union and struct types
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_gid_global_t {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_gid {
    pub raw: [u8; 16],
    pub global: ibv_gid_global_t,
}

// ibv_wc related union and struct types
#[repr(C)]
pub union imm_data_invalidated_rkey_union_t {
    /// When (wc_flags & IBV_WC_WITH_IMM): Immediate data in network byte order.
    pub imm_data: __be32,
    /// When (wc_flags & IBV_WC_WITH_INV): Stores the invalidated rkey.
    pub invalidated_rkey: u32,
}

#[repr(C)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: ibv_wc_status::Type,
    pub opcode: ibv_wc_opcode::Type,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

// ibv_send_wr related union and struct types
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: ::std::os::raw::c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct rdma_t {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct atomic_t {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ud_t {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

#[repr(C)]
pub union wr_t {
    pub rdma: rdma_t,
    pub atomic: atomic_t,
    pub ud: ud_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct xrc_t {
    pub remote_srqn: u32,
}

#[repr(C)]
pub union qp_type_t {
    pub xrc: xrc_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct bind_mw_t {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tso_t {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

#[repr(C)]
pub union bind_mw_tso_union_t {
    pub bind_mw: bind_mw_t,
    pub tso: tso_t,
}

#[repr(C)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut Self,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode::Type,
    pub send_flags: c_uint,
    /// When opcode is *_WITH_IMM: Immediate data in network byte order.
    /// When opcode is *_INV: Stores the rkey to invalidate
    pub imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t,
    pub wr: wr_t,
    pub qp_type: qp_type_t,
    pub bind_mw_tso_union: bind_mw_tso_union_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

// The layouts that `tests/bindings.rs` of raidshmem compares with the headers.
const _: () = {
    use std::mem::{offset_of, size_of};
    ["Size of ibv_gid"][size_of::<ibv_gid>() - 16usize];
    ["Offset of field: ibv_gid::raw"][offset_of!(ibv_gid, raw) - 0usize];
    ["Offset of field: ibv_gid::global.interface_id"]
        [offset_of!(ibv_gid, global.interface_id) - 8usize];
    ["Size of ibv_global_route"][size_of::<ibv_global_route>() - 24usize];
    ["Offset of field: ibv_global_route::dgid"][offset_of!(ibv_global_route, dgid) - 0usize];
    ["Offset of field: ibv_global_route::flow_label"]
        [offset_of!(ibv_global_route, flow_label) - 16usize];
    ["Offset of field: ibv_global_route::sgid_index"]
        [offset_of!(ibv_global_route, sgid_index) - 20usize];
    ["Offset of field: ibv_global_route::hop_limit"]
        [offset_of!(ibv_global_route, hop_limit) - 21usize];
    ["Offset of field: ibv_global_route::traffic_class"]
        [offset_of!(ibv_global_route, traffic_class) - 22usize];
    ["Size of ibv_ah_attr"][size_of::<ibv_ah_attr>() - 32usize];
    ["Offset of field: ibv_ah_attr::grh"][offset_of!(ibv_ah_attr, grh) - 0usize];
    ["Offset of field: ibv_ah_attr::dlid"][offset_of!(ibv_ah_attr, dlid) - 24usize];
    ["Offset of field: ibv_ah_attr::sl"][offset_of!(ibv_ah_attr, sl) - 26usize];
    ["Offset of field: ibv_ah_attr::src_path_bits"]
        [offset_of!(ibv_ah_attr, src_path_bits) - 27usize];
    ["Offset of field: ibv_ah_attr::static_rate"][offset_of!(ibv_ah_attr, static_rate) - 28usize];
    ["Offset of field: ibv_ah_attr::is_global"][offset_of!(ibv_ah_attr, is_global) - 29usize];
    ["Offset of field: ibv_ah_attr::port_num"][offset_of!(ibv_ah_attr, port_num) - 30usize];
    ["Size of ibv_wc"][size_of::<ibv_wc>() - 48usize];
    ["Offset of field: ibv_wc::wr_id"][offset_of!(ibv_wc, wr_id) - 0usize];
    ["Offset of field: ibv_wc::status"][offset_of!(ibv_wc, status) - 8usize];
    ["Offset of field: ibv_wc::opcode"][offset_of!(ibv_wc, opcode) - 12usize];
    ["Offset of field: ibv_wc::vendor_err"][offset_of!(ibv_wc, vendor_err) - 16usize];
    ["Offset of field: ibv_wc::byte_len"][offset_of!(ibv_wc, byte_len) - 20usize];
    ["Offset of field: ibv_wc::qp_num"][offset_of!(ibv_wc, qp_num) - 28usize];
    ["Offset of field: ibv_wc::src_qp"][offset_of!(ibv_wc, src_qp) - 32usize];
    ["Offset of field: ibv_wc::wc_flags"][offset_of!(ibv_wc, wc_flags) - 36usize];
    ["Offset of field: ibv_wc::pkey_index"][offset_of!(ibv_wc, pkey_index) - 40usize];
    ["Offset of field: ibv_wc::slid"][offset_of!(ibv_wc, slid) - 42usize];
    ["Offset of field: ibv_wc::sl"][offset_of!(ibv_wc, sl) - 44usize];
    ["Offset of field: ibv_wc::dlid_path_bits"][offset_of!(ibv_wc, dlid_path_bits) - 45usize];
    ["Size of ibv_send_wr"][size_of::<ibv_send_wr>() - 128usize];
    ["Offset of field: ibv_send_wr::wr_id"][offset_of!(ibv_send_wr, wr_id) - 0usize];
    ["Offset of field: ibv_send_wr::next"][offset_of!(ibv_send_wr, next) - 8usize];
    ["Offset of field: ibv_send_wr::sg_list"][offset_of!(ibv_send_wr, sg_list) - 16usize];
    ["Offset of field: ibv_send_wr::num_sge"][offset_of!(ibv_send_wr, num_sge) - 24usize];
    ["Offset of field: ibv_send_wr::opcode"][offset_of!(ibv_send_wr, opcode) - 28usize];
    ["Offset of field: ibv_send_wr::send_flags"][offset_of!(ibv_send_wr, send_flags) - 32usize];
    ["Offset of field: ibv_send_wr::wr.rdma.remote_addr"]
        [offset_of!(ibv_send_wr, wr.rdma.remote_addr) - 40usize];
    ["Offset of field: ibv_send_wr::wr.rdma.rkey"][offset_of!(ibv_send_wr, wr.rdma.rkey) - 48usize];
    ["Offset of field: ibv_send_wr::wr.atomic.remote_addr"]
        [offset_of!(ibv_send_wr, wr.atomic.remote_addr) - 40usize];
    ["Offset of field: ibv_send_wr::wr.atomic.compare_add"]
        [offset_of!(ibv_send_wr, wr.atomic.compare_add) - 48usize];
    ["Offset of field: ibv_send_wr::wr.atomic.swap"]
        [offset_of!(ibv_send_wr, wr.atomic.swap) - 56usize];
    ["Offset of field: ibv_send_wr::wr.atomic.rkey"]
        [offset_of!(ibv_send_wr, wr.atomic.rkey) - 64usize];
    ["Offset of field: ibv_send_wr::wr.ud.ah"][offset_of!(ibv_send_wr, wr.ud.ah) - 40usize];
    ["Offset of field: ibv_send_wr::wr.ud.remote_qpn"]
        [offset_of!(ibv_send_wr, wr.ud.remote_qpn) - 48usize];
    ["Offset of field: ibv_send_wr::wr.ud.remote_qkey"]
        [offset_of!(ibv_send_wr, wr.ud.remote_qkey) - 52usize];
    ["Offset of field: ibv_send_wr::qp_type.xrc.remote_srqn"]
        [offset_of!(ibv_send_wr, qp_type.xrc.remote_srqn) - 72usize];
};
