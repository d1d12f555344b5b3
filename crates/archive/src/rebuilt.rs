//! Comparison of two builds of a program: pairs their variables, and finds data that may be an
//! address.
//!
//! Two variables are paired if their symbol, their source file and their length are equal.
//! Compilers renumber the variables of functions (`count.3`) in each build, so the number is
//! ignored; if two variables then have one name, neither is paired.
//!
//! Left out: the meaning of the bytes. A changed structure of unchanged length is taken as
//! unchanged.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::part::Object;

/// Variables of the start-up files of every program: each build has its own.
const OF_THE_START: [&str; 2] = ["__dso_handle", "completed"];

/// The reasons why a variable has no pair in the other build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpaired {
    /// No variable has that name.
    #[error("variable {0} is not there")]
    Missing(String),
    /// Several variables have that name.
    #[error("several variables are named {0}")]
    Ambiguous(String),
    /// It has another length.
    #[error("variable {name} has {found} bytes, expected {expected}")]
    Length {
        /// Its symbol.
        name: String,
        /// Its saved length in bytes.
        expected: u64,
        /// Its length here, in bytes.
        found: u64,
    },
}

/// Returns the name and the file that identify a variable.
fn key(object: &Object) -> (&str, &str) {
    let numbered = object.name.rsplit_once('.');
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    let name = numbered.filter(|(_, end)| is_number(end)).map_or(&*object.name, |(name, _)| name);
    (name, &object.file)
}

/// Pairs each saved variable with that of the new build.
///
/// # Errors
/// The first that has no pair there.
pub fn pair<'a>(
    saved: &[&'a Object],
    own: &'a [Object],
) -> Result<Vec<(&'a Object, &'a Object)>, Unpaired> {
    let by_key = |all: &mut dyn Iterator<Item = &'a Object>| {
        let mut found: BTreeMap<(&str, &str), Vec<&Object>> = BTreeMap::new();
        all.for_each(|object| found.entry(key(object)).or_default().push(object));
        found
    };
    let (saved, own) = (by_key(&mut saved.iter().copied()), by_key(&mut own.iter()));
    let known = saved.into_iter().filter(|((name, _), _)| !OF_THE_START.contains(name));
    let pair = |(key, there): ((&str, &str), Vec<&'a Object>)| {
        let here = own.get(&key).map_or(&[][..], Vec::as_slice);
        let name = there[0].name.clone();
        match (there.as_slice(), here) {
            (_, []) => Err(Unpaired::Missing(name)),
            (&[there], &[here]) if there.len == here.len => Ok((there, here)),
            (&[there], &[here]) => {
                Err(Unpaired::Length { name, expected: there.len, found: here.len })
            }
            _ => Err(Unpaired::Ambiguous(name)),
        }
    };
    known.map(pair).collect()
}

/// Returns the index in `bytes`, which begin at offset `at`, of an aligned word that is an address
/// of `image`.
pub fn address_in(bytes: &[u8], at: u64, image: &Range<u64>) -> Option<usize> {
    let skipped = at.wrapping_neg() as usize % 8;
    let words = bytes.get(skipped..)?.as_chunks::<8>().0;
    let found = words.iter().position(|word| image.contains(&u64::from_le_bytes(*word)));
    found.map(|nth| skipped + nth * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, file: &str, offset: u64, len: u64) -> Object {
        Object { name: name.into(), file: file.into(), offset, len }
    }

    #[test]
    fn variables_are_known_by_name_file_and_length() {
        let saved = [
            object("x", "", 0, 8),
            object("x", "a.c", 8, 4),
            object("count.3", "a.c", 16, 8),
            object("completed.0", "crtstuff.c", 24, 1),
        ];
        let own = [
            object("count.11", "a.c", 0, 8),
            object("added", "", 8, 80),
            object("x", "a.c", 88, 4),
            object("x", "", 96, 8),
        ];
        let all: Vec<&Object> = saved.iter().collect();
        let pairs = pair(&all, &own).expect("all are there");
        let places: Vec<(u64, u64)> = pairs.iter().map(|(a, b)| (a.offset, b.offset)).collect();
        assert_eq!(places, [(16, 0), (0, 96), (8, 88)]);
        let refused = |saved: &[Object], own: &[Object]| {
            pair(&saved.iter().collect::<Vec<_>>(), own).expect_err("refused").to_string()
        };
        assert_eq!(refused(&saved, &own[1..]), "variable count.3 is not there");
        let longer = [object("count.1", "a.c", 0, 16), own[2].clone(), own[3].clone()];
        assert_eq!(refused(&saved, &longer), "variable count.3 has 16 bytes, expected 8");
        let two = [saved[2].clone(), object("count.4", "a.c", 32, 8)];
        assert_eq!(refused(&two, &own), "several variables are named count.3");
        assert_eq!(refused(&two[..1], &two), "several variables are named count.3");
        assert_eq!(refused(&[object("v.x", "", 0, 8)], &own), "variable v.x is not there");
    }

    #[test]
    fn an_address_is_found_on_boundaries_only() {
        let image = 0x40_0000..0x40_2000u64;
        let mut bytes = vec![0xff; 64];
        bytes[24..32].copy_from_slice(&0x40_1fff_u64.to_le_bytes());
        assert_eq!(address_in(&bytes, 0, &image), Some(24));
        assert_eq!(address_in(&bytes, 4096 + 8, &image), Some(24));
        assert_eq!(address_in(&bytes, 3, &image), None, "no word of memory");
        assert_eq!(address_in(&bytes[1..], 1, &image), Some(23));
        assert_eq!(address_in(&bytes[..31], 0, &image), None);
        assert_eq!(address_in(&bytes, 0, &(0..0x40_1fff)), None);
        assert_eq!(address_in(&bytes[..3], 1, &image), None);
    }
}
