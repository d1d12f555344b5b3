//! Call sites in the program: the chain of return addresses from the call up to `main`, and the
//! source line of the call, if the header recorded it just before.
//!
//! A program may wrap a call, so one address says little. Addresses are relative to their
//! executable or library, and so are equal in every process of one program, wherever it was loaded.
//! Addresses in this library and in the C library are left out. `core/replay/place.rs` combines
//! chain and source line.
//!
//! Left out: programs that load this library after their start. An interpreter's return addresses
//! are those of its own loop and do not identify a place in the program it runs, so there is no
//! site.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

use raidshmem_core::replay::place::{CallPlace, CallSource};

use crate::caller;

/// Maximum number of addresses of a call that are named.
const NAMED: usize = 4;

/// Name prefixes of this library's functions, to skip them in a chain if the library is part of the
/// executable.
const OURS: [&str; 2] = ["raidshmem::", "raidshmem_sys::"];

/// The sources of this crate: a symbol with only line information does not name its crate.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// A call site in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSite {
    /// The place, in the form that processes compare.
    pub place: CallPlace,
    /// The return addresses in the executable, relative to it, innermost first.
    pub chain: Vec<u64>,
}

thread_local! {
    /// The source line of this thread's current call.
    static SOURCE: Cell<Option<CallSource>> = const { Cell::new(None) };
}

/// Sets the source line of this thread's next call; None if it is unknown.
pub fn set_source(source: Option<CallSource>) {
    SOURCE.set(source);
}

/// A digest of return addresses, 0 if unknown, and those in the executable.
type Chain = (u64, Vec<u64>);

/// Start addresses of objects.
struct Objects {
    library: usize,
    c_library: usize,
    executable: usize,
    /// True if the program was linked with this library.
    linked: bool,
}

fn objects() -> Option<&'static Objects> {
    static OBJECTS: OnceLock<Option<Objects>> = OnceLock::new();
    let find = || {
        let library = caller::object_of(objects as *const c_void)?;
        let c_library = caller::object_of(libc::exit as *const c_void)?;
        let executable = caller::executable()?;
        let linked = library == executable || caller::is_linked(c"shmem_init");
        Some(Objects { library, c_library, executable, linked })
    };
    OBJECTS.get_or_init(find).as_ref()
}

/// Returns the site at which the program called the current function of this library.
#[inline(never)]
pub fn here() -> CallSite {
    /// Chains seen before, each with its digest and its addresses: a program has few.
    static SEEN: Mutex<Vec<(Vec<usize>, Chain)>> = Mutex::new(Vec::new());
    let (frames, found) = caller::frames();
    let frames: Vec<usize> = frames[..found].iter().map(|&frame| frame as usize).collect();
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let site = |(digest, chain): &Chain| CallSite {
        place: CallPlace::of(SOURCE.get(), *digest),
        chain: chain.clone(),
    };
    if let Some((_, found)) = seen.iter().find(|(known, _)| *known == frames) {
        return site(found);
    }
    let found = chain_of(&frames).unwrap_or_default();
    let site = site(&found);
    seen.push((frames, found));
    site
}

fn chain_of(frames: &[usize]) -> Option<Chain> {
    let objects = objects().filter(|objects| objects.linked)?;
    let (mut hasher, mut chain) = (DefaultHasher::new(), Vec::new());
    for &frame in frames {
        let object = caller::object_of(frame as *const c_void)?;
        if object == objects.executable {
            chain.push((frame - object) as u64);
        } else if [objects.library, objects.c_library].contains(&object) {
            continue;
        }
        hasher.write_usize(frame - object);
    }
    (!chain.is_empty()).then(|| (hasher.finish() | 1, chain))
}

/// Formats a chain for people: file and line if there is debug information, from the call up to
/// `main`. Omits lines of files in the folders `library`, like those of this crate.
pub fn name(chain: &[u64], library: &[&str]) -> String {
    let base = objects().map_or(0, |objects| objects.executable);
    let (mut named, mut over) = (Vec::new(), false);
    for &address in chain {
        let (mut inlined, mut ours) = (Vec::new(), false);
        // Once for the calling function, and for each that it is inlined into.
        backtrace::resolve((base + address as usize) as *mut c_void, |symbol| {
            let function = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
            let path = symbol.filename();
            let place = path.and_then(|path| path.file_name()).zip(symbol.lineno());
            ours |= OURS.iter().any(|name| function.contains(name))
                || path.is_some_and(|path| {
                    path.starts_with(SOURCES) || library.iter().any(|of| path.starts_with(of))
                });
            over |= function == "main" || function.ends_with("::main");
            inlined.extend(place.map(|(file, line)| format!("{}:{line}", file.display())));
        });
        if inlined.is_empty() {
            inlined.push(format!("address {address:#x}"));
        }
        if !ours {
            named.append(&mut inlined);
        }
        if over || named.len() >= NAMED {
            break;
        }
    }
    match named.is_empty() {
        true => "a place that is not known".to_owned(),
        false => named.join(" called at "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn wrapped() -> CallSite {
        here()
    }

    #[test]
    fn a_site_is_stable_and_differs_between_callers() {
        let mut sites = Vec::new();
        for _ in 0..std::hint::black_box(3) {
            sites.push(wrapped());
        }
        let other = wrapped();
        assert!(sites.iter().all(|site| *site == sites[0] && site.place.whole != 0));
        assert_ne!(sites[0].place, other.place, "one more line of the caller");
    }

    /// In `main` the source identifies a call, wherever its instruction is.
    #[test]
    fn a_source_is_a_part_of_the_place_until_the_call_is_over() {
        let bare = wrapped();
        let at = |function| {
            set_source(Some(CallSource::of("a.c", 7, 0, function)));
            [wrapped(), wrapped()].map(|site| site.place)
        };
        let [one, other] = at("main");
        assert!(one == other && one.source != 0);
        let [one, other] = at("f");
        assert!(one.source == other.source && one.whole != other.whole);
        set_source(None);
        assert_eq!(wrapped().place.source, bare.place.source);
        assert_eq!(bare.place.source, 0);
    }

    #[test]
    fn an_address_without_a_name_is_shown_as_one() {
        assert_eq!(name(&[], &[]), "a place that is not known");
        // Far beyond the end of the program; debug information of functions that the linker dropped
        // claims addresses at its start.
        assert_eq!(name(&[1 << 40], &[]), "address 0x10000000000");
    }
}
