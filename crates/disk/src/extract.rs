//! An object of a set as a file of NumPy (`.npy`, version 1.0): bytes, with the PEs as the first of
//! two dimensions.
//!
//! Invariants: no file is overwritten; a file that could not be written whole is removed.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use raidshmem_core::quantity::Pe;

use super::files::io_at;
use super::reader::{ReadError, SetReader};

/// Bytes that are read at a time.
const PIECE: u64 = 4 << 20;
/// The alignment of the data in the file.
const ALIGN: usize = 64;

/// Writes an object of all PEs to a file in `folder` that is named after it; returns its path and
/// its bytes per PE.
///
/// # Errors
/// The file exists, the object cannot be read, or PEs have different lengths of it.
pub fn extract(reader: &SetReader, name: &str, folder: &Path) -> Result<(PathBuf, u64), ReadError> {
    let len = reader.find(name, Pe(0))?.len;
    for pe in Pe::all(reader.pes()) {
        reader.check(name, pe, 0, len.max(reader.find(name, pe)?.len))?;
    }
    let path = folder.join(file_name(name));
    let made = OpenOptions::new().write(true).create_new(true).open(&path);
    let file = made.map_err(io_at(&path))?;
    let written = write(reader, name, len, file, &path);
    if written.is_err() {
        let _ = fs::remove_file(&path); // made above
    }
    written.map(|()| (path, len))
}

fn write(
    reader: &SetReader,
    name: &str,
    len: u64,
    file: File,
    path: &Path,
) -> Result<(), ReadError> {
    let mut out = BufWriter::new(file);
    let put = |out: &mut BufWriter<File>, bytes: &[u8]| {
        out.write_all(bytes).map_err(io_at(path)).map_err(ReadError::from)
    };
    put(&mut out, &header(reader.pes(), len))?;
    let mut piece = vec![0; len.min(PIECE) as usize];
    for pe in Pe::all(reader.pes()) {
        for at in (0..len).step_by(PIECE as usize) {
            let piece = &mut piece[..PIECE.min(len - at) as usize];
            reader.read(name, pe, at, piece)?;
            put(&mut out, piece)?;
        }
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error);
    Ok(file.and_then(|file| file.sync_all()).map_err(io_at(path))?)
}

/// Returns the beginning of the file of an array of unsigned bytes.
fn header(pes: usize, len: u64) -> Vec<u8> {
    let shape = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({pes}, {len}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let whole = (bytes.len() + 2 + shape.len() + 1).next_multiple_of(ALIGN);
    bytes.extend_from_slice(&((whole - bytes.len() - 2) as u16).to_le_bytes());
    bytes.extend_from_slice(shape.as_bytes());
    bytes.resize(whole - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// Returns the name of the file: characters that a shell or a path treats specially become `-`.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    format!("{}.npy", name.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::super::made::{self, CELLS, Folder, PES, cell};
    use super::*;

    #[test]
    fn an_array_is_written_as_numpy_reads_it_and_overwrites_nothing() {
        let folder = Folder::new();
        let set = made::local(&folder, "raid5", 1);
        fs::remove_file(set.folder(2).join("pe-2")).expect("removed");
        let reader = SetReader::open(folder.0.to_str().expect("plain")).expect("a set");
        let (path, len) = extract(&reader, "heap:cells", &folder.0).expect("written");
        assert_eq!((path.file_name(), len), (Some("heap-cells.npy".as_ref()), CELLS as u64 * 8));
        let bytes = fs::read(&path).expect("a file");
        let begin = u16::from_le_bytes([bytes[8], bytes[9]]) as usize + 10;
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && begin.is_multiple_of(ALIGN));
        let shape = format!("'shape': ({PES}, {len}), }}");
        assert!(String::from_utf8_lossy(&bytes[10..begin]).trim_end().ends_with(&shape));
        let cells = bytes[begin..].as_chunks::<8>().0;
        assert_eq!(cells.len(), PES as usize * CELLS);
        for (nth, bytes) in cells.iter().enumerate() {
            assert_eq!(u64::from_le_bytes(*bytes), cell(Pe::of(nth / CELLS), nth % CELLS));
        }
        let again = extract(&reader, "heap:cells", &folder.0).expect_err("it is there");
        assert!(again.to_string().contains("heap-cells.npy: File exists"), "{again}");
        assert!(fs::read(&path).expect("a file") == bytes);
        let left_out = extract(&reader, "hidden", &folder.0).expect_err("it was left out");
        assert!(left_out.to_string().contains("it was left out"), "{left_out}");
        assert!(!folder.0.join("hidden.npy").exists());
        assert_eq!(file_name("../a/b c:d*"), "-a-b-c-d-.npy");
    }
}
