//! Small operations, barriers, reductions, large transfers and a sort, compared with Open MPI's
//! OpenSHMEM: the same source built by both wrappers, in alternation.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Figure, ratios};
use super::peer::Peer;
use super::programs::{Bench, Trouble, output, value};

const LATENCY: &str = "benches/peers/osh_latency.c";
const SORT: &str = "benches/peers/sort.c";
const PEER: &str = "Open MPI OSHMEM";

struct Sides {
    ours: PathBuf,
    peer: Peer,
    theirs: PathBuf,
}

impl Sides {
    fn new(bench: &Bench, source: &str, theirs: &str) -> Result<Sides, Trouble> {
        let peer = Peer::find()?;
        let theirs = peer.compile(bench, source, theirs)?;
        Ok(Sides { ours: bench.compile(source)?, peer, theirs })
    }

    fn theirs(&self, pes: usize, words: &[&str]) -> Result<String, Trouble> {
        output(self.peer.job(&[], pes, &self.theirs).args(words))
    }
}

/// The outputs of this library and its peer, round by round.
struct Rounds(Vec<(String, String)>);

impl Rounds {
    fn measure(bench: &Bench, sides: &Sides, pes: usize) -> Result<Rounds, Trouble> {
        let words: &[&str] = if bench.quick { &["quick"] } else { &[] };
        let round = |_| {
            let ours = bench.job(pes, &[], &[], &sides.ours, words)?;
            Ok((ours, sides.theirs(pes, words)?))
        };
        (0..bench.rounds()).map(round).collect::<Result<_, _>>().map(Rounds)
    }

    /// Returns ours relative to theirs, for the line `name`.
    fn ratio(&self, name: &str) -> Result<Vec<f64>, Trouble> {
        let ours = self.0.iter().map(|(ours, _)| value(ours, name));
        let theirs = self.0.iter().map(|(_, theirs)| value(theirs, name));
        Ok(ratios(&ours.collect::<Result<Vec<_>, _>>()?, &theirs.collect::<Result<Vec<_>, _>>()?))
    }

    /// Returns ours relative to another line of ours.
    fn own_ratio(&self, name: &str, of: &str) -> Result<Vec<f64>, Trouble> {
        let pair = |(ours, _): &(String, String)| Ok(value(ours, name)? / value(ours, of)?);
        self.0.iter().map(pair).collect()
    }
}

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let sides = Sides::new(bench, LATENCY, "osh_latency_peer")?;
    let two = Rounds::measure(bench, &sides, 2)?;
    let time = |name: &str, line: &str, goal: f64| {
        let name = format!("{name}, time / Open MPI");
        Ok(Figure::at_most(&name, goal, &two.ratio(line)?, PEER))
    };
    let mut figures = vec![
        time("8-byte put and quiet", "put_8_ns", 0.4)?,
        time("8-byte get", "get_8_ns", 0.4)?,
        time("8-byte fetch-add", "fetch_add_ns", 0.8)?,
        time("64 puts of 4 KiB and quiet", "put_4K_ns", 1.0)?,
    ];
    let limit = ratios_of_raw(bench, &two)?;
    figures.push(time("put ping-pong, half", "ping_pong_half_ns", 0.8)?.with_limit(limit));
    for pes in [2, 4, 8] {
        let more = if pes == 2 { None } else { Some(Rounds::measure(bench, &sides, pes)?) };
        let rounds = more.as_ref().unwrap_or(&two);
        let calls = [
            ("barrier_all", "barrier", 0.8),
            ("reduce of 4 KiB", "reduce_4K", 1.0),
            ("reduce of 8 bytes", "reduce_8", 0.8),
            ("broadcast of 8 bytes", "broadcast_8", 0.8),
        ];
        for (call, line, goal) in calls {
            let name = format!("{call}, {pes} PEs, time / Open MPI");
            let ratios = rounds.ratio(&format!("{line}_{pes}_ns"))?;
            figures.push(Figure::at_most(&name, goal, &ratios, PEER));
        }
    }
    for (name, line) in [("1 MiB put", "put_1M_mb_s"), ("1 MiB get", "get_1M_mb_s")] {
        let of_peer = format!("{name}, bandwidth / Open MPI");
        figures.push(Figure::at_least(&of_peer, 1.0, &two.ratio(line)?, PEER));
        let of_copy = format!("{name}, bandwidth / memcpy");
        let rounds = two.own_ratio(line, "memcpy_1M_mb_s")?;
        figures.push(Figure::at_least(&of_copy, 0.95, &rounds, "memcpy in the same process"));
    }
    let sides = Sides::new(bench, SORT, "sort_peer")?;
    for pes in [2, 4] {
        let ratios = Rounds::measure(bench, &sides, pes)?.ratio(&format!("sort_{pes}_ns"))?;
        let name = format!("sort as ISx does, {pes} PEs, time / Open MPI");
        figures.push(Figure::at_most(&name, 1.0, &ratios, PEER));
    }
    Ok(figures)
}

/// Returns the time of half a round trip of one word on the bare machine, relative to the peer's.
fn ratios_of_raw(bench: &Bench, two: &Rounds) -> Result<f64, Trouble> {
    let program = bench.compile_with(Path::new("cc"), "benches/peers/raw_ping_pong.c", "raw")?;
    let raw = value(&output(&mut Command::new(program))?, "raw_half_ns")?;
    let theirs = two.0.iter().map(|(_, theirs)| value(theirs, "ping_pong_half_ns"));
    let theirs = theirs.collect::<Result<Vec<_>, _>>()?;
    Ok(raw / super::figure::median(&theirs))
}
