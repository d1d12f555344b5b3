//! The NUMA nodes of this machine: the nodes of processors and of mapped pages, and the nodes that
//! pages of a memory file come from.
//!
//! Invariant: a policy belongs to the memory file, not to a mapping, so it applies to the first
//! touch of a page by any process. It changes no byte, and moves no page that exists.
//!
//! Left out: kernels without NUMA, and nodes that this process may not use: the calls fail there,
//! and the pages come from the node of the thread that touches them first.

use std::ops::Range;
use std::path::Path;

use rustix::io::{Errno, Result};

use crate::machine::numa_nodes;
use crate::memory::Part;

/// More NUMA nodes than any kernel knows.
const MOST: usize = 1 << 15;

/// Returns the NUMA nodes of these processors, ascending; at most one if the machine has no more.
pub fn nodes_of(cpus: &[usize]) -> Vec<usize> {
    let all = numa_nodes(Path::new("/sys/devices/system"));
    let is_only = all.len() < 2;
    let has_one = |near: &[usize]| is_only || near.iter().any(|cpu| cpus.contains(cpu));
    all.into_iter().filter(|(_, near)| has_one(near)).map(|(node, _)| node).collect()
}

/// Returns the NUMA node of each page that contains one of these addresses. None for one that this
/// process has not mapped yet, and for all if the kernel does not know.
pub fn nodes_of_pages(addresses: &[usize]) -> Vec<Option<u32>> {
    let mut nodes = vec![-1i32; addresses.len()];
    // Without a list of nodes, the call moves no page, and returns where each is.
    let nowhere = std::ptr::null::<libc::c_int>();
    // SAFETY: both lists have the stated length; the kernel does not access the pages themselves.
    let done = unsafe {
        let (pages, found) = (addresses.as_ptr(), nodes.as_mut_ptr());
        libc::syscall(libc::SYS_move_pages, 0, addresses.len(), pages, nowhere, found, 0)
    };
    let known = |node: i32| u32::try_from(node).ok().filter(|_| done == 0);
    nodes.into_iter().map(known).collect()
}

/// Makes pages of part of a memory file come from a NUMA node when first touched, by any process,
/// as long as the node has free memory.
///
/// # Errors
/// The kernel's error, for example since the machine has no such node.
pub fn prefer_node(part: &Part, range: Range<usize>, node: usize) -> Result<()> {
    const WORD: usize = libc::c_ulong::BITS as usize;
    if node >= MOST {
        return Err(Errno::INVAL);
    }
    let mut mask = vec![0; node / WORD + 1];
    mask[node / WORD] = (1 as libc::c_ulong) << (node % WORD);
    set_policy(part, range, libc::MPOL_PREFERRED, &mask)
}

/// Makes pages of part of a memory file come from the NUMA node of the thread that touches them
/// first, as in a new file.
///
/// # Errors
/// The kernel's error.
pub fn prefer_none(part: &Part) -> Result<()> {
    set_policy(part, 0..part.len(), libc::MPOL_DEFAULT, &[])
}

fn set_policy(
    part: &Part,
    range: Range<usize>,
    policy: libc::c_int,
    mask: &[libc::c_ulong],
) -> Result<()> {
    let len = range.len();
    let file = part.map(range.start, len, None, true)?; // the policy persists without the mapping
    let bits = if mask.is_empty() { 0 } else { size_of_val(mask) * 8 + 1 };
    let (base, nodes) = (file.base(), if bits == 0 { std::ptr::null() } else { mask.as_ptr() });
    // SAFETY: the range was mapped above, the mask has the stated number of bits (the kernel does
    // not look at the last), and a policy changes no byte.
    let done = unsafe { libc::syscall(libc::SYS_mbind, base, len, policy, nodes, bits, 0) };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::{create, page_size};
    use crate::{process, skip};

    #[test]
    fn the_nodes_of_processors_are_those_of_the_machine() {
        let nodes = nodes_of(&process::usable());
        assert!(nodes.is_sorted());
        assert!(nodes_of(&[]).len() < 2, "of no processor");
    }

    #[test]
    fn a_page_is_found_on_a_node_once_it_is_touched() {
        let (page, nodes) = (page_size(), nodes_of(&process::usable()));
        let part = Part::new(Arc::new(create("numa", 4 * page).unwrap()), page, 3 * page);
        let home = nodes.last().copied().unwrap_or(0);
        if let Err(error) = prefer_node(&part, page..3 * page, home) {
            return skip("NUMA", &format!("mbind: {error}"));
        }
        for node in [MOST - 1, MOST, usize::MAX] {
            assert!(prefer_node(&part, 0..page, node).is_err(), "no machine has that node");
        }
        let map = part.map(0, 3 * page, None, true).unwrap();
        // SAFETY: inside the mapping, which no other code has.
        unsafe { map.base().add(page).write(1) };
        let addresses: Vec<usize> = (0..3).map(|nth| map.base().addr() + nth * page + 7).collect();
        assert_eq!(nodes_of_pages(&addresses), [None, Some(home as u32), None]);
        assert_eq!(prefer_none(&part), Ok(()));
        assert_eq!(nodes_of_pages(&[]), []);
    }
}
