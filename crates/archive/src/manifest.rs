//! The manifest of a set: its files, and the parameters that must match to resume from it.
//!
//! A folder with a manifest is a set: the manifest is committed after every file is on disk. It
//! identifies the file of each PE by its length and the checksum of its head, so that a file of
//! another set is not mistaken for one of this.

use raidshmem_core::disk::{Content, Entry};
use raidshmem_core::message::HEAP_MAX;
use raidshmem_core::placement::pages::{PageRun, PageRuns};
use raidshmem_core::quantity::{CheckpointNumber, Pe};
use raidshmem_core::view::PES_MAX;

use crate::bytes::{self, Kind, PLACING, Reader, Writer, version};
use crate::code::Code;
use crate::error::FormatError;
use crate::owner::Owner;
use crate::references;

/// The frame of a manifest.
const KIND: Kind = Kind { magic: *b"RAIDSETM", name: "manifest", newest: PLACING };

/// The description of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The job that wrote it.
    pub job: u64,
    /// The checkpoint.
    pub number: CheckpointNumber,
    /// Bytes of the symmetric heap of each PE.
    pub heap_len: u64,
    /// Time of writing, in seconds since 1970.
    pub seconds: u64,
    /// `SHMEM_FT_BACKUP_MODE` of the job.
    pub mode: String,
    /// The program and its arguments, for display.
    pub program: String,
    /// The file of each PE.
    pub entries: Vec<Entry>,
    /// The size of all files with all their tiles, without compression, in bytes; None if that is
    /// the size that they have.
    pub raw: Option<u64>,
    /// The earlier checkpoints of the job whose files hold tiles of this set, in order.
    pub bases: Vec<CheckpointNumber>,
    /// The parity of a set whose files lie on the disks of their nodes; None for a set in one
    /// folder.
    pub parity: Option<Parity>,
    /// The NUMA nodes of each PE's pages; none if none are known of any PE.
    pub pages: Vec<PageRuns>,
}

/// The parity of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parity {
    /// The code, and the groups it protects.
    pub code: Code,
    /// The parity file of each PE.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Encodes the manifest.
    pub fn encode(&self) -> Vec<u8> {
        let places = !self.pages.is_empty();
        let refers = !self.bases.is_empty() || places;
        let suffices = version(self.raw.is_some(), refers);
        let mut out = Writer::new(KIND, if places { PLACING } else { suffices });
        out.u64(self.job);
        out.u64(self.number.0);
        out.u64(self.heap_len);
        out.u64(self.seconds);
        out.run(self.mode.as_bytes());
        out.run(self.program.as_bytes());
        write(&self.entries, &mut out);
        let raw = self.raw.or(refers.then(|| self.bytes()));
        raw.into_iter().for_each(|raw| out.u64(raw));
        if refers {
            out.count(self.bases.len());
            self.bases.iter().for_each(|base| out.u64(base.0));
        }
        out.u8(u8::from(self.parity.is_some()));
        if let Some(Parity { code, entries }) = &self.parity {
            code.write(&mut out);
            write(entries, &mut out);
        }
        if places {
            out.count(self.pages.len());
            self.pages.iter().for_each(|pages| write_pages(pages, &mut out));
        }
        out.finish()
    }

    /// Decodes a manifest from exactly these bytes.
    ///
    /// # Errors
    /// They are not a manifest, are damaged, or have impossible contents.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, FormatError> {
        let mut body = bytes::body(KIND, bytes)?;
        let mut manifest = Manifest {
            job: body.u64()?,
            number: CheckpointNumber(body.u64()?),
            heap_len: body.u64()?,
            seconds: body.u64()?,
            mode: body.text()?,
            program: body.text()?,
            entries: body.list(12, read)?,
            raw: if body.has_sizes() { Some(body.u64()?) } else { None },
            bases: match body.refers() {
                true => body.list(8, |body| Ok(CheckpointNumber(body.u64()?)))?,
                false => Vec::new(),
            },
            parity: match body.u8()? {
                0 => None,
                1 => Some(Parity { code: Code::read(&mut body)?, entries: body.list(12, read)? }),
                _ => return Err(FormatError::Impossible("where its files lie")),
            },
            pages: if body.places() { body.list(8, read_pages)? } else { Vec::new() },
        };
        let (places, refers) = (body.places(), body.refers());
        body.end()?;
        if places && manifest.bases.is_empty() {
            let own = manifest.bytes();
            manifest.raw = manifest.raw.filter(|&raw| raw != own);
        } else if refers {
            references::check(&manifest.bases, manifest.number)?;
        }
        if places && manifest.pages.len() != manifest.entries.len() {
            return Err(FormatError::Impossible("the pages of other PEs"));
        }
        let pes = (1..=PES_MAX).contains(&manifest.entries.len());
        if bytes.len() != bytes::frame_len(KIND, bytes)? {
            return Err(FormatError::Impossible("a manifest that goes on after its end"));
        }
        let fits = |parity: &Parity| {
            let pes = manifest.entries.len();
            parity.entries.len() == pes && parity.code.is_of(pes)
        };
        if !manifest.parity.as_ref().is_none_or(fits) {
            return Err(FormatError::Impossible("its parity"));
        }
        if manifest.raw.is_some_and(|raw| raw < manifest.bytes()) {
            return Err(FormatError::Impossible("files that are longer than what they hold"));
        }
        match pes && manifest.number.0 > 0 && manifest.heap_len <= HEAP_MAX {
            true => Ok(manifest),
            false => Err(FormatError::Impossible("its PEs, its checkpoint or its heap")),
        }
    }

    /// Returns the size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        let parity = self.parity.iter().flat_map(|parity| &parity.entries);
        self.entries.iter().chain(parity).fold(0, |sum, entry| sum.saturating_add(entry.len))
    }

    /// Returns the owner of a PE's files.
    pub fn owner(&self, pe: Pe) -> Owner {
        let Manifest { job, number, heap_len, .. } = *self;
        Owner { job, number, pe, n_pes: self.entries.len() as u32, heap_len }
    }

    /// Returns the entry of a PE's file.
    pub fn entry(&self, content: Content, pe: Pe) -> Option<Entry> {
        let entries = match content {
            Content::Data => &self.entries,
            Content::Parity => &self.parity.as_ref()?.entries,
        };
        entries.get(pe.at()).copied()
    }

    /// Names another file of a PE, if it names one.
    pub fn rename(&mut self, content: Content, pe: Pe, entry: Entry) {
        let entries = match content {
            Content::Data => Some(&mut self.entries),
            Content::Parity => self.parity.as_mut().map(|parity| &mut parity.entries),
        };
        let named = entries.and_then(|entries| entries.get_mut(pe.at()));
        named.into_iter().for_each(|it| *it = entry);
    }
}

fn write(entries: &[Entry], out: &mut Writer) {
    out.count(entries.len());
    for Entry { len, sum } in entries {
        out.u64(*len);
        out.u32(*sum);
    }
}

fn read(body: &mut Reader<'_>) -> Result<Entry, FormatError> {
    Ok(Entry { len: body.u64()?, sum: body.u32()? })
}

fn write_pages(pages: &PageRuns, out: &mut Writer) {
    out.count(pages.runs().len());
    for PageRun { first, pages, node } in pages.runs() {
        out.u64(*first);
        out.u64(*pages);
        out.u32(*node);
    }
}

fn read_pages(body: &mut Reader<'_>) -> Result<PageRuns, FormatError> {
    let run = |body: &mut Reader<'_>| {
        Ok(PageRun { first: body.u64()?, pages: body.u64()?, node: body.u32()? })
    };
    PageRuns::of(body.list(20, run)?).ok_or(FormatError::Impossible("runs of pages"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::nothing_else_is_taken;

    fn manifest() -> Manifest {
        Manifest {
            job: 5,
            number: CheckpointNumber(40),
            heap_len: 1 << 20,
            seconds: 1_700_000_000,
            mode: "raid5".into(),
            program: "jacobi 512".into(),
            entries: entries(),
            raw: None,
            bases: Vec::new(),
            parity: None,
            pages: Vec::new(),
        }
    }

    /// Pages of the third of four PEs.
    fn pages() -> Vec<PageRuns> {
        let run = |first, node| PageRun { first, pages: 7, node };
        let runs = PageRuns::of(vec![run(30, 0), run(37, 1)]).expect("they ascend");
        vec![PageRuns::default(), PageRuns::default(), runs, PageRuns::default()]
    }

    fn entries() -> Vec<Entry> {
        (1..5).map(|nth| Entry { len: 70_000 * nth, sum: nth as u32 }).collect()
    }

    fn with_parity() -> Manifest {
        let groups = vec![vec![Pe(0), Pe(3)], vec![Pe(2), Pe(1)]];
        let code = Code { scheme: "raid5".into(), parity: 1, groups };
        Manifest { parity: Some(Parity { code, entries: entries() }), ..manifest() }
    }

    #[test]
    fn a_manifest_survives_a_round_trip_and_nothing_else_is_accepted() {
        assert_eq!(manifest().bytes() * 2, with_parity().bytes());
        assert_eq!(manifest().bytes(), 700_000);
        let compressed = |of: Manifest| Manifest { raw: Some(2_000_000), ..of };
        let bases = vec![CheckpointNumber(20), CheckpointNumber(30)];
        let refers = Manifest { bases, ..compressed(with_parity()) };
        let places = |of: Manifest| Manifest { pages: pages(), ..of };
        let all = [
            manifest(),
            with_parity(),
            compressed(manifest()),
            compressed(with_parity()),
            refers.clone(),
            places(manifest()),
            places(compressed(with_parity())),
            places(refers),
        ];
        all.iter().for_each(is_read_back);
        assert_eq!(
            all.map(|it| (it.encode()[8], it.bytes() / 700_000)),
            [(3, 1), (3, 2), (4, 1), (4, 2), (5, 2), (6, 1), (6, 2), (6, 2)]
        );
    }

    fn is_read_back(manifest: &Manifest) {
        let mut bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(manifest));
        nothing_else_is_taken(bytes.clone(), Manifest::decode);
        bytes.push(0);
        assert!(Manifest::decode(&bytes).is_err(), "a byte more");
    }

    #[test]
    fn an_inconsistent_manifest_is_refused() {
        type Change = fn(&mut Manifest);
        fn code(manifest: &mut Manifest) -> &mut Code {
            &mut manifest.parity.as_mut().expect("it has one").code
        }
        let changes: [Change; 13] = [
            |manifest| manifest.number = CheckpointNumber::START,
            |manifest| manifest.heap_len = u64::MAX,
            |manifest| manifest.entries.clear(),
            |manifest| manifest.parity.as_mut().expect("it has one").entries.truncate(3),
            |manifest| code(manifest).groups[0].push(Pe(1)),
            |manifest| code(manifest).groups[0][1] = Pe(9),
            |manifest| code(manifest).groups[1].truncate(1),
            |manifest| code(manifest).parity = 2,
            |manifest| manifest.raw = Some(manifest.bytes() - 1),
            |manifest| manifest.bases = vec![manifest.number],
            |manifest| manifest.bases = [3, 2].map(CheckpointNumber).to_vec(),
            |manifest| manifest.bases = (1..9).map(CheckpointNumber).collect(),
            |manifest| manifest.pages = pages().split_off(1),
        ];
        for change in changes {
            let mut manifest = with_parity();
            change(&mut manifest);
            let refused = Manifest::decode(&manifest.encode());
            assert!(matches!(refused, Err(FormatError::Impossible(_))), "{refused:?}");
        }
    }
}
