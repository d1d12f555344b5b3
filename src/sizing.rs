//! The command line of `oshinfo plan`.

#![forbid(unsafe_code)]

use clap::{CommandFactory, Parser};
use raidshmem_core::settings::units::parse_size;
use raidshmem_core::sizing::lost_node::AfterLoss;
use raidshmem_core::sizing::report::Report;
use raidshmem_core::sizing::second::SecondLevel;
use raidshmem_core::sizing::{Candidate, Choice, SizingInput, choose};
use raidshmem_core::view::PES_MAX;
use serde_json::{Map, Value, json};

/// Recommends mode, group, parity and interval for a job.
#[derive(Debug, Parser)]
#[command(name = "oshinfo plan", max_term_width = 100)]
#[command(after_help = "Example:\n  oshinfo plan --heap 32G --pes 4096 --nodes 128 --mtbf 6h \
                        --link 25GB/s")]
struct Args {
    /// Live symmetric memory of each PE, with an optional suffix K, M, G or T.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    heap: f64,
    /// PEs of the job.
    #[arg(long, value_name = "N", value_parser = count)]
    pes: u64,
    /// Nodes of the job.
    #[arg(long, value_name = "N", value_parser = count)]
    nodes: u64,
    /// Time between two losses of nodes of the job, on average: 90s, 30m, 6h, 2d, 1y.
    #[arg(long, value_name = "TIME", value_parser = time)]
    mtbf: f64,
    /// Rate of a node's link: 25GB/s, 200Gbit/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    link: f64,
    /// Rate at which the PEs of a node together copy memory; measured here if it is left out.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    copy: Option<f64>,
    /// Time until a lost node is declared lost.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    detection: f64,
    /// Memory of a node.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    memory: Option<f64>,
    /// Accepted chance, in per cent, that the job is lost within 30 days.
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    risk: f64,
    /// Rate at which a node writes to the disk of SHMEM_FT_STORE, to which a job falls back when
    /// more is lost than the parity.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    disk: Option<f64>,
    /// Print JSON, as docs/schema/plan.json describes it.
    #[arg(long)]
    json: bool,
}

/// Returns the description of the options.
pub fn command() -> clap::Command {
    Args::command()
}

fn count(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|n| (2..=PES_MAX as u64).contains(n));
    number.ok_or_else(|| format!("expected 2 to {PES_MAX}"))
}

/// Returns a positive number and the letters after it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    (number > 0.0 && number.is_finite()).then_some((number, &text[end..]))
}

fn size(text: &str) -> Result<f64, String> {
    let bytes = parse_size(text).filter(|&bytes| bytes > 0);
    bytes.map(|b| b as f64).ok_or_else(|| "expected bytes, such as 512M or 32G".into())
}

fn time(text: &str) -> Result<f64, String> {
    let unit = |unit| match unit {
        "s" | "" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        "y" => Some(365.25 * 86_400.0),
        _ => None,
    };
    let seconds = split(text).and_then(|(number, rest)| Some(number * unit(rest)?));
    seconds.ok_or_else(|| "expected a time, such as 90s, 30m, 6h, 2d or 1y".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let scale = |letter| match letter {
        'K' | 'k' => Some(1e3),
        'M' => Some(1e6),
        'G' => Some(1e9),
        'T' => Some(1e12),
        _ => None,
    };
    let parsed = split(text).and_then(|(number, rest)| {
        let mut rest = rest.chars();
        let scale = scale(rest.next()?)?;
        let bytes = match rest.as_str() {
            "B/s" => 1.0,
            "bit/s" | "b/s" => 0.125,
            _ => return None,
        };
        Some(number * scale * bytes)
    });
    parsed.ok_or_else(|| "expected a rate, such as 25GB/s or 200Gbit/s".into())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
    number.map(|p| p / 100.0).ok_or_else(|| "expected 0 to 100".into())
}

/// Returns the answer to the arguments of `oshinfo plan`; calls `measured` for the rate of a copy
/// if that is not given.
///
/// # Errors
/// An error of clap about the arguments; a request for help counts as one.
pub fn answer(
    words: impl Iterator<Item = String>,
    measured: impl FnOnce() -> f64,
) -> Result<String, clap::Error> {
    let args = Args::try_parse_from(std::iter::once("oshinfo plan".to_owned()).chain(words))?;
    if args.nodes > args.pes {
        let words =
            format!("--nodes {}: expected 2 to {}, the number of PEs", args.nodes, args.pes);
        return Err(clap::Error::raw(clap::error::ErrorKind::ValueValidation, words + "\n"));
    }
    let site = SizingInput {
        live: args.heap,
        pes: args.pes as usize,
        nodes: args.nodes as usize,
        mtbf: args.mtbf,
        link: args.link,
        copy: args.copy.unwrap_or_else(measured),
        detection: args.detection,
        memory: args.memory,
        risk: args.risk,
        disk: args.disk,
    };
    let choice = choose(&site);
    Ok(match args.json {
        true => format!("{:#}\n", in_json(&site, &choice)),
        false => Report(&site, &choice).to_string(),
    })
}

/// Returns a choice as JSON. Times are in seconds, sizes in bytes, rates in bytes per second.
fn in_json(site: &SizingInput, choice: &Choice) -> Value {
    let best = choice.best.map(|best| &choice.candidates[best]);
    let settings = |best: &Candidate| {
        let settings = best.settings().into_iter();
        settings.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Map<_, _>>()
    };
    json!({
        "raidshmem_plan": 1,
        "job": {
            "live": site.live,
            "pes": site.pes,
            "nodes": site.nodes,
            "mtbf": site.mtbf,
            "link": site.link,
            "copy": site.copy,
            "detection": site.detection,
            "memory": site.memory,
            "risk": site.risk,
            "disk": site.disk,
        },
        "candidates": choice.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "best": choice.best,
        "safe": choice.safe,
        "settings": best.map(settings),
        "after_loss": best.and_then(|best| AfterLoss::of(site, best)).map(after_loss),
        "second_level": best.and_then(|best| SecondLevel::of(site, best)).map(second_level),
    })
}

fn after_loss(after: AfterLoss) -> Value {
    let AfterLoss { group, memory, crowd, survives } = after;
    json!({ "group": group, "memory": memory, "crowd": crowd, "survives": survives })
}

fn second_level(level: SecondLevel) -> Value {
    let SecondLevel { write, interval, falls, cost } = level;
    json!({ "write": write, "interval": interval, "falls": falls, "cost": cost })
}

fn candidate(candidate: &Candidate) -> Value {
    let Candidate { mode, size: _, group, parity, memory, .. } = candidate;
    json!({
        "mode": mode.name(),
        "group": group,
        "parity": parity,
        "memory": memory,
        "checkpoint": candidate.checkpoint,
        "recovery": candidate.recovery,
        "interval": candidate.interval,
        "lost": candidate.lost,
        "unrecoverable": candidate.chance,
        "possible": candidate.possible,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!([time("90s"), time("6h"), time("0.5d")], [Ok(90.0), Ok(21600.0), Ok(43200.0)]);
        assert_eq!([rate("25GB/s"), rate("200Gbit/s")], [Ok(25e9), Ok(25e9)]);
        assert_eq!((size("32G"), percent("1")), (Ok((32u64 << 30) as f64), Ok(0.01)));
        for text in ["", "h", "-1h", "6w", "1e3s", "0s"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["", "25", "25GB", "GB/s", "25XB/s", "0GB/s", "\u{e9}B/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(size("0").is_err() && percent("101").is_err() && percent("nan").is_err());
    }

    #[test]
    fn wrong_words_are_refused_with_what_is_expected() {
        let ask = |words: &str| answer(words.split(' ').map(str::to_owned), || 1e10);
        let refusal = |words: String| ask(&words).unwrap_err().to_string();
        let good = "--heap 1G --pes 64 --nodes 8 --mtbf 6h --link 25GB/s";
        assert!(ask(good).unwrap().contains("SHMEM_FT_BACKUP_MODE="));
        assert!(!ask(good).unwrap().contains("SHMEM_FT_STORE"));
        let disk = ask(&format!("{good} --disk 1GB/s")).unwrap();
        assert!(disk.contains("8.6 s to write a set"), "{disk}");
        assert!(refusal(good.replace("6h", "6w")).contains("expected a time"));
        assert!(refusal(good.replace("nodes 8", "nodes 65")).contains("expected 2 to 64"));
        assert!(refusal(good.replace("nodes 8", "nodes 1")).contains("expected 2 to 16384"));
    }
}
