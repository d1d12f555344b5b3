//! The objects of a PE in a set, by the names that the program knows: its static variables, the
//! blocks of its symmetric heap and its registered private memory.
//!
//! ```text
//! static:swept        the variable `swept`; static:a.c:swept if several files have one
//! heap:grid           the block that the pointer `grid` points to, a static variable
//! heap:rows[1]        the block that the second pointer of the array `rows` points to
//! heap:3              the fourth block of the heap, by its address
//! private:state       memory registered as `state`
//! ```
//!
//! Invariant: a name is of one object; every block has a number, and one name more at most.
//!
//! Left out: the bytes, and with them pointers in private memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use raidshmem_core::store::objects::NAME as ADDRESSES;

use crate::error::FormatError;
use crate::part::{Area, Extent, Head, Object};

/// Kinds of objects, in the order in which a name without a kind is looked up.
const KINDS: [&str; 3] = ["private", "heap", "static"];
/// The prefix of names that the library gives.
const LIBRARY: &str = "the library's ";
/// Most pointers of an array that name blocks.
const POINTERS: u64 = 64;
/// Bytes of a pointer.
const WORD: u64 = 8;

/// The location of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectPlace {
    /// In symmetric memory, at this offset of an area.
    Memory(Area, u64),
    /// In private memory, at this offset of the saved data.
    Private(u64),
}

/// An object of a PE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetObject {
    /// Its name.
    pub name: String,
    /// Its location.
    pub place: ObjectPlace,
    /// Its length in bytes.
    pub len: u64,
}

/// The objects of a PE.
#[derive(Debug, Clone, Default)]
pub struct SetObjects {
    all: Vec<SetObject>,
    /// The names of all.
    given: BTreeSet<String>,
    /// The number of the block, for each that has a name of its own.
    blocks: BTreeMap<String, usize>,
}

impl SetObjects {
    /// Returns the objects of the PE whose file begins with `head`. `word` reads eight bytes of its
    /// statics at an offset, or returns None.
    ///
    /// # Errors
    /// The state of the heap is invalid.
    pub fn of(head: &Head, word: &dyn Fn(u64) -> Option<u64>) -> Result<SetObjects, FormatError> {
        let blocks: Vec<Range<u64>> = head.blocks()?;
        let statics = statics(head);
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for (name, object) in statics.iter().filter(|(_, object)| may_point(object)) {
            for nth in 0..object.len / WORD {
                let block = word(object.offset + nth * WORD);
                let block = block.and_then(|at| at.checked_sub(head.heap_at));
                let is_block = |at: &u64| blocks.binary_search_by_key(at, |it| it.start).is_ok();
                let Some(block) = block.filter(is_block) else { continue };
                let index = if object.len > WORD { format!("[{nth}]") } else { String::new() };
                names.entry(block).or_insert_with(|| format!("heap:{name}{index}"));
            }
        }
        let mut objects = SetObjects::default();
        for (name, Object { offset, len, .. }) in statics {
            objects.add(
                format!("static:{name}"),
                ObjectPlace::Memory(Area::Statics, *offset),
                *len,
            );
        }
        for (nth, block) in blocks.into_iter().enumerate() {
            let (place, len) =
                (ObjectPlace::Memory(Area::Heap, block.start), block.end - block.start);
            let numbered = format!("heap:{nth}");
            objects.blocks.insert(numbered.clone(), objects.all.len());
            let name = names.remove(&block.start).filter(|name| !objects.given.contains(name));
            objects.add(name.unwrap_or(numbered), place, len);
        }
        let mut at: u64 = head.extents.iter().map(|extent| extent.len).sum();
        for region in &head.regions {
            let given = region.name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let name = given.unwrap_or(&region.name);
            if region.name != ADDRESSES && !region.name.starts_with(LIBRARY) {
                objects.add(format!("private:{name}"), ObjectPlace::Private(at), region.len);
            }
            at += region.len;
        }
        Ok(objects)
    }

    /// Adds an object, unless one has that name.
    fn add(&mut self, name: String, place: ObjectPlace, len: u64) {
        if self.given.insert(name.clone()) {
            self.all.push(SetObject { name, place, len });
        }
    }

    /// Returns all objects, each once.
    pub fn all(&self) -> &[SetObject] {
        &self.all
    }

    /// Finds an object by its name. Without a kind, private memory comes before a block, and a
    /// block before a variable.
    pub fn find(&self, name: &str) -> Option<&SetObject> {
        let exact = |name: &str| {
            let named = self.all.iter().find(|object| object.name == name);
            named.or_else(|| self.all.get(*self.blocks.get(name)?))
        };
        exact(name).or_else(|| KINDS.iter().find_map(|kind| exact(&format!("{kind}:{name}"))))
    }
}

/// Returns the variables with a name of their own that the file saves, at least in part.
fn statics(head: &Head) -> Vec<(String, &Object)> {
    let is_saved = |object: &&Object| {
        let overlaps = |extent: &Extent| {
            let end = object.offset + object.len;
            extent.area == Area::Statics
                && object.offset < extent.offset + extent.len
                && extent.offset < end
        };
        object.offset.checked_add(object.len).is_some() && head.extents.iter().any(overlaps)
    };
    let saved: Vec<&Object> = head.objects.iter().filter(is_saved).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    saved.iter().for_each(|object| *count.entry(&object.name).or_default() += 1);
    let name = |object: &&Object| match count[object.name.as_str()] {
        1 => object.name.clone(),
        _ => format!("{}:{}", object.file, object.name),
    };
    saved.into_iter().map(|object| (name(&object), object)).collect()
}

/// Returns true if a variable may hold pointers only.
fn may_point(object: &Object) -> bool {
    let is_number = object.name.bytes().all(|byte| byte.is_ascii_digit());
    let few = !is_number && (WORD..=POINTERS * WORD).contains(&object.len);
    few && object.len.is_multiple_of(WORD) && object.offset.is_multiple_of(WORD)
}

/// Returns the ranges of the saved data that hold bytes of an object, in order.
///
/// # Errors
/// The first byte of it that was not saved.
pub fn saved(head: &Head, place: ObjectPlace, range: Range<u64>) -> Result<Vec<Range<u64>>, u64> {
    let (area, from) = match place {
        ObjectPlace::Private(at) => {
            let all = at + range.start..at + range.end;
            return Ok(Vec::from([all]));
        }
        ObjectPlace::Memory(area, from) => (area, from),
    };
    let (mut at, mut data, mut ranges) = (from + range.start, 0, Vec::new());
    let mut extents: Vec<(u64, &Extent)> = Vec::new();
    for extent in &head.extents {
        extents.push((data, extent));
        data += extent.len;
    }
    extents.retain(|(_, extent)| extent.area == area);
    extents.sort_by_key(|(_, extent)| extent.offset);
    for (data, extent) in extents {
        if (extent.offset..extent.offset + extent.len).contains(&at) {
            let end = (from + range.end).min(extent.offset + extent.len);
            if end > at {
                ranges.push(data + at - extent.offset..data + end - extent.offset);
                at = end;
            }
        }
    }
    if at < from + range.end { Err(at - from) } else { Ok(ranges) }
}

#[cfg(test)]
mod tests {
    use raidshmem_core::heap::Heap;
    use raidshmem_core::quantity::{CheckpointNumber, Pe};

    use super::*;
    use crate::owner::Owner;
    use crate::part::Region;
    use crate::references::References;

    fn head() -> Head {
        let number = CheckpointNumber(3);
        let mut heap = Heap::new(1 << 20);
        (0..3).for_each(|nth| _ = heap.alloc(100 + nth, 64).expect("free memory"));
        let object = |name: &str, file: &str, offset, len| {
            let (name, file) = (name.to_owned(), file.to_owned());
            Object { name, file, offset, len }
        };
        let region = |name: &str, len| Region { name: name.to_owned(), len };
        Head {
            owner: Owner { job: 7, number, pe: Pe(1), n_pes: 2, heap_len: 1 << 20 },
            heap_at: 1 << 45,
            build: Vec::new(),
            program: String::new(),
            image: 0..0,
            heap: heap.encode(),
            excluded: Vec::new(),
            extents: vec![
                Extent { area: Area::Heap, offset: 0, len: 4096 },
                Extent { area: Area::Statics, offset: 0, len: 64 },
                Extent { area: Area::Statics, offset: 80, len: 40 },
            ],
            regions: vec![region(ADDRESSES, 8), region("`a`", 5), region("the library's teams", 1)],
            objects: vec![
                object("a", "", 0, 8),
                object("both", "x.c", 8, 16),
                object("n", "x.c", 24, 4),
                object("n", "y.c", 28, 4),
                object("torn", "", 56, 40),
                object("elsewhere", "", 4096, 8),
            ],
            begin: Vec::new(),
            stored: Vec::new(),
            references: References::default(),
            sums: vec![1],
        }
    }

    fn objects() -> SetObjects {
        let word = |at: u64| match at {
            0 | 16 => Some((1 << 45) + 128), // the second block
            8 => Some((1 << 45) + 130),      // inside it
            _ => Some(0),
        };
        SetObjects::of(&head(), &word).expect("a heap")
    }

    #[test]
    fn objects_have_the_names_that_a_program_knows() {
        let all = objects();
        let names: Vec<&str> = all.all().iter().map(|object| object.name.as_str()).collect();
        let statics = ["static:a", "static:both", "static:x.c:n", "static:y.c:n", "static:torn"];
        assert_eq!(names[..5], statics);
        assert_eq!(names[5..], ["heap:0", "heap:a", "heap:2", "private:a"]);
        let found = |name: &str| all.find(name).map(|object| (object.place, object.len));
        let block = Some((ObjectPlace::Memory(Area::Heap, 128), 101));
        assert_eq!((found("heap:1"), found("heap:a")), (block, block));
        assert_eq!(found("a"), Some((ObjectPlace::Private(4096 + 64 + 40 + 8), 5)));
        assert_eq!(found("static:a"), Some((ObjectPlace::Memory(Area::Statics, 0), 8)));
        assert_eq!(found("both"), Some((ObjectPlace::Memory(Area::Statics, 8), 16)));
        for none in ["n", "heap:3", "elsewhere", "load addresses", "", "heap:", "private:teams"] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn bytes_of_an_object_lie_in_extents_or_were_left_out() {
        let head = head();
        let of = |offset, range| saved(&head, ObjectPlace::Memory(Area::Statics, offset), range);
        let one = |range| Ok(Vec::from([range]));
        assert_eq!(of(8, 0..16), one(4104..4120));
        assert_eq!(of(8, 3..3), Ok(vec![]));
        assert_eq!((of(56, 0..8), of(56, 0..9)), (one(4152..4160), Err(8)));
        assert_eq!(of(56, 24..40), one(4160..4176));
        assert_eq!(of(56, 10..30), Err(10));
        let private = saved(&head, ObjectPlace::Private(4200), 1..5);
        assert_eq!(private, one(4201..4205));
    }
}
