//! Private memory in a manifest: each region with its name, by which a substitute finds it.
//!
//! ```text
//! region   bytes of name | bytes of contents | name | contents
//! ```
//!
//! A substitute may have a region at another address and may register regions in another order. It
//! must have registered every region of the checkpoint, with the same length. Its additional
//! regions were registered after the checkpoint, or by the substitute alone.
//!
//! Invariant: every region of a manifest has a name, and no two share one.

use crate::mutant::{Mutant, breaks};

/// A region as stored in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved<'a> {
    /// Name of the region.
    pub name: &'a str,
    /// Contents of the region.
    pub contents: &'a [u8],
}

/// The reason why private memory cannot be restored from a checkpoint.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A region of the checkpoint is not registered.
    #[error("it has not registered {name}, which has there {saved} bytes")]
    Missing {
        /// Name of the region.
        name: String,
        /// Length of the region in the checkpoint, in bytes.
        saved: usize,
    },
    /// The load addresses in the checkpoint are not readable.
    #[error("its load addresses cannot be read")]
    Unreadable,
    /// Memory may hold an address inside an object that this process loaded elsewhere.
    #[error(
        "{holder} may hold at {at:#x} an address in {object}, which was loaded at {then:#x} and is \
         loaded elsewhere here"
    )]
    Moved {
        /// Symmetric memory, or the name of a region.
        holder: String,
        /// Location of the word: its address, or its offset in the region.
        at: usize,
        /// Name of the object.
        object: String,
        /// Load address of the object when the checkpoint was made.
        then: u64,
    },
    /// A region has a different length.
    #[error("it has registered {name} with {registered} bytes, expected {saved}")]
    Length {
        /// Name of the region.
        name: String,
        /// Length of the region in the checkpoint, in bytes.
        saved: usize,
        /// Registered length, in bytes.
        registered: usize,
    },
}

/// Encodes all regions.
pub fn encode<'a>(regions: impl Iterator<Item = Saved<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Saved { name, contents } in regions {
        bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(contents.len() as u64).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(contents);
    }
    bytes
}

/// Decodes regions; None if the encoding is invalid.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<Saved<'_>>> {
    let mut regions: Vec<Saved> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    while let Some((lengths, rest)) = bytes.split_first_chunk::<16>() {
        let length = |at: usize| {
            let word = lengths[at..at + 8].try_into().expect("eight bytes");
            usize::try_from(u64::from_le_bytes(word)).ok()
        };
        let (name, rest) = rest.split_at_checked(length(0)?)?;
        let (contents, rest) = rest.split_at_checked(length(8)?)?;
        let name = std::str::from_utf8(name).ok()?;
        if name.is_empty() || !names.insert(name) {
            return None;
        }
        regions.push(Saved { name, contents });
        bytes = rest;
    }
    bytes.is_empty().then_some(regions)
}

/// Returns the saved contents of each of the `registered` regions (name, bytes), in their order;
/// None for a region that the checkpoint does not contain.
pub fn fit<'a>(
    saved: &[Saved<'a>],
    registered: &[(&str, usize)],
) -> Result<Vec<Option<&'a [u8]>>, Misfit> {
    let mut found = vec![None; registered.len()];
    for (nth, &Saved { name, contents }) in saved.iter().enumerate() {
        let (name_of, saved) = (|| name.to_owned(), contents.len());
        let by_order = breaks(Mutant::PrivateByOrder);
        let is_it = |(at, (other, _)): (usize, &(&str, _))| match by_order {
            false => *other == name,
            true => at == nth,
        };
        match registered.iter().enumerate().position(is_it) {
            None => return Err(Misfit::Missing { name: name_of(), saved }),
            Some(at) if registered[at].1 != saved => {
                let registered = registered[at].1;
                return Err(Misfit::Length { name: name_of(), saved, registered });
            }
            Some(at) => found[at] = Some(contents),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: [Saved; 3] = [
        Saved { name: "one", contents: b"1" },
        Saved { name: "two", contents: b"22" },
        Saved { name: "three", contents: b"" },
    ];

    #[test]
    fn only_what_was_encoded_is_read_back() {
        let bytes = encode(SAVED.into_iter());
        assert_eq!(decode(&bytes).unwrap(), SAVED);
        assert_eq!(decode(&[]).unwrap(), []);
        let twice = encode(SAVED.into_iter().chain(SAVED));
        assert!(decode(&twice).is_none());
        assert!(decode(&[0; 16]).is_none());
        // A truncated encoding is rejected unless the cut is at the end of a region.
        let ends: Vec<usize> = (0..=3).map(|n| encode(SAVED.into_iter().take(n)).len()).collect();
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]).is_some(), ends.contains(&cut), "{cut}");
        }
        for huge in [u64::MAX, u64::MAX - 15, 1 << 62] {
            for at in [0, 8] {
                let mut bytes = bytes.clone();
                bytes[at..at + 8].copy_from_slice(&huge.to_le_bytes());
                assert!(decode(&bytes).is_none());
            }
        }
    }

    #[test]
    fn regions_fit_by_name_whatever_their_order() {
        let found = fit(&SAVED, &[("three", 0), ("later", 9), ("two", 2), ("one", 1)]);
        assert_eq!(found, Ok(vec![Some(&b""[..]), None, Some(b"22"), Some(b"1")]));
        let missing = Misfit::Missing { name: "two".into(), saved: 2 };
        assert_eq!(fit(&SAVED, &[("three", 0), ("one", 1)]), Err(missing));
        let length = Misfit::Length { name: "one".into(), saved: 1, registered: 7 };
        assert_eq!(fit(&SAVED, &[("three", 0), ("two", 2), ("one", 7)]), Err(length));
    }
}
