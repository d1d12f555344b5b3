//! The addresses at which the executable and its libraries were loaded. A manifest holds them as a
//! region of private memory whose name no program can use.
//!
//! ```text
//! region   one line per object: start length name, with hexadecimal numbers
//! ```
//!
//! A checkpoint holds pointers to functions, virtual function tables and variables. They are valid
//! in a substitute only if their targets have the same addresses. If an object [`moved`], no saved
//! word may be an address in it.

use std::ops::Range;

use super::private::Saved;

/// Name of the region. It differs from all names that a program gives, which are in quotes.
pub const NAME: &str = "load addresses";

/// An executable or a library in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// File name, without folders; empty for the executable.
    pub name: String,
    /// Address range.
    pub addresses: Range<u64>,
}

/// Encodes the contents of the region.
pub fn encode(objects: &[LoadedObject]) -> String {
    let line = |object: &LoadedObject| {
        let Range { start, end } = object.addresses;
        format!("{start:x} {:x} {}\n", end.saturating_sub(start), object.name.escape_default())
    };
    objects.iter().map(line).collect()
}

/// Decodes the contents of the region; None if they are malformed.
pub fn decode(contents: &[u8]) -> Option<Vec<LoadedObject>> {
    let object = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let (start, len) = (number()?, number()?);
        let addresses = start..start.checked_add(len)?;
        Some(LoadedObject { name: words.next()?.to_owned(), addresses })
    };
    std::str::from_utf8(contents).ok()?.lines().map(object).collect()
}

/// Removes the load addresses from the private memory of a manifest and decodes them; empty if it
/// has no such region, None if they are malformed.
pub fn take(private: &mut Vec<Saved>) -> Option<Vec<LoadedObject>> {
    let Some(at) = private.iter().position(|saved| saved.name == NAME) else {
        return Some(Vec::new());
    };
    decode(private.remove(at).contents)
}

/// Returns the objects of the checkpoint that have a different address range in this process.
pub fn moved(saved: Vec<LoadedObject>, here: &[LoadedObject]) -> Vec<LoadedObject> {
    saved.into_iter().filter(|object| !here.contains(object)).collect()
}

/// Finds the first aligned word of `bytes` that may be an address in one of `objects`. Returns its
/// offset and that object; `at` is the address of the first byte.
pub fn address_in<'a>(
    bytes: &[u8],
    at: usize,
    objects: &'a [LoadedObject],
) -> Option<(usize, &'a LoadedObject)> {
    let start = objects.iter().map(|object| object.addresses.start).min()?;
    let end = objects.iter().map(|object| object.addresses.end).max()?;
    let skipped = at.wrapping_neg() % 8;
    let words = bytes.get(skipped..)?.as_chunks::<8>().0;
    words.iter().enumerate().find_map(|(nth, word)| {
        let word = u64::from_le_bytes(*word);
        let mut meant = objects.iter().filter(|_| (start..end).contains(&word));
        let object = meant.find(|object| object.addresses.contains(&word))?;
        Some((skipped + nth * 8, object))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, addresses: Range<u64>) -> LoadedObject {
        LoadedObject { name: name.into(), addresses }
    }

    #[test]
    fn objects_are_read_back_and_those_elsewhere_have_moved() {
        let all = [object("", 0x1000..0x3000), object("libc.so.6", 0x7000..0x9000)];
        let text = encode(&all);
        assert_eq!(decode(text.as_bytes()).unwrap(), all);
        assert_eq!(decode(b"1000 x libc"), None);
        assert_eq!(decode(b"ffffffffffffffff 2 a"), None);
        let here = [all[0].clone(), object("libc.so.6", 0x8000..0xa000)];
        assert_eq!(moved(all.to_vec(), &here), all[1..]);
        let mut private = vec![Saved { name: NAME, contents: text.as_bytes() }];
        assert_eq!(take(&mut private).unwrap(), all);
        assert_eq!((private.len(), take(&mut private)), (0, Some(Vec::new())));
    }

    #[test]
    fn an_address_is_a_word_on_its_boundary() {
        let objects = [object("a", 0x100..0x200)];
        let word = |value: u64| value.to_le_bytes();
        let bytes = [word(0x99), word(0x1ff)].concat();
        let found = |bytes: &[u8], at| address_in(bytes, at, &objects).map(|(at, _)| at);
        assert_eq!(found(&bytes, 0x1000), Some(8));
        assert_eq!(found(&bytes, 0x1004), None);
        assert_eq!(found(&[word(0x200), word(0xff)].concat(), 0), None);
        assert_eq!(found(&bytes[..12], 0), None);
    }
}
