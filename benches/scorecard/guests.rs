//! Transfers over soft-RoCE between emulated machines, compared in alternation with RDMA's own
//! tools in the same machines; and the rate of rebuilding a lost PE, compared with the link.
//!
//! Emulated processors do the work of a network card, so these figures show the overhead of the
//! engine over RDMA, not the cost of RDMA. Measured on request (`--guests`, or `--only guests`);
//! skipped with a conspicuous message if there is no emulator.
//!
//! Left out: real network cards.

use std::path::PathBuf;
use std::process::Command;

use super::figure::{Figure, ratios};
use super::image;
use super::machine::{Guest, Plan, address};
use super::programs::{Bench, Trouble, value};
use super::switch::Switch;

/// Options of every tool: the device, the identifier with an IPv4 address, any clock.
const TOOL: &str = "-d rxe0 -x 1 -F";
/// The tools count in MiB.
const MIB: f64 = 1.048576;
/// MiB per PE that are saved, lost and rebuilt.
const LIVE_MIB: u32 = 32;

/// Three guests: two with PEs, and one with a spare.
struct Guests {
    guests: [Guest; 3],
    /// Tool servers started so far; each has its own port.
    servers: u16,
    _switch: Switch,
    oshrun: PathBuf,
    network: PathBuf,
    checkpoint: PathBuf,
}

impl Guests {
    fn boot(bench: &Bench) -> Result<Guests, Trouble> {
        let oshrun = bench.tool("oshrun");
        let portable = |source| bench.compile_portable(source);
        let (network, checkpoint) =
            (portable("benches/network.c")?, portable("benches/checkpoint.c")?);
        let payload = image::add("scorecard", &[&oshrun, &network, &checkpoint]);
        let switch = Switch::new();
        let mut guests = [1, 2, 3].map(|number| Plan::new(number).with(&payload).boot(&switch));
        guests.iter_mut().for_each(Guest::ready);
        Ok(Guests { guests, servers: 0, _switch: switch, oshrun, network, checkpoint })
    }

    /// Returns a number from a tool's table: the row of this size, the given column. The last guest
    /// is the client.
    fn tool(&mut self, tool: &str, words: &str, bytes: u32, column: usize) -> Result<f64, Trouble> {
        let [server, .., client] = &mut self.guests;
        self.servers += 1;
        let port = 18_515 + self.servers;
        let line = format!("{tool} {TOOL} {words} -s {bytes} -p {port}");
        said(server, &format!("{line} > /tmp/server 2>&1 &"))?;
        let listens = format!("netstat -ltn | grep -q :{port}");
        said(server, &format!("for i in $(seq 400); do {listens} && break; usleep 50000; done"))?;
        let text = said(client, &format!("{line} {}", address(1)))?;
        let rows = text.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row.first() == Some(&&*bytes.to_string()));
        let cell = row.and_then(|row| row.get(column)?.parse().ok());
        cell.ok_or_else(|| Trouble::new(format!("{line}: no row for {bytes} bytes in {text}")))
    }

    /// Runs a job over verbs, on the hosts with these numbers.
    fn job(&mut self, settings: &str, words: &str, program: &str) -> Result<String, Trouble> {
        let oshrun = self.oshrun.display();
        let net = "--launch-agent 'on {host}' --fabric verbs";
        let line = format!("{settings} {oshrun} -n 2 {net} {words} {program}");
        said(&mut self.guests[0], &line)
    }
}

fn said(guest: &mut Guest, line: &str) -> Result<String, Trouble> {
    let outcome = guest.run(line);
    match outcome.status {
        0 => Ok(outcome.text),
        _ => Err(Trouble::new(format!("in a guest: {line}: {outcome}"))),
    }
}

fn hosts(numbers: &[u8]) -> String {
    let all: Vec<String> = numbers.iter().map(|&number| address(number)).collect();
    format!("--hosts {}", all.join(","))
}

/// Rounds of each line, ours and the tool's.
#[derive(Default)]
struct Pair {
    ours: Vec<f64>,
    raw: Vec<f64>,
}

impl Pair {
    fn push(&mut self, ours: f64, raw: f64) {
        eprintln!("scorecard: guests: {ours:.1}, raw {raw:.1}");
        self.ours.push(ours);
        self.raw.push(raw);
    }

    fn ratios(&self) -> Vec<f64> {
        ratios(&self.ours, &self.raw)
    }
}

pub fn figures(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let emulator = Command::new("qemu-system-x86_64").arg("--version").output();
    if !emulator.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "scorecard: guests: SKIPPED: no qemu-system-x86_64 (.ci/setup nodes installs it)"
        );
        return Ok(Vec::new());
    }
    let mut guests = Guests::boot(bench)?;
    let mut figures = transfers(bench, &mut guests)?;
    figures.extend(losses(bench, &mut guests)?);
    Ok(figures)
}

/// Measures small and large puts and gets between two guests.
fn transfers(bench: &Bench, guests: &mut Guests) -> Result<Vec<Figure>, Trouble> {
    let [mut put, mut get, mut puts, mut gets] = <[Pair; 4]>::default();
    let (few, many, large) = ("-n 20", "-n 200", 1 << 20);
    for _ in 0..bench.rounds() {
        let settings = "SHMEM_SYMMETRIC_SIZE=8M SHMEM_FT_BACKUP_MODE=none";
        let program = format!("{} 200", guests.network.display());
        let text = guests.job(settings, &hosts(&[1, 3]), &program)?;
        put.push(value(&text, "put_half_ns")? / 1e3, guests.tool("ib_write_lat", many, 8, 4)?);
        get.push(value(&text, "get_ns")? / 1e3, guests.tool("ib_read_lat", many, 8, 4)?);
        puts.push(value(&text, "put_mb_s")? / MIB, guests.tool("ib_write_bw", few, large, 3)?);
        gets.push(value(&text, "get_mb_s")? / MIB, guests.tool("ib_read_bw", few, large, 3)?);
    }
    let line = |name: &str| format!("verbs, {name}");
    Ok(vec![
        Figure::at_most(
            &line("8-byte put, half a round trip / tool"),
            1.2,
            &put.ratios(),
            "ib_write_lat",
        ),
        Figure::at_most(&line("8-byte get / tool"), 1.2, &get.ratios(), "ib_read_lat"),
        Figure::at_least(&line("1 MiB put, bandwidth / tool"), 0.9, &puts.ratios(), "ib_write_bw"),
        Figure::at_least(&line("1 MiB get, bandwidth / tool"), 0.9, &gets.ratios(), "ib_read_bw"),
    ])
}

/// Measures a checkpoint, in which each PE reads all data of the other; and the loss of a node
/// whose PE the spare on a third guest rebuilds from the other.
fn losses(bench: &Bench, guests: &mut Guests) -> Result<Vec<Figure>, Trouble> {
    let (mut saves, mut rebuilt) = (Pair::default(), Pair::default());
    let settings = "SHMEM_SYMMETRIC_SIZE=64M SHMEM_FT_BACKUP_MODE=raid5 SHMEM_FT_REPORT=1";
    let (few, tile) = ("-n 200", 1 << 16);
    for _ in 0..bench.rounds() {
        let program = guests.checkpoint.display().to_string();
        let save = format!("{program} save {LIVE_MIB} 3");
        let text = guests.job(settings, &hosts(&[1, 3]), &save)?;
        let rate = 2e3 * f64::from(LIVE_MIB) / value(&text, "checkpoint_ms")?;
        saves.push(rate, guests.tool("ib_read_bw", &format!("{few} -b"), tile, 3)?);
        let lose = format!("{program} lose {LIVE_MIB} node");
        let words = format!("{} --spares 1 --kill-node 1@2", hosts(&[1, 2, 3]));
        let text = guests.job(settings, &words, &lose)?;
        rebuilt.push(rate_of_rebuild(&text)?, guests.tool("ib_read_bw", few, tile, 3)?);
    }
    let saved = "verbs, raid5 of 2, bytes read / tool both ways";
    let back = "verbs, rebuild of a PE, bytes read / tool";
    Ok(vec![
        Figure::at_least(saved, 0.8, &saves.ratios(), "ib_read_bw -b"),
        Figure::at_least(back, 0.8, &rebuilt.ratios(), "ib_read_bw"),
    ])
}

/// Parses MiB per second from the launcher's line about the rebuilt PE.
fn rate_of_rebuild(text: &str) -> Result<f64, Trouble> {
    let rate = |line: &str| {
        let millis = super::programs::millis_of_rebuild(line)?;
        let (mib, _) = line.split_once(" MiB of checkpoint ")?;
        Some(mib.rsplit(' ').next()?.parse::<f64>().ok()? * 1e3 / millis)
    };
    let found = text.lines().find_map(rate);
    found.ok_or_else(|| Trouble::new(format!("no PE was rebuilt: {text}")))
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let line = "raidshmem: PE 1: 8.0 MiB of checkpoint 2 rebuilt from PE 0 in 400.0 ms";
    assert!(rate_of_rebuild(line).is_ok_and(|rate| (rate - 20.0).abs() < 1e-9));
    assert!(rate_of_rebuild("all PEs resume").is_err());
    assert_eq!(hosts(&[1, 3]), "--hosts 10.77.0.1,10.77.0.3");
}
