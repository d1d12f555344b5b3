//! Tests of the statics: the selection on descriptions, the parser on executables that the system's
//! compiler and linkers make, and the reading of the running test itself.

#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

const PAGE: usize = 4096;

fn executable(writable: &[Range<usize>], relro: Option<Range<usize>>) -> Executable {
    Executable { writable: writable.to_vec(), relro, ..Executable::default() }
}

/// Returns the only piece.
fn pages(e: &Executable) -> Option<Range<usize>> {
    let statics = select(e, PAGE)?;
    assert_eq!(statics.pieces, [statics.start..statics.start + statics.len]);
    Some(statics.pieces[0].clone())
}

#[test]
fn library_names() {
    for yes in ["libraidshmem.so", "libraidshmem.so.0", "./target/libraidshmem.so.1.2"] {
        assert!(is_library(yes), "{yes}");
    }
    for no in ["libraidshmem.sox", "libraidshmem", "xlibraidshmem.so", "libc.so.6", ""] {
        assert!(!is_library(no), "{no}");
    }
}

#[test]
fn range_begins_behind_relro() {
    let one = executable(&[0x3d00..0x5010], Some(0x3d00..0x4000));
    assert_eq!(pages(&one), Some(0x4000..0x6000));
    let none = executable(&[0x3d00..0x5010], None);
    assert_eq!(pages(&none), Some(0x3000..0x6000));
    let own_segment = executable(&[0x3d00..0x4000, 0x4000..0x4100], Some(0x3d00..0x4000));
    assert_eq!(pages(&own_segment), Some(0x4000..0x5000));
    let all = executable(&[0x3d00..0x4000], Some(0x3d00..0x4000));
    assert_eq!(pages(&all), None);
    assert_eq!(pages(&executable(&[], None)), None);
}

#[test]
fn rest_of_relro_is_excluded() {
    let statics = select(&executable(&[0x3d00..0x5010], Some(0x3d00..0x4020)), PAGE).unwrap();
    assert_eq!((statics.start, statics.len), (0x4000, 0x2000));
    assert_eq!(statics.excluded, [0x4000..0x4020]);
}

#[test]
fn gaps_between_pieces_hold_no_variable() {
    let holes = select(&executable(&[0x3000..0x3800, 0x5000..0x6000], None), PAGE).unwrap();
    assert_eq!((holes.start, holes.len), (0x3000, 0x3000));
    assert_eq!(holes.pieces, [0x3000..0x4000, 0x5000..0x6000]);
    assert_eq!(holes.excluded, [0x4000..0x5000]);
    assert_eq!(holes.offset_of(0x3ff8, 8), Some(0xff8));
    assert_eq!(holes.offset_of(0x5000, 0x1000), Some(0x2000));
    for (addr, len) in [(0x3ff9, 8), (0x4800, 8), (0x3000, 0x3000), (0x6000, 1), (usize::MAX, 8)] {
        assert_eq!(holes.offset_of(addr, len), None, "{addr:#x} {len:#x}");
    }
    let around = select(&executable(&[0x3000..0x6000], Some(0x4000..0x5000)), PAGE).unwrap();
    assert_eq!(around.pieces, [0x3000..0x4000, 0x5000..0x6000]);
    assert_eq!(around.offsets(&around.pieces[1]), 0x2000..0x3000);
}

#[test]
fn constants_are_what_can_only_be_read() {
    let mut e = executable(&[0x3d00..0x5010], Some(0x3d00..0x4020));
    e.readonly = vec![0x1000..0x1800, 0x2000..0x2100];
    let statics = select(&e, PAGE).unwrap();
    assert_eq!(statics.constants, [0x1000..0x1800, 0x2000..0x2100, 0x3000..0x4000]);
    for (addr, len, is) in [
        (0x1000, 0x800, true),
        (0x17ff, 2, false),
        (0x3ff0, 16, true),
        (0x3ff8, 16, false),
        (0x4000, 8, false),
        (usize::MAX, 8, false),
    ] {
        assert_eq!(statics.is_constant(addr, len), is, "{addr:#x} {len:#x}");
    }
}

#[test]
fn relocations_of_both_processors() {
    use elf::RelocationKind::{Copied, Filled, Own};
    for (machine, copy, slot, descriptor, relative, absolute) in
        [(Machine::X86_64, 5, 7, 36, 8, 1), (Machine::Aarch64, 1024, 1026, 1031, 1027, 257)]
    {
        assert_eq!(machine.target(copy), Copied);
        assert_eq!(machine.target(slot), Filled(8));
        assert_eq!(machine.target(descriptor), Filled(16));
        assert_eq!(machine.target(relative), Own);
        assert_eq!(machine.target(absolute), Own);
    }
}

#[test]
fn foreign_ranges_are_clipped_and_merged() {
    let mut e = executable(&[0x4000..0x6000], None);
    e.foreign =
        vec![0x5008..0x5010, 0x3ff8..0x4008, 0x5000..0x5008, 0x5ff0..0x7000, 0x4100..0x4100];
    e.foreign.push(0x1000..0x2000);
    let excluded = select(&e, PAGE).unwrap().excluded;
    assert_eq!(excluded, [0x4000..0x4008, 0x5000..0x5010, 0x5ff0..0x6000]);
}

/// An ELF file, as if loaded at the addresses that it was linked for.
struct File {
    bytes: Vec<u8>,
    headers: Vec<ProgramHeader>,
    /// Offset in the file, address, bytes in the file.
    loads: Vec<(usize, usize, usize)>,
}

impl File {
    fn open(path: &Path) -> File {
        let bytes = std::fs::read(path).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (table, count) = (word(32), half(56) as usize & 0xffff);
        let mut headers = Vec::new();
        let mut loads = Vec::new();
        for at in (0..count).map(|i| table + 56 * i) {
            let (kind, flags, address, len) =
                (half(at), half(at + 4), word(at + 16), word(at + 40));
            headers.push(ProgramHeader { kind, flags, address, len });
            if kind == 1 {
                loads.push((word(at + 8), address, word(at + 32)));
            }
        }
        File { bytes, headers, loads }
    }

    fn statics(&self) -> Result<Option<Statics>, StaticsError> {
        find_in(&self.headers, 0, self, Machine::HERE, PAGE)
    }
}

impl ExecutableMemory for File {
    fn read(&self, address: usize, len: usize) -> Option<Vec<u8>> {
        let end = address.checked_add(len)?;
        self.loads.iter().find_map(|&(offset, start, in_file)| {
            let at = offset + address.checked_sub(start)?;
            let inside = end <= start + in_file;
            if inside { self.bytes.get(at..at + len).map(<[u8]>::to_vec) } else { None }
        })
    }
}

/// A directory that is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("statics-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Runs a program; `cc` and `c++` are the compilers of `oshcc` and `oshc++`.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let other = match program {
            "cc" => std::env::var("OSHCC_CC").ok(),
            "c++" => std::env::var("OSHCC_CXX").ok(),
            _ => None,
        };
        let program = other.as_deref().unwrap_or(program);
        let out = Command::new(program).args(args).current_dir(&self.0).output().unwrap();
        let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{program} {args:?}: {complaint}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// Builds a library of the given name and a program that is linked with it.
    fn build(&self, library: &str, compiler: &str, source: &str, flags: &[&str]) -> File {
        std::fs::write(self.0.join("lib.c"), "int theirs[9] = {1}; int call(void) {return 0;}\n")
            .unwrap();
        let source_file = if compiler == "c++" { "main.cc" } else { "main.c" };
        std::fs::write(self.0.join(source_file), source).unwrap();
        self.run("cc", &["-shared", "-fPIC", "lib.c", "-o", library]);
        let mut args = vec![source_file, "-O1", "-o", "main", library];
        args.extend(flags);
        self.run(compiler, &args);
        File::open(&self.0.join("main"))
    }

    /// Returns address and size of every symbol that has both.
    fn symbols(&self) -> BTreeMap<String, Range<usize>> {
        let mut symbols = BTreeMap::new();
        for line in self.run("nm", &["-S", "main"]).lines() {
            if let [at, size, _, name] = line.split_whitespace().collect::<Vec<_>>()[..] {
                let number = |s| usize::from_str_radix(s, 16).unwrap();
                let name = name.split('@').next().unwrap_or(name).to_owned();
                symbols.insert(name, number(at)..number(at) + number(size));
            }
        }
        symbols
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const C: &str = r#"
#include <stdio.h>
extern char **environ; extern int theirs[9]; int call(void);
long mine_data = 7; long mine_bss; char mine_big[100000]; static int mine_static = 3;
int main(int n, char **v) {
    fprintf(stdout, "%p %d\n", (void *)environ, theirs[n]);
    fprintf(stderr, "%s", v[0]);
    mine_big[n] = mine_static++; mine_bss += mine_data; return call();
}
"#;

const CXX: &str = r#"
#include <iostream>
extern "C" int call(); long mine_data = 7; long mine_bss; char mine_big[100000];
int main(int n, char **v) {
    std::cout << v[0] << mine_data; mine_big[n] = ++mine_bss; return call();
}
"#;

/// Checks that the user's variables are in and not excluded, and the libraries' are out.
fn check(s: &Scratch, file: &File, mine: &[&str], foreign: &[&str]) -> Statics {
    let statics = file.statics().unwrap().expect("the program is linked with the library");
    assert!(statics.start.is_multiple_of(PAGE) && statics.len.is_multiple_of(PAGE));
    let all = statics.start..statics.start + statics.len;
    assert!(statics.excluded.iter().all(|r| all.contains_range(r) && !r.is_empty()));
    assert!(statics.excluded.windows(2).all(|w| w[0].end < w[1].start));
    let symbols = s.symbols();
    for name in mine {
        let r = &symbols[*name];
        assert!(all.contains_range(r), "{name} {r:x?} {statics:x?}");
        let hit = statics.excluded.iter().any(|x| x.start < r.end && r.start < x.end);
        assert!(!hit, "{name} {r:x?} {statics:x?}");
    }
    for name in foreign {
        let r = &symbols[*name];
        let inside = all.start < r.end && r.start < all.end;
        let out = !inside || statics.excluded.iter().any(|x| x.contains_range(r));
        assert!(out, "{name} {r:x?} {statics:x?}");
    }
    statics
}

#[test]
fn real_c_programs() {
    let linkings: [&[&str]; 7] = [
        &["-fPIE", "-pie"],
        &["-no-pie", "-fno-pie", "-Wl,-z,lazy"],
        &["-no-pie", "-fno-pie", "-Wl,-z,now"],
        &["-fPIE", "-pie", "-Wl,-z,now"],
        &["-no-pie", "-fno-pie", "-Wl,-z,norelro", "-Wl,-z,lazy"],
        &["-fPIE", "-pie", "-Wl,-z,norelro", "-Wl,-z,now"],
        &["-no-pie", "-fno-pie", "-Wl,-z,lazy", "-Wl,--hash-style=sysv"],
    ];
    let s = Scratch::new("c");
    let mine = ["mine_data", "mine_bss", "mine_big", "mine_static"];
    for flags in linkings {
        let file = s.build("libraidshmem.so", "cc", C, flags);
        let statics = check(&s, &file, &mine, &["stdout", "environ", "theirs"]);
        assert!(!statics.excluded.is_empty(), "{flags:?}");
        let hidden: usize = statics.excluded.iter().map(Range::len).sum();
        assert!(hidden < 1500, "{flags:?}: {hidden} bytes excluded");
    }
}

#[test]
fn lazily_bound_got_is_excluded() {
    let s = Scratch::new("lazy");
    let flags = ["-no-pie", "-fno-pie", "-Wl,-z,lazy"];
    let file = s.build("libraidshmem.so", "cc", C, &flags);
    let statics = check(&s, &file, &["mine_data"], &["stdout"]);
    let sections = s.run("readelf", &["-SW", "main"]);
    let line = sections.lines().find(|l| l.contains(" .got.plt ")).expect("a lazily bound GOT");
    let words: Vec<&str> = line[line.find(".got.plt").unwrap()..].split_whitespace().collect();
    let number = |s| usize::from_str_radix(s, 16).unwrap();
    let got = number(words[2])..number(words[2]) + number(words[4]);
    let inside = got.start.max(statics.start)..got.end;
    assert!(!inside.is_empty(), "the GOT is behind RELRO");
    assert!(statics.excluded.iter().any(|x| x.contains_range(&inside)), "{got:x?} {statics:x?}");
}

#[test]
fn real_cxx_program() {
    let s = Scratch::new("cxx");
    let flags = ["-no-pie", "-fno-pie"];
    let file = s.build("libraidshmem.so", "c++", CXX, &flags);
    check(&s, &file, &["mine_data", "mine_bss", "mine_big"], &["_ZSt4cout"]);
}

#[test]
fn programs_that_are_not_meant() {
    let s = Scratch::new("other");
    assert_eq!(s.build("libother.so", "cc", C, &[]).statics(), Ok(None));
    std::fs::write(s.0.join("plain.c"), "int x; int main(void) {return x;}\n").unwrap();
    s.run("cc", &["plain.c", "-static", "-o", "plain"]);
    assert_eq!(File::open(&s.0.join("plain")).statics(), Ok(None));
    assert_eq!(find(), Ok(None), "this test has the library linked in statically");
}

#[test]
fn own_memory_reads_as_the_own_file() {
    let own = Own::listed().unwrap();
    let file = File::open(Path::new("/proc/self/exe"));
    let in_memory = Dynamic::read(&own.headers, own.bias, &own).unwrap().unwrap();
    let in_file = Dynamic::read(&file.headers, 0, &file).unwrap().unwrap();
    let needed = in_memory.needed().unwrap();
    assert_eq!(needed, in_file.needed().unwrap());
    assert!(needed.iter().any(|n| n.starts_with("libc.so")), "{needed:?}");
    let moved: Vec<_> = in_file
        .foreign(Machine::HERE)
        .unwrap()
        .into_iter()
        .map(|r| r.start + own.bias..r.end + own.bias)
        .collect();
    assert_eq!(in_memory.foreign(Machine::HERE).unwrap(), moved);
    assert!(moved.len() > 2);
    assert_eq!(own.read(own.bias.wrapping_sub(PAGE), 8), None);
    assert_eq!(own.read(usize::MAX - 3, 8), None);
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let s = Scratch::new("damaged");
    let mut file = s.build("libraidshmem.so", "cc", C, &["-no-pie", "-fno-pie"]);
    let dynamic = file.headers.iter().find(|h| h.kind == 2).unwrap().clone();
    let &(offset, start, _) =
        file.loads.iter().rfind(|l| l.1 <= dynamic.address).expect("a segment");
    let section = offset + dynamic.address - start;
    for at in section..section + dynamic.len {
        for value in [0, 0x7f, 0xff] {
            let old = std::mem::replace(&mut file.bytes[at], value);
            let _ = file.statics();
            file.bytes[at] = old;
        }
    }
    file.loads.clear();
    assert!(matches!(file.statics(), Err(StaticsError::Outside { .. })));
}
