//! Nodes that are machines: guests in software, with soft-RoCE, so that RDMA is real and the loss
//! of a node is the loss of a machine (`make test-nodes`).
//!
//! A guest is Debian's kernel with a memory disk under QEMU's emulation, so neither a network card
//! nor `/dev/kvm` is needed. Scenarios run one at a time: a guest keeps a whole processor busy.
//!
//! Left out: performance figures. An emulated processor says nothing about a real one.

#[path = "../support/mod.rs"]
mod support;

mod control_groups;
mod domains;
mod engines;
mod fewer;
mod heartbeats;
mod image;
mod jacobi;
mod local;
mod machine;
mod numa;
mod pages;
mod programs;
mod sleep;
mod switch;
mod tools;
