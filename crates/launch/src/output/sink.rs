//! The destination of a PE's lines: a stream of this process or the PE's file, with prefixes.
//!
//! A spare process has no PE number yet; until it gets one its lines are marked as a spare's. A
//! file is appended to over incarnations of its PE and by a job that resumes; in any other job the
//! first process of a PE truncates it.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use raidshmem_core::quantity::Pe;

use raidshmem_sys::lock;

use super::stream::Stream;
use crate::lines::say;

/// The PE number of a spare process.
const SPARE: Pe = Pe(u32::MAX);

/// The prefixes of each line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// True if lines begin with the PE's number.
    pub tag: bool,
    /// True if lines begin with the time.
    pub stamp: bool,
}

/// The destination of one process's lines.
#[derive(Debug)]
pub struct Sink {
    marks: Marks,
    pe: AtomicU32,
    file: Option<Mutex<LogFile>>,
}

impl Sink {
    /// Creates the sink of process `pe`, or of a spare if None. With a `folder` its lines go to a
    /// file there, which the `first` process of a PE truncates.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(
        marks: Marks,
        pe: Option<Pe>,
        folder: Option<&Path>,
        first: bool,
    ) -> std::io::Result<Sink> {
        let pe = pe.unwrap_or(SPARE);
        let file = folder.map(|folder| LogFile::open(folder, pe, first)).transpose()?;
        Ok(Sink { marks, pe: AtomicU32::new(pe.0), file: file.map(Mutex::new) })
    }

    /// Assigns a PE number to the process.
    pub fn name(&self, pe: Pe) {
        self.pe.store(pe.0, Ordering::Relaxed);
    }

    /// Writes whole lines of the process, or its unfinished last one.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let pe = self.pe.load(Ordering::Relaxed);
        let marked = self.marks.put(Pe(pe), bytes);
        match &self.file {
            None => stream.write(&marked),
            Some(file) => lock(file).write(Pe(pe), &marked),
        }
    }
}

impl Marks {
    /// Adds the prefixes to lines.
    fn put(self, pe: Pe, bytes: &[u8]) -> Vec<u8> {
        if self == Marks::default() {
            return bytes.to_vec();
        }
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let time = if self.stamp { format!("{time} ") } else { String::new() };
        let whose = match (self.tag, pe) {
            (false, _) => String::new(),
            (true, SPARE) => "spare: ".to_owned(),
            (true, pe) => format!("PE {pe}: "),
        };
        let begin = format!("{time}{whose}");
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let whole = |line: &[u8]| {
            let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
            [begin.as_bytes(), line, end].concat()
        };
        lines.flat_map(whole).collect()
    }
}

/// The file of a PE.
#[derive(Debug)]
struct LogFile {
    folder: PathBuf,
    pe: Pe,
    file: File,
    /// True once a write error was reported.
    said: bool,
}

impl LogFile {
    fn open(folder: &Path, pe: Pe, first: bool) -> std::io::Result<LogFile> {
        std::fs::create_dir_all(folder)?;
        let name = match pe {
            SPARE => "spares.log".to_owned(),
            pe => format!("pe-{pe}.log"),
        };
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        let file = options.open(folder.join(name))?;
        if first {
            file.set_len(0)?;
        }
        Ok(LogFile { folder: folder.to_owned(), pe, file, said: false })
    }

    fn write(&mut self, pe: Pe, bytes: &[u8]) {
        let mut result = Ok(());
        if self.pe != pe {
            match LogFile::open(&self.folder, pe, false) {
                Ok(file) => *self = file,
                Err(error) => result = Err(error),
            }
        }
        let result = result.and_then(|()| self.file.write_all(bytes));
        if let Err(error) = result
            && !std::mem::replace(&mut self.said, true)
        {
            let folder = self.folder.display();
            say(&format!("--output {folder}: lines of PE {pe} are lost: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(marks: Marks, pe: Pe, bytes: &str) -> String {
        String::from_utf8(marks.put(pe, bytes.as_bytes())).unwrap()
    }

    #[test]
    fn every_line_has_its_source_and_time() {
        let tag = Marks { tag: true, stamp: false };
        assert_eq!(text(Marks::default(), Pe(1), "a\nb"), "a\nb");
        assert_eq!(text(tag, Pe(1), "a\n\nb\n"), "PE 1: a\nPE 1: \nPE 1: b\n");
        assert_eq!(text(tag, SPARE, "a"), "spare: a\n", "a line of its own");
        let both = text(Marks { tag: true, stamp: true }, Pe(0), "a\n");
        let (time, rest) = both.split_once(' ').unwrap();
        assert_eq!(rest, "PE 0: a\n");
        assert!(humantime::parse_rfc3339(time).is_ok(), "{time}");
    }

    #[test]
    fn a_file_continues_over_incarnations_and_begins_with_the_job() {
        let folder = std::env::temp_dir().join(format!("raidshmem-sink-{}", std::process::id()));
        let sink = |pe, first| Sink::new(Marks::default(), pe, Some(&folder), first).unwrap();
        let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
        sink(Some(Pe(3)), true).write(Stream::Out, b"of another job\n");
        let first = sink(Some(Pe(3)), true);
        first.write(Stream::Out, b"one\n");
        first.write(Stream::Err, b"two\n");
        let spare = sink(None, false);
        spare.write(Stream::Out, b"wait\n");
        spare.name(Pe(3));
        spare.write(Stream::Out, b"three\n");
        assert_eq!(read("pe-3.log"), "one\ntwo\nthree\n");
        assert_eq!(read("spares.log"), "wait\n");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            Sink::new(Marks::default(), Some(Pe(0)), Some(Path::new("/dev/null/x")), true).is_err()
        );
    }
}
