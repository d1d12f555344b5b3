//! Selection and loading of the engine that reaches the memory of PEs that a process cannot map.
//!
//! Peers whose memory is mapped here are accessed by loads and stores, without an engine; every
//! other peer is reached through the one [`Engine`] of the job. Each engine is a crate of its own;
//! [`choose`] selects one.
//!
//! An engine depends on a library of the machine. Only a process that needs the engine loads it
//! ([`load`]): one build serves machines with and without it, and a job over shared memory never
//! uses it.
//!
//! Left out: peers that are mapped (a PE accesses them directly), and failure detection (the
//! launcher).

#![forbid(unsafe_code)]

use std::time::Duration;

use raidshmem_core::settings::{Device, Fabric};
use raidshmem_fabric::{Engine, FabricError, Local, Signs};
use raidshmem_fabric_ofi::{self as ofi, Ofi};
use raidshmem_fabric_ucx::{self as ucx, Ucx};
use raidshmem_fabric_verbs::{Beats, Verbs, any_device};

/// Selects the fabric of a job; returns it with the reason. `one_machine` is true if its nodes can
/// map each other. `probe` reports of a fabric what [`load`] would.
///
/// Unasked, an engine for a device of this machine comes first, then TCP by UCX, then by libfabric.
///
/// # Errors
/// [`FabricError::NotLoaded`].
pub fn choose(
    asked: Fabric,
    one_machine: bool,
    probe: impl Fn(Fabric) -> Result<bool, FabricError>,
) -> Result<(Fabric, &'static str), FabricError> {
    match asked {
        Fabric::Auto if one_machine => Ok((Fabric::Shm, "all nodes are on one machine")),
        Fabric::Auto => {
            let has_device = |fabric: &Fabric| matches!(probe(*fabric), Ok(true));
            if let Some(fabric) = [Fabric::Verbs, Fabric::Ofi].into_iter().find(has_device) {
                return Ok((fabric, "nodes are on several machines, and there is a device for it"));
            }
            let fabric = match probe(Fabric::Ucx) {
                Ok(_) => Fabric::Ucx,
                Err(_) if probe(Fabric::Ofi).is_ok() => Fabric::Ofi,
                Err(why) => return Err(why),
            };
            Ok((fabric, "nodes are on several machines"))
        }
        other => {
            probe(other)?;
            Ok((other, "asked for by SHMEM_FT_FABRIC"))
        }
    }
}

/// Loads the library of `fabric` into this process, where it stays. Returns true if there is a
/// device for it, or if it needs none.
///
/// # Errors
/// [`FabricError::NotLoaded`].
pub fn load(fabric: Fabric) -> Result<bool, FabricError> {
    let loaded = match fabric {
        Fabric::Auto | Fabric::Shm => Ok(true),
        Fabric::Ucx => ucx::load().map(|()| true),
        Fabric::Verbs => any_device(),
        Fabric::Ofi => ofi::load(),
    };
    loaded.map_err(|why| FabricError::NotLoaded { fabric, why: why.to_owned() })
}

/// Returns the variables that a PE's environment must hold before it starts for `fabric` to work as
/// promised: its library reads them when it is loaded, which is before `main` if the program itself
/// is linked with it. Values set by the user take precedence.
pub fn environment(fabric: Fabric) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all: &[_] = match fabric {
        Fabric::Ucx => ucx::ENVIRONMENT,
        Fabric::Ofi => ofi::ENVIRONMENT,
        Fabric::Auto | Fabric::Shm | Fabric::Verbs => &[],
    };
    all.iter().copied()
}

/// The network hardware that the user has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen<'a> {
    /// The device of verbs.
    pub device: Option<&'a Device>,
    /// The provider of libfabric.
    pub provider: Option<&'a str>,
}

/// Opens the engine of `fabric` for this process, over the hardware that was chosen; returns None
/// for `shm`, which needs no engine.
///
/// # Errors
/// [`FabricError`].
pub fn open(
    fabric: Fabric,
    chosen: Chosen,
    local: Local,
) -> Result<Option<Box<dyn Engine>>, FabricError> {
    match fabric {
        Fabric::Auto | Fabric::Shm => Ok(None),
        Fabric::Ucx => Ok(Some(Box::new(Ucx::open(local)?))),
        Fabric::Ofi => Ok(Some(Box::new(Ofi::open(local, chosen.provider)?))),
        Fabric::Verbs => Ok(Some(Box::new(Verbs::open(local, chosen.device)?))),
    }
}

/// Opens the RDMA heartbeats of `fabric`, one every `period`; returns None if it has none, or the
/// device refuses: heartbeats are then messages only.
pub fn signs(fabric: Fabric, device: Option<&Device>, period: Duration) -> Option<Box<dyn Signs>> {
    match fabric {
        Fabric::Auto | Fabric::Shm | Fabric::Ucx | Fabric::Ofi => None,
        Fabric::Verbs => Some(Box::new(Beats::open(device, period).ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The libraries of a machine; those of verbs and libfabric with a device for them or without.
    #[derive(Clone, Copy)]
    struct Machine {
        ucx: bool,
        verbs: Option<bool>,
        ofi: Option<bool>,
    }

    const BARE: Machine = Machine { ucx: false, verbs: None, ofi: None };

    fn chosen(asked: Fabric, one_machine: bool, machine: Machine) -> Result<Fabric, String> {
        let Machine { ucx, verbs, ofi } = machine;
        let absent = |fabric| FabricError::NotLoaded { fabric, why: "it.so: not there".to_owned() };
        let probe = |fabric| match fabric {
            Fabric::Ucx => ucx.then_some(true).ok_or(absent(fabric)),
            Fabric::Verbs => verbs.ok_or(absent(fabric)),
            Fabric::Ofi => ofi.ok_or(absent(fabric)),
            Fabric::Auto | Fabric::Shm => Ok(true),
        };
        choose(asked, one_machine, probe).map(|(fabric, _)| fabric).map_err(|e| e.to_string())
    }

    #[test]
    fn the_fabric_is_what_was_asked_for_or_what_is_available() {
        let all = Machine { ucx: true, verbs: Some(true), ofi: Some(true) };
        assert_eq!(chosen(Fabric::Auto, true, all), Ok(Fabric::Shm));
        assert_eq!(chosen(Fabric::Shm, false, BARE), Ok(Fabric::Shm));
        assert_eq!(chosen(Fabric::Verbs, true, Machine { verbs: Some(false), ..all }), {
            Ok(Fabric::Verbs) // the device is looked for later
        });
        assert_eq!(chosen(Fabric::Ofi, false, Machine { ofi: Some(false), ..BARE }), {
            Ok(Fabric::Ofi) // over TCP
        });
        let no_ucx = "fabric ucx: it.so: not there; expected UCX 1.13 or newer (Debian: apt-get \
                      install libucx0)";
        let no_verbs = "fabric verbs: it.so: not there; expected libibverbs (Debian: apt-get \
                        install libibverbs1 ibverbs-providers)";
        for verbs in [Some(false), None] {
            let machine = Machine { verbs, ..BARE };
            assert_eq!(chosen(Fabric::Auto, false, machine), Err(no_ucx.to_owned()));
        }
        assert_eq!(chosen(Fabric::Ucx, true, Machine { ucx: false, ..all }), {
            Err(no_ucx.to_owned())
        });
        assert_eq!(chosen(Fabric::Verbs, false, BARE), Err(no_verbs.to_owned()));
    }

    #[test]
    fn devices_come_before_tcp_and_verbs_before_libfabric() {
        let all = Machine { ucx: true, verbs: Some(true), ofi: Some(true) };
        for (machine, fabric) in [
            (all, Fabric::Verbs),
            (Machine { verbs: Some(false), ..all }, Fabric::Ofi),
            (Machine { verbs: None, ..all }, Fabric::Ofi),
            (Machine { verbs: None, ofi: Some(false), ..all }, Fabric::Ucx),
            (Machine { verbs: None, ofi: None, ..all }, Fabric::Ucx),
            (Machine { ofi: Some(false), ..BARE }, Fabric::Ofi),
        ] {
            assert_eq!(chosen(Fabric::Auto, false, machine), Ok(fabric));
        }
    }
}
