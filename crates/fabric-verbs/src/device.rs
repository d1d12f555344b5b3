//! The device: choice of device and port, its identifiers, capabilities and limits.
//!
//! The named device is used, or the first with an active port. On Ethernet (RoCE) a port has
//! several identifiers, one for each address and version of the protocol: that of version 2 with an
//! IPv4 address is routable and is preferred.
//!
//! Left out: several ports or devices at a time.

use std::ffi::CStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use raidshmem_core::settings;
use rdma_sys::*;
use rustix::process::{Resource, getrlimit};

/// The link layer of an Ethernet port (`IBV_LINK_LAYER_ETHERNET`).
const ETHERNET: u8 = 2;
/// The bit of `CAP_IPC_LOCK` in a set of capabilities: a process that has it may pin any amount.
const CAP_IPC_LOCK: u64 = 1 << 14;

/// The accesses with which a device's atomics are atomic (`ibv_atomic_cap`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atomics {
    /// It has no atomics.
    None,
    /// Only other atomics of the device.
    Own,
    /// The processor's accesses, too.
    All,
}

/// An open device with its protection domain.
#[derive(Debug)]
pub struct Device {
    pub(super) api: &'static Ibverbs,
    pub(super) context: *mut ibv_context,
    pub(super) domain: *mut ibv_pd,
    /// Its name.
    pub name: String,
    /// The port in use.
    pub port: u8,
    /// Local identifier of the port.
    pub lid: u16,
    /// Index of the global identifier in use.
    pub gid_index: u8,
    /// The global identifier in use.
    pub gid: [u8; 16],
    /// True if the port is Ethernet: addresses need the global identifier.
    pub ethernet: bool,
    /// Maximum packet size, as the code of the verbs interface.
    pub mtu: u8,
    /// Reads that it serves, and reads that it starts, at a time per peer.
    pub reads: (u8, u8),
    /// The accesses with which its atomics are atomic.
    pub atomics: Atomics,
    /// Maximum entries of a completion queue.
    pub completions_max: usize,
}

// SAFETY: libibverbs is thread-safe; the pointers are freed only in drop.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// Opens the named device, or the first with an active port.
    ///
    /// # Errors
    /// A message that describes what is missing.
    pub fn open(named: Option<&settings::Device>) -> Result<Arc<Device>, String> {
        let api = rdma_sys::load()?;
        let mut count = 0;
        // SAFETY: the list is freed below, after the last use of its entries.
        let list = unsafe { api.ibv_get_device_list(&mut count) };
        if list.is_null() || count <= 0 {
            return Err("none was found (`ibv_devices` lists them)".to_owned());
        }
        // SAFETY: the list has `count` entries.
        let devices = unsafe { std::slice::from_raw_parts(list, count as usize) };
        let name = |&device: &*mut ibv_device| (device, device_name(api, device));
        let all: Vec<(*mut ibv_device, String)> = devices.iter().map(name).collect();
        let wanted = |(_, own): &&(_, String)| named.is_none_or(|named| named.name == *own);
        let port = named.and_then(|named| named.port);
        let tried: Vec<_> =
            all.iter().filter(wanted).map(|(d, n)| Device::try_open(api, *d, n, port)).collect();
        // SAFETY: made by the call above; open devices do not need it.
        unsafe { api.ibv_free_device_list(list) };
        if let (true, Some(named)) = (tried.is_empty(), named) {
            let names: Vec<String> = all.into_iter().map(|(_, name)| name).collect();
            return Err(format!("SHMEM_FT_DEVICE={named}: expected {}", names.join(", ")));
        }
        let mut why = String::new();
        for tried in tried {
            match tried {
                Ok(device) => return Ok(Arc::new(device)),
                Err(words) => why = words,
            }
        }
        Err(why)
    }

    fn try_open(
        api: &'static Ibverbs,
        device: *mut ibv_device,
        name: &str,
        port: Option<u8>,
    ) -> Result<Device, String> {
        // SAFETY: a device of the list that the caller holds.
        let context = unsafe { api.ibv_open_device(device) };
        if context.is_null() {
            return Err(format!("{name}: {}", io::Error::last_os_error()));
        }
        // SAFETY: an open device.
        let domain = unsafe { api.ibv_alloc_pd(context) };
        let mut own = Device {
            api,
            context,
            domain,
            name: name.to_owned(),
            port: 0,
            lid: 0,
            gid_index: 0,
            gid: [0; 16],
            ethernet: false,
            mtu: 1,
            reads: (1, 1),
            atomics: Atomics::None,
            completions_max: 0,
        };
        if own.domain.is_null() {
            return Err(format!("{name}: {}", io::Error::last_os_error()));
        }
        // SAFETY: plain numbers, for which zero is a value; filled by the call.
        let mut what: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device and a place for the answer.
        if unsafe { api.ibv_query_device(context, &mut what) } != 0 {
            return Err(format!("{name}: it does not say what it can do"));
        }
        let reads = |most: i32| most.clamp(1, 16) as u8;
        own.reads = (reads(what.max_qp_rd_atom), reads(what.max_qp_init_rd_atom));
        own.atomics = match what.atomic_cap {
            ibv_atomic_cap::IBV_ATOMIC_GLOB => Atomics::All,
            ibv_atomic_cap::IBV_ATOMIC_HCA => Atomics::Own,
            _ => Atomics::None,
        };
        own.completions_max = what.max_cqe.max(0) as usize;
        let ports = 1..=what.phys_port_cnt;
        if let Some(port) = port.filter(|port| !ports.contains(port)) {
            let last = what.phys_port_cnt;
            return Err(format!("SHMEM_FT_DEVICE={name}:{port}: expected ports 1 to {last}"));
        }
        let mut wanted = ports.filter(|own| port.is_none_or(|port| port == *own));
        match wanted.find_map(|port| own.use_port(port)) {
            Some(()) => Ok(own),
            None => Err(format!("{name}: no port is active, or none has an address")),
        }
    }

    fn use_port(&mut self, port: u8) -> Option<()> {
        // SAFETY: plain numbers, for which zero is a value; filled by the call.
        let mut what: ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device and a place for the answer.
        let failed = unsafe { self.api.___ibv_query_port(self.context, port, &mut what) };
        if failed != 0 || what.state != ibv_port_state::IBV_PORT_ACTIVE {
            return None;
        }
        let gids: Vec<(u8, [u8; 16], String)> = (0..what.gid_tbl_len.clamp(0, 255) as u8)
            .filter_map(|at| self.gid_at(port, at))
            .collect();
        self.ethernet = what.link_layer == ETHERNET;
        let (index, gid) = match self.ethernet {
            true => choose(&gids)?,
            false => gids.first().map_or((0, [0; 16]), |(index, gid, _)| (*index, *gid)),
        };
        (self.port, self.lid, self.gid_index, self.gid) = (port, what.lid, index, gid);
        self.mtu = what.active_mtu.clamp(1, 5) as u8;
        Some(())
    }

    fn gid_at(&self, port: u8, index: u8) -> Option<(u8, [u8; 16], String)> {
        let mut gid = ibv_gid { raw: [0; 16] };
        // SAFETY: an open device and a place for the answer.
        if unsafe { self.api.ibv_query_gid(self.context, port, index.into(), &mut gid) } != 0 {
            return None;
        }
        // SAFETY: every pattern of bytes is one of `raw`.
        let gid = unsafe { gid.raw };
        let path =
            format!("/sys/class/infiniband/{}/ports/{port}/gid_attrs/types/{index}", self.name);
        let kind = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
        (gid != [0; 16]).then(|| (index, gid, kind.trim().to_owned()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: both were made in `try_open`; objects made from them hold this device.
        unsafe {
            if !self.domain.is_null() {
                self.api.ibv_dealloc_pd(self.domain);
            }
            self.api.ibv_close_device(self.context);
        }
    }
}

/// Returns true if there is a device with an active port. EFA's do not count: they have none of the
/// connections that the engine makes.
///
/// # Errors
/// The loader's message about the library.
pub fn any_device() -> Result<bool, &'static str> {
    let api = rdma_sys::load()?;
    let mut count = 0;
    // SAFETY: a place for a number; the list is freed below, after the last use of its entries.
    let list = unsafe { api.ibv_get_device_list(&mut count) };
    if list.is_null() {
        return Ok(false);
    }
    // SAFETY: the list has `count` entries.
    let devices = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let found = devices.iter().any(|&device| is_active(&device_name(api, device)));
    // SAFETY: made by the call above.
    unsafe { api.ibv_free_device_list(list) };
    Ok(found)
}

/// Returns true if the kernel shows an active port of this device.
fn is_active(name: &str) -> bool {
    let folder = Path::new("/sys/class/infiniband").join(name);
    let driver = std::fs::read_link(folder.join("device/driver")).unwrap_or_default();
    let ports = std::fs::read_dir(folder.join("ports")).into_iter().flatten().flatten();
    let mut states =
        ports.filter_map(|port| std::fs::read_to_string(port.path().join("state")).ok());
    !driver.ends_with("efa") && states.any(|state| state.contains("ACTIVE"))
}

fn device_name(api: &Ibverbs, device: *mut ibv_device) -> String {
    // SAFETY: a device of a list that the caller holds; its name is text that lives as long.
    let name = unsafe { CStr::from_ptr(api.ibv_get_device_name(device)) };
    name.to_string_lossy().into_owned()
}

/// Returns the identifier to use on Ethernet, from (index, identifier, kind): the first of version
/// 2 with an IPv4 address, else of version 2 and not link-local, else of version 2, else any.
fn choose(gids: &[(u8, [u8; 16], String)]) -> Option<(u8, [u8; 16])> {
    let rank = |(_, gid, kind): &&(u8, [u8; 16], String)| {
        let v2 = kind == "RoCE v2";
        let ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff];
        let local = gid[..2] == [0xfe, 0x80];
        (!v2, !ipv4, local)
    };
    gids.iter().min_by_key(rank).map(|(index, gid, _)| (*index, *gid))
}

/// Checks that this process may pin `needed` bytes.
///
/// # Errors
/// A message with the limit and the amount needed.
pub fn may_pin(needed: u64) -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    allowed(getrlimit(Resource::Memlock).current, capabilities(&status), needed)
}

fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

fn allowed(limit: Option<u64>, capabilities: u64, needed: u64) -> Result<(), String> {
    match limit {
        Some(limit) if limit < needed && capabilities & CAP_IPC_LOCK == 0 => Err(format!(
            "the limit is {} KiB, and {} KiB may be needed (`ulimit -l unlimited`)",
            limit >> 10,
            needed.div_ceil(1024)
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(head: [u8; 2], mapped: bool) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[..2].copy_from_slice(&head);
        if mapped {
            gid[10..].copy_from_slice(&[0xff, 0xff, 10, 77, 0, 1]);
        }
        gid[15] = 1;
        gid
    }

    #[test]
    fn the_routable_identifier_is_taken() {
        let local = (0, gid([0xfe, 0x80], false), "RoCE v2".to_owned());
        let v1 = (1, gid([0, 0], true), "IB/RoCE v1".to_owned());
        let v2 = (2, gid([0, 0], true), "RoCE v2".to_owned());
        let v6 = (3, gid([0x20, 1], false), "RoCE v2".to_owned());
        let index = |of: &[&(u8, [u8; 16], String)]| {
            let gids: Vec<_> = of.iter().map(|&gid| gid.clone()).collect();
            choose(&gids).map(|(index, _)| index)
        };
        assert_eq!(index(&[&local, &v1, &v2, &v6]), Some(2));
        assert_eq!(index(&[&local, &v1, &v6]), Some(3));
        assert_eq!(index(&[&v1, &local]), Some(0));
        assert_eq!(index(&[&v1]), Some(1));
        assert_eq!(index(&[]), None);
    }

    #[test]
    fn a_small_limit_is_named_unless_it_does_not_bind() {
        let words = allowed(Some(8 << 20), 0, 10 << 20).unwrap_err();
        assert!(words.starts_with("the limit is 8192 KiB, and 10240 KiB may be needed"), "{words}");
        assert!(
            allowed(Some(8 << 20), capabilities("CapEff:\t0000000000004000\n"), 10 << 20).is_ok()
        );
        assert!(
            allowed(Some(8 << 20), capabilities("CapEff:\t0000000000003fff\n"), 10 << 20).is_err()
        );
        assert!(allowed(None, 0, u64::MAX).is_ok());
        assert!(allowed(Some(10 << 20), 0, 10 << 20).is_ok());
    }
}
