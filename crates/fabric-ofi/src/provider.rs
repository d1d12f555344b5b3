//! The choice among libfabric's providers, by their names, and what is known of each.
//!
//! A layered provider is named with its core first: `tcp;ofi_rxm`.

#![forbid(unsafe_code)]

/// Providers that are chosen unasked, the best first. Those of one machine only (`shm`) and without
/// a reliable network below (`udp`) are used if they are named.
const RANKED: &[&str] = &["cxi", "efa", "opx", "psm3", "psm2", "verbs", "tcp", "net", "sockets"];
/// Those of them for which a machine has special hardware, and no other engine here drives it.
const SPECIAL: usize = 4;
/// Providers that move bytes by the target's own processor, in its calls of the library: no message
/// needs to tell the target that something has arrived.
const BY_PROCESSOR: &[&str] = &["tcp", "net", "sockets", "shm", "udp"];
/// Those of them that read the bytes from sockets.
const BY_SOCKETS: &[&str] = &["tcp", "net", "sockets", "udp"];

/// Returns the core of a provider.
fn core(name: &str) -> &str {
    name.split(';').next().unwrap_or(name)
}

fn rank(name: &str) -> Option<usize> {
    RANKED.iter().position(|ranked| *ranked == core(name))
}

/// Returns the index of the offer to use: the first with exactly the name that was asked for, the
/// first with that core, or the first of the best if none was asked for.
pub fn choose<'a>(
    offers: impl Iterator<Item = &'a str> + Clone,
    asked: Option<&str>,
) -> Option<usize> {
    let Some(asked) = asked else {
        let ranked = offers.enumerate().filter_map(|(at, name)| Some((rank(name)?, at)));
        return ranked.min().map(|(_, at)| at);
    };
    let exact = offers.clone().position(|name| name == asked);
    exact.or_else(|| offers.clone().position(|name| core(name) == asked))
}

/// Returns true if this provider needs special hardware.
pub fn is_special(name: &str) -> bool {
    rank(name).is_some_and(|rank| rank < SPECIAL)
}

/// Returns true if the target's own processor writes what peers put.
pub fn is_by_processor(name: &str) -> bool {
    BY_PROCESSOR.contains(&core(name))
}

/// Returns true if the target's own system calls write what peers put.
pub fn is_by_sockets(name: &str) -> bool {
    BY_SOCKETS.contains(&core(name))
}

/// Returns true if keys that are small numbers are faster than others.
pub fn wants_small_keys(name: &str) -> bool {
    core(name) == "cxi"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_the_one_asked_for_or_the_best() {
        let chosen = |offers: &[&'static str], asked| {
            choose(offers.iter().copied(), asked).map(|at| (at, offers[at]))
        };
        let all = ["shm", "net", "tcp;ofi_rxm", "tcp", "tcp;ofi_rxm", "cxi"];
        assert_eq!(chosen(&all, None), Some((5, "cxi")));
        assert_eq!(chosen(&all[..5], None), Some((2, "tcp;ofi_rxm")));
        assert_eq!(chosen(&all, Some("tcp")), Some((3, "tcp")));
        assert_eq!(chosen(&all[..3], Some("tcp")), Some((2, "tcp;ofi_rxm")));
        assert_eq!(chosen(&all, Some("tcp;ofi_rxm")), Some((2, "tcp;ofi_rxm")));
        assert_eq!(chosen(&all, Some("shm")), Some((0, "shm")));
        assert_eq!(chosen(&all, Some("efa")), None);
        assert_eq!(chosen(&all[..1], None), None, "shm reaches one machine only");
    }

    #[test]
    fn providers_are_known_by_their_core() {
        assert!(["cxi", "efa", "opx", "psm3"].into_iter().all(is_special));
        assert!(!["tcp", "verbs;ofi_rxm", "shm", "psm2"].into_iter().any(is_special));
        assert!(is_by_processor("tcp;ofi_rxm") && !is_by_processor("verbs;ofi_rxm"));
        assert!(is_by_sockets("net") && !is_by_sockets("shm"));
    }
}
