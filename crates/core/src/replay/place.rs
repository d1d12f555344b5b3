//! The check that a substitute reaches the same checkpoint call as its predecessor did.
//!
//! A call is identified by its source, which the macro of the header passes (file, line, a number
//! that distinguishes calls on one line, the function), and by the return addresses from the call
//! up to `main`:
//!
//! ```text
//! source      addresses   place
//! equal       equal       the same
//! equal       others      the same in `main`. A compiler may make several instructions of one
//!                         call; but another function may be called from several places: unproven
//! other       any         another one
//! not known   equal       the same
//! not known   others      another one
//! not known   not known   unproven
//! ```
//!
//! Calls in the log prove a place: the replay compares each of them. Being the first call of its
//! process proves nothing.
//!
//! Left out: PEs that learned of a loss at several places (`store/site.rs`), which compare digests
//! of whole places.

use super::decide::Reason;
use crate::mutant::{Mutant, breaks};

/// The source location of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSource {
    /// Digest of the values that the header passes, never 0.
    digest: u64,
    /// True if the call is in `main`, so return addresses add nothing.
    is_whole: bool,
}

/// Adds bytes to a digest (FNV-1a).
fn add(digest: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(digest, mix)
}

/// The digest of no bytes.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// True for `main` as C names the function, and as C++ prints its signature.
fn is_main(function: &str) -> bool {
    let signature = function.starts_with("int main(") && function.ends_with(')');
    function == "main" || signature && !function.contains("::")
}

impl CallSource {
    /// Hashes the values that the macro of the header passes. `number` distinguishes calls on one
    /// line.
    pub fn of(file: &str, line: u32, number: u32, function: &str) -> CallSource {
        let numbers = [line, number].into_iter().flat_map(u32::to_le_bytes);
        let digest = add(EMPTY, numbers);
        let digest = add(add(digest, file.bytes().chain([0])), function.bytes());
        CallSource { digest: digest | 1, is_whole: is_main(function) }
    }
}

/// The place of a checkpoint call, as processes compare it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallPlace {
    /// Digest of the whole place, 0 if unknown.
    pub whole: u64,
    /// Digest of the source, 0 if unknown.
    pub source: u64,
}

impl CallPlace {
    /// The place of no call.
    pub const NONE: CallPlace = CallPlace { whole: 1, source: 0 };

    /// Returns the place of a call with this digest of return addresses; 0 if they are unknown.
    pub fn of(source: Option<CallSource>, addresses: u64) -> CallPlace {
        let Some(CallSource { digest, is_whole }) = source else {
            return CallPlace { whole: addresses, source: 0 };
        };
        let whole = match addresses {
            _ if is_whole => digest,
            0 => 0,
            _ => add(digest, addresses.to_le_bytes()) | 1,
        };
        CallPlace { whole, source: digest }
    }
}

/// Returns the reason against local rollback to a checkpoint `made` at one place, for a substitute
/// that calls it from `comes`; `is_checked` is true if the log holds a call since then.
pub fn speaks_against(made: CallPlace, comes: CallPlace, is_checked: bool) -> Option<Reason> {
    if made.source != comes.source {
        return Some(Reason::OtherCall);
    }
    let is_known = made.whole != 0 && comes.whole != 0;
    if is_known && made.whole == comes.whole {
        return None;
    }
    let is_open = made.source != 0 || made.whole == comes.whole;
    if !is_open {
        return Some(Reason::OtherCall);
    }
    let is_proven = is_checked || breaks(Mutant::OrderBelieved);
    (!is_proven).then_some(Reason::UnprovenCall)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(line: u32, function: &str) -> Option<CallSource> {
        Some(CallSource::of("a.c", line, 0, function))
    }

    #[test]
    fn each_word_of_a_source_distinguishes_it() {
        let all = [
            CallSource::of("a.c", 1, 0, "f"),
            CallSource::of("b.c", 1, 0, "f"),
            CallSource::of("a.c", 2, 0, "f"),
            CallSource::of("a.c", 1, 1, "f"),
            CallSource::of("a.c", 1, 0, "g"),
            CallSource::of("a.cf", 1, 0, ""),
        ];
        for (at, one) in all.iter().enumerate() {
            all[at + 1..].iter().for_each(|other| assert_ne!(one.digest, other.digest));
            assert!(one.digest != 0 && !one.is_whole);
        }
        assert_eq!(all[0], CallSource::of("a.c", 1, 0, "f"));
    }

    #[test]
    fn main_is_known_as_c_and_cxx_name_it() {
        for name in ["main", "int main()", "int main(int, char**)", "int main(int, char **)"] {
            assert!(is_main(name), "{name}");
        }
        let others = [
            "main2",
            "domain",
            "int domain()",
            "int ns::main()",
            "main()::<lambda()>",
            "int main(int, char**)::S::f()",
            "auto main()::(anonymous class)::operator()() const",
            "int main(int) [with T = int]",
            "",
        ];
        others.iter().for_each(|name| assert!(!is_main(name), "{name}"));
    }

    /// Returns true if local rollback is allowed: first without a call in the log, then with one.
    fn goes(made: CallPlace, comes: CallPlace) -> [bool; 2] {
        [false, true].map(|is_checked| speaks_against(made, comes, is_checked).is_none())
    }

    const SAME: [bool; 2] = [true, true];
    const UNPROVEN: [bool; 2] = [false, true];
    const OTHER: [bool; 2] = [false, false];

    #[test]
    fn order_alone_proves_no_place() {
        let in_main = |line, addresses| CallPlace::of(source(line, "main"), addresses);
        let in_f = |line, addresses| CallPlace::of(source(line, "f"), addresses);
        let bare = |addresses| CallPlace::of(None, addresses);
        assert_eq!(goes(in_main(1, 5), in_main(1, 5)), SAME);
        assert_eq!(goes(in_main(1, 5), in_main(1, 7)), SAME, "two instructions of one call");
        assert_eq!(goes(in_main(1, 0), in_main(1, 0)), SAME);
        assert_eq!(goes(in_main(1, 5), in_main(2, 5)), OTHER, "merged by the compiler");
        assert_eq!(goes(in_f(1, 5), in_f(1, 5)), SAME);
        assert_eq!(goes(in_f(1, 5), in_f(1, 7)), UNPROVEN);
        assert_eq!(goes(in_f(1, 0), in_f(1, 0)), UNPROVEN);
        assert_eq!(goes(in_f(1, 5), in_f(1, 0)), UNPROVEN);
        assert_eq!(goes(in_f(1, 5), in_f(2, 5)), OTHER);
        assert_eq!(goes(bare(5), bare(5)), SAME);
        assert_eq!(goes(bare(5), bare(7)), OTHER);
        assert_eq!(goes(bare(0), bare(0)), UNPROVEN, "no place is known");
        assert_eq!(goes(bare(5), bare(0)), OTHER);
        assert_eq!(goes(in_f(1, 5), bare(5)), OTHER);
        assert_eq!(goes(bare(5), in_main(1, 5)), OTHER);
    }

    #[test]
    fn an_interval_that_no_call_began_is_of_no_place() {
        let all = [source(1, "main"), source(1, "f"), None];
        for comes in all.into_iter().flat_map(|of| [0, 5].map(|at| CallPlace::of(of, at))) {
            assert_eq!(goes(CallPlace::NONE, comes), OTHER);
        }
    }
}
