//! Fabrics: how a PE reaches the memory of PEs that it cannot map.
//!
//! Peers whose memory is mapped here are reached by loads and stores, and no engine is asked; every
//! other peer is reached through the one [`Engine`] of the job. Each engine has a file or folder
//! here; which one is used is [`choose`]'s business.
//!
//! Left out: peers that are mapped (`pgas` goes there directly), and who is dead (`launch`).

mod engine;
#[cfg(feature = "ucx")]
pub mod ucx;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::time::Duration;

use raidshmem_core::settings::{Device, Fabric};

pub use engine::{
    Ask, Engine, EventSink, FabricError, Local, Lost, Read, Signs, Write, built_in, names,
};

/// The fabric of a job, and why it is this one. `one_machine`: its nodes can map each other. What
/// nobody asked for is not refused here but by [`open`]: a job that is no OpenSHMEM program needs
/// none.
///
/// # Errors
/// [`FabricError::NotBuilt`].
pub fn choose(asked: Fabric, one_machine: bool) -> Result<(Fabric, &'static str), FabricError> {
    let (fabric, why) = match asked {
        Fabric::Auto if one_machine => (Fabric::Shm, "all nodes are on one machine"),
        Fabric::Auto => {
            let there = |fabric: &Fabric| built_in().contains(fabric);
            let network = [Fabric::Ucx, Fabric::Verbs].into_iter().find(there);
            return Ok((network.unwrap_or(Fabric::Ucx), "nodes are on several machines"));
        }
        other => (other, "asked for by SHMEM_FT_FABRIC"),
    };
    if built_in().contains(&fabric) {
        Ok((fabric, why))
    } else {
        Err(FabricError::NotBuilt { asked: fabric })
    }
}

/// What a PE's environment must hold before it starts: for `fabric` to work as promised, and for
/// the network libraries of this build to leave a program alone that is only linked with them. They
/// read it before `main`. Names that are set already are the user's to set.
pub fn environment(fabric: Fabric) -> Vec<(&'static str, &'static str)> {
    #[cfg(feature = "ucx")]
    {
        let engine: &[_] = if fabric == Fabric::Ucx { ucx::ENVIRONMENT } else { &[] };
        [ucx::LOADED, engine].concat()
    }
    #[cfg(not(feature = "ucx"))]
    {
        let _ = fabric; // for the one that reads its environment
        Vec::new()
    }
}

/// Opens the engine of `fabric` for this process, with RDMA through `device`; None for `shm`, which
/// needs none.
///
/// # Errors
/// [`FabricError`].
pub fn open(
    fabric: Fabric,
    device: Option<&Device>,
    local: Local,
) -> Result<Option<Box<dyn Engine>>, FabricError> {
    let _ = device; // for one of them
    match fabric {
        Fabric::Auto | Fabric::Shm => Ok(None),
        #[cfg(feature = "ucx")]
        Fabric::Ucx => Ok(Some(Box::new(ucx::Ucx::open(local)?))),
        #[cfg(feature = "verbs")]
        Fabric::Verbs => Ok(Some(Box::new(verbs::Verbs::open(local, device)?))),
        #[allow(unreachable_patterns)] // where all are built in
        asked => {
            drop(local);
            Err(FabricError::NotBuilt { asked })
        }
    }
}

/// Signs of life over `fabric`, one every `period`; None if it has none, or the device refuses:
/// then heartbeats are messages only.
pub fn signs(fabric: Fabric, device: Option<&Device>, period: Duration) -> Option<Box<dyn Signs>> {
    #[cfg(feature = "verbs")]
    if fabric == Fabric::Verbs {
        let beats = verbs::Beats::open(device, period).ok()?;
        return Some(Box::new(beats));
    }
    let _ = (fabric, device, period);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_one_machine_memory_is_shared_and_what_is_not_built_in_is_refused() {
        assert_eq!(choose(Fabric::Auto, true).unwrap().0, Fabric::Shm);
        let network = choose(Fabric::Auto, false).unwrap().0;
        let only_verbs = !cfg!(feature = "ucx") && cfg!(feature = "verbs");
        assert_eq!(network, if only_verbs { Fabric::Verbs } else { Fabric::Ucx });
        for asked in [Fabric::Ucx, Fabric::Verbs] {
            match choose(asked, true) {
                Ok((chosen, _)) => assert!(chosen == asked && built_in().contains(&asked)),
                Err(error) => {
                    let there = names(built_in());
                    let line = format!("fabric {}: not built in; there are {there}", asked.name());
                    assert_eq!(error.to_string(), line);
                }
            }
        }
    }
}
