//! The layout of a group: the parity that protects each chunk of each member, and its holders.
//!
//! Each of the `g` members of a group cuts its snapshot into [`Layout::chunks`] chunks of one
//! length. A [`Stripe`] is a set of chunks of *different* members together with the parity over
//! them, held by members that have no data in that stripe. In the maps below a row is a stripe, a
//! column a member, `c2` the member's chunk 2, `P0` parity row 0, `.` nothing.
//!
//! [`Scheme::Raid5`] and [`Scheme::Rs`] with `m` parities: stripe `s` has parity row `p` on
//! member `(s + p) mod g` and one chunk of every other member. Member `j` contributes its chunk
//! `(s - j - 1) mod g`, at position `(j - s - m) mod g` of the data; its chunk `c` is in stripe
//! `(j + 1 + c) mod g`. Every member holds one chunk of each parity row: slot `p` is row `p`.
//!
//! Raid5, 4 members:
//!
//! ```text
//!      m0   m1   m2   m3
//! s0   P0   c2   c1   c0
//! s1   c0   P0   c2   c1
//! s2   c1   c0   P0   c2
//! s3   c2   c1   c0   P0
//! ```
//!
//! Rs with 2 parities, 5 members:
//!
//! ```text
//!      m0   m1   m2   m3   m4
//! s0   P0   P1   c2   c1   c0
//! s1   c0   P0   P1   c2   c1
//! s2   c1   c0   P0   P1   c2
//! s3   c2   c1   c0   P0   P1
//! s4   P1   c2   c1   c0   P0
//! ```
//!
//! [`Scheme::Raid4`]: one chunk, the whole snapshot. The last member holds the parity of all
//! others; its own snapshot is copied to member 0. With 4 members:
//!
//! ```text
//!      m0   m1   m2   m3
//! s0   c0   c0   c0   P0
//! s1   P0   .    .    c0
//! ```
//!
//! [`Scheme::Mirror`]: one chunk, copied to the next member. With 4 members:
//!
//! ```text
//!      m0   m1   m2   m3
//! s0   c0   P0   .    .
//! s1   .    c0   P0   .
//! s2   .    .    c0   P0
//! s3   P0   .    .    c0
//! ```
//!
//! Invariants: every chunk of every member is in exactly one stripe; no member appears twice in a
//! stripe; so the loss of any [`Layout::parity`] members costs no stripe more shards than it has
//! parity. (A mirror survives more losses than one if no two of them are neighbours; `parity` is
//! the number it survives regardless of which members are lost.)
//!
//! Left out: bytes, and which process or machine a member is. Members are numbers `0..g`.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// Maximum number of members in a group.
pub const MAX_MEMBERS: usize = 64;

/// The layout of copies or parity of a group's snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A copy of each snapshot on the next member.
    Mirror,
    /// The XOR of all snapshots but the last, on the last member; the last is copied to the first.
    Raid4,
    /// XOR parity spread over all members: the layout of `Rs { parity: 1 }`.
    Raid5,
    /// Reed-Solomon parity spread over all members.
    Rs {
        /// Parity chunks per stripe, `1..g`: the losses survived.
        parity: usize,
    },
}

/// Declares the names of all schemes.
macro_rules! schemes {
    ($($name:literal $scheme:ident $({ $field:ident })?;)*) => {
        impl Scheme {
            /// Returns every scheme; those with any number of parities, with this one.
            pub fn all(parity: usize) -> impl Iterator<Item = Scheme> {
                [$(Scheme::$scheme $({ $field: parity })?),*].into_iter()
            }

            /// Returns the name of the scheme in files. Each way to place chunks has a name of its
            /// own, so that an older file is not decoded by another one.
            pub fn name(self) -> &'static str {
                match self {
                    $(Scheme::$scheme $({ $field: _ })? => $name,)*
                }
            }
        }
    };
}

schemes! {
    "mirror" Mirror;
    "raid4" Raid4;
    "raid5" Raid5;
    "rs" Rs { parity };
}

impl Scheme {
    /// Returns the parity chunks per stripe, `m`: the number of lost members survived.
    pub fn parity(self) -> usize {
        match self {
            Scheme::Mirror | Scheme::Raid4 | Scheme::Raid5 => 1,
            Scheme::Rs { parity } => parity,
        }
    }
}

/// One set of chunks and the parity over them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    /// The data chunks, in code order: the one at index `i` is shard `i`.
    pub data: Vec<Data>,
    /// The parity chunks, by row: the one at index `r` is shard `data.len() + r`.
    pub parity: Vec<ParityAt>,
}

impl Stripe {
    /// Returns the member holding each shard: data in code order, then parity by row.
    pub fn holders(&self) -> impl Iterator<Item = usize> + '_ {
        self.data.iter().map(|d| d.member).chain(self.parity.iter().map(|p| p.member))
    }

    /// Returns a loss flag per shard, set if `gone` returns true for its member: the argument of
    /// [`Code::plan`](crate::code::Code::plan).
    pub fn lost(&self, gone: impl Fn(usize) -> bool) -> Vec<bool> {
        self.holders().map(gone).collect()
    }
}

/// A data chunk of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Data {
    /// The member whose snapshot it is part of.
    pub member: usize,
    /// The index of the chunk within the member's snapshot.
    pub chunk: usize,
}

/// The location of a parity chunk of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParityAt {
    /// The member holding it.
    pub member: usize,
    /// Its index in [`Layout::parities_of`] that member.
    pub slot: usize,
}

/// The parity chunk in a slot of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parity {
    /// Its stripe, an index into [`Layout::stripes`].
    pub stripe: usize,
    /// Its parity row in that stripe.
    pub row: usize,
}

/// The location of a chunk in its stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its stripe, an index into [`Layout::stripes`].
    pub stripe: usize,
    /// Its index in [`Stripe::data`].
    pub index: usize,
}

/// The layout of one group. All tables are built by [`Layout::new`]; clones share them. Its
/// [`Display`](fmt::Display) form is the map shown in the [module](self) doc.
#[derive(Debug, Clone)]
pub struct Layout {
    tables: Arc<Tables>,
}

#[derive(Debug)]
struct Tables {
    members: usize,
    chunks: usize,
    parity: usize,
    stripes: Vec<Stripe>,
    /// Member after member, `chunks` entries each.
    places: Vec<Place>,
    /// Per member, by slot.
    parities: Vec<Vec<Parity>>,
}

impl Layout {
    /// Creates the layout of `scheme` over `members` members.
    ///
    /// # Errors
    /// [`Error::TooFewMembers`] below 2, [`Error::TooManyMembers`] above [`MAX_MEMBERS`],
    /// [`Error::TooFewParities`] for `Rs { parity: 0 }`, [`Error::TooManyParities`] unless there
    /// are more members than parities.
    pub fn new(scheme: Scheme, members: usize) -> Result<Layout, Error> {
        let parity = scheme.parity();
        check(members, parity)?;
        let (chunks, stripes) = match scheme {
            Scheme::Mirror => (1, mirror(members)),
            Scheme::Raid4 => (1, raid4(members)),
            Scheme::Raid5 | Scheme::Rs { .. } => (members - parity, rotated(members, parity)),
        };
        let places = places(&stripes, members, chunks);
        let parities = parities(&stripes, members);
        let tables = Tables { members, chunks, parity, stripes, places, parities };
        Ok(Layout { tables: Arc::new(tables) })
    }

    /// Returns the members of the group, `g`.
    pub fn members(&self) -> usize {
        self.tables.members
    }

    /// Returns the chunks per snapshot: `g - m` for raid5 and rs, else 1.
    pub fn chunks(&self) -> usize {
        self.tables.chunks
    }

    /// Returns the parity chunks of each stripe, `m`: losses survived.
    pub fn parity(&self) -> usize {
        self.tables.parity
    }

    /// Returns all stripes.
    pub fn stripes(&self) -> &[Stripe] {
        &self.tables.stripes
    }

    /// Returns the place of chunk `chunk` of `member`: the inverse of [`Stripe::data`].
    ///
    /// # Panics
    /// If the member or the chunk does not exist.
    pub fn place_of(&self, member: usize, chunk: usize) -> Place {
        let chunks = self.chunks();
        assert!(chunk < chunks, "chunk {chunk} of {chunks}");
        self.tables.places[member * chunks + chunk]
    }

    /// Returns the parity chunks that `member` holds, by slot. Raid5 and rs: `m`, slot `p` being
    /// row `p`; mirror: 1; raid4: 1 on the first and last member, none elsewhere.
    ///
    /// # Panics
    /// If the member does not exist.
    pub fn parities_of(&self, member: usize) -> &[Parity] {
        &self.tables.parities[member]
    }

    /// Returns the bytes of a chunk of a snapshot of `snapshot_len` bytes: an equal share, rounded
    /// up to whole tiles of `tile_len` bytes (0 counts as 1). So the last chunks of a snapshot may
    /// be partly or wholly past its end; those bytes count as zeros. Exact for lengths and tiles
    /// that memory can hold (at most `isize::MAX`); beyond, the sum may overflow.
    pub fn chunk_len(&self, snapshot_len: usize, tile_len: usize) -> usize {
        snapshot_len.div_ceil(self.chunks()).next_multiple_of(tile_len.max(1))
    }

    /// Returns the bytes of one parity slot of `member` when chunks are `chunk_len` bytes:
    /// `chunk_len`, or 0 if the member holds no parity.
    ///
    /// # Panics
    /// If the member does not exist.
    pub fn slot_len(&self, member: usize, chunk_len: usize) -> usize {
        if self.parities_of(member).is_empty() { 0 } else { chunk_len }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = (0..self.members()).map(|member| format!("m{member}"));
        f.write_str(&line("", names))?;
        for (s, stripe) in self.stripes().iter().enumerate() {
            let mut cells = vec![String::from("."); self.members()];
            for data in &stripe.data {
                cells[data.member] = format!("c{}", data.chunk);
            }
            for (row, parity) in stripe.parity.iter().enumerate() {
                cells[parity.member] = format!("P{row}");
            }
            f.write_str(&line(&format!("s{s}"), cells.into_iter()))?;
        }
        Ok(())
    }
}

/// Formats one line of the map: cells in columns, no trailing blanks.
fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    let text = cells.fold(format!("{name:<5}"), |text, cell| text + &format!("{cell:<5}"));
    format!("{}\n", text.trim_end())
}

fn check(members: usize, parity: usize) -> Result<(), Error> {
    if members < 2 {
        return Err(Error::TooFewMembers { expected: 2, got: members });
    }
    if members > MAX_MEMBERS {
        return Err(Error::TooManyMembers { expected: MAX_MEMBERS, got: members });
    }
    if parity == 0 {
        return Err(Error::TooFewParities { expected: 1, got: parity });
    }
    if parity >= members {
        return Err(Error::TooManyParities { expected: members - 1, got: parity });
    }
    Ok(())
}

fn mirror(g: usize) -> Vec<Stripe> {
    (0..g).map(|s| whole(s..s + 1, (s + 1) % g)).collect()
}

fn raid4(g: usize) -> Vec<Stripe> {
    vec![whole(0..g - 1, g - 1), whole(g - 1..g, 0)]
}

/// Returns a stripe of whole snapshots with its one parity in the only slot of member `holder`.
fn whole(members: std::ops::Range<usize>, holder: usize) -> Stripe {
    Stripe {
        data: members.map(|member| Data { member, chunk: 0 }).collect(),
        parity: vec![ParityAt { member: holder, slot: 0 }],
    }
}

fn rotated(g: usize, m: usize) -> Vec<Stripe> {
    let stripe = |s: usize| Stripe {
        data: (s + m..s + g).map(|at| Data { member: at % g, chunk: s + g - 1 - at }).collect(),
        parity: (0..m).map(|row| ParityAt { member: (s + row) % g, slot: row }).collect(),
    };
    (0..g).map(stripe).collect()
}

fn places(stripes: &[Stripe], members: usize, chunks: usize) -> Vec<Place> {
    let mut places = vec![Place { stripe: 0, index: 0 }; members * chunks];
    for (stripe, s) in stripes.iter().enumerate() {
        for (index, data) in s.data.iter().enumerate() {
            places[data.member * chunks + data.chunk] = Place { stripe, index };
        }
    }
    places
}

fn parities(stripes: &[Stripe], members: usize) -> Vec<Vec<Parity>> {
    let mut slots = vec![Vec::new(); members];
    for (stripe, s) in stripes.iter().enumerate() {
        for (row, at) in s.parity.iter().enumerate() {
            slots[at.member].push((at.slot, Parity { stripe, row }));
        }
    }
    slots
        .into_iter()
        .map(|mut held| {
            held.sort_unstable_by_key(|&(slot, _)| slot);
            held.into_iter().map(|(_, parity)| parity).collect()
        })
        .collect()
}
