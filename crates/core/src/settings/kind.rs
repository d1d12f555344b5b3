//! The kinds of value that a setting may have: what parses and bounds them, and says so.
//!
//! Invariant: [`Kind::allowed`] is the text of both the error message and the documentation, so the
//! two cannot differ.

use super::units::{KIB, parse_count, parse_seconds, parse_size, show_seconds, show_size};
use super::values::{Device, Every};
use crate::inject::{self, Point, Rule};

/// What a setting's value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these words, in lower case.
    Choice(&'static [&'static str]),
    /// A whole number.
    Count {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// Bytes, whole or decimal, with an optional suffix K, M, G or T (powers of 1024), rounded
    /// up; characters after the suffix are ignored (OpenSHMEM 1.5, section 8).
    Size {
        /// Smallest allowed, in bytes.
        min: u64,
        /// Largest allowed, in bytes.
        max: u64,
    },
    /// Seconds, whole or decimal, to the millisecond.
    Seconds {
        /// Smallest allowed, in milliseconds.
        min: u64,
        /// Largest allowed, in milliseconds.
        max: u64,
    },
    /// A [`Kind::Seconds`] from 0, or `auto`.
    Interval {
        /// Largest allowed, in milliseconds.
        max: u64,
    },
    /// A [`Kind::Size`] of at least one tile a second, or `off`, which is 0.
    Rate {
        /// Largest allowed, in bytes a second.
        max: u64,
    },
    /// A whole number from 1, or `auto`, which is 0.
    Share {
        /// Largest allowed.
        max: u64,
    },
    /// `1` for on or `0` for off.
    Switch,
    /// On if set at all, whatever the value (OpenSHMEM 1.5, section 8).
    Flag,
    /// Fault injection rules, see [`crate::inject`].
    Rules,
    /// A path of a file.
    File,
    /// A path of a folder.
    Folder,
    /// A whole number of checkpoints from 1, or seconds with an `s` behind them.
    Every {
        /// Largest allowed: checkpoints, or milliseconds.
        max: u64,
    },
    /// A device for RDMA, and perhaps its port.
    Device,
}

/// A parsed value; which variant it is follows from the [`Kind`].
pub(super) enum Value {
    Choice(usize),
    Number(u64),
    Auto,
    On(bool),
    Rules(Vec<Rule>),
    File(String),
    Every(Every),
    Device(Device),
}

impl Kind {
    /// The word for the kind in documentation.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Choice(_) => "word",
            Kind::Count { .. } => "number",
            Kind::Size { .. } => "size",
            Kind::Seconds { .. } => "seconds",
            Kind::Interval { .. } => "interval",
            Kind::Rate { .. } => "rate",
            Kind::Share { .. } => "share",
            Kind::Switch => "switch",
            Kind::Flag => "flag",
            Kind::Rules => "rules",
            Kind::File => "file",
            Kind::Folder => "folder",
            Kind::Every { .. } => "every",
            Kind::Device => "device",
        }
    }

    /// What is allowed, as documentation and error messages print it.
    pub fn allowed(&self) -> String {
        match self {
            Kind::Choice(words) => words.join(", "),
            Kind::Count { min, max } => format!("{min} to {max}"),
            Kind::Size { min, max } => format!(
                "{} to {} bytes, as a number with an optional suffix K, M, G or T",
                show_size(*min),
                show_size(*max)
            ),
            Kind::Seconds { min, max } => {
                format!("{} to {} seconds", show_seconds(*min), show_seconds(*max))
            }
            Kind::Interval { max } => format!("auto, 0 to {} seconds", show_seconds(*max)),
            Kind::Rate { max } => format!(
                "off, 64K to {} bytes a second, as a number with an optional suffix K, M, G or T",
                show_size(*max)
            ),
            Kind::Share { max } => format!("auto, 1 to {max}"),
            Kind::Switch => "1 (on), 0 (off)".to_owned(),
            Kind::Flag => "any value (on)".to_owned(),
            Kind::File => "the path of a file".to_owned(),
            Kind::Folder => "the path of a folder".to_owned(),
            Kind::Every { max } => format!(
                "1 to {max} checkpoints, or 0.001 to {} seconds with an s behind them",
                show_seconds(*max)
            ),
            Kind::Device => "NAME or NAME:PORT of a device that ibv_devices lists".to_owned(),
            Kind::Rules => {
                "rules PE@CHECKPOINT[:point], node:K@.. or stop:PE@.., \
                            separated by commas; points are "
                    .to_owned()
                    + &Point::ALL.map(Point::name).join(", ")
            }
        }
    }

    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        match *self {
            Kind::Choice(words) => words.iter().position(|w| *w == text).map(Value::Choice),
            Kind::Count { min, max } => bounded(parse_count(text)?, min, max),
            Kind::Size { min, max } => bounded(parse_size(text)?, min, max),
            Kind::Seconds { min, max } => bounded(parse_seconds(text)?, min, max),
            Kind::Interval { .. } if text == "auto" => Some(Value::Auto),
            Kind::Interval { max } => bounded(parse_seconds(text)?, 0, max),
            Kind::Rate { .. } if text == "off" => Some(Value::Number(0)),
            Kind::Rate { max } => bounded(parse_size(text)?, 64 * KIB, max),
            Kind::Share { .. } if text == "auto" => Some(Value::Number(0)),
            Kind::Share { max } => bounded(parse_count(text)?, 1, max),
            Kind::Switch if text == "1" => Some(Value::On(true)),
            Kind::Switch if text == "0" => Some(Value::On(false)),
            Kind::Switch => None,
            Kind::Flag => Some(Value::On(true)),
            Kind::Rules => inject::parse(text).ok().map(Value::Rules),
            Kind::Every { max } => Every::parse(text, max).map(Value::Every),
            Kind::File | Kind::Folder => (!text.is_empty()).then(|| Value::File(text.to_owned())),
            Kind::Device => Device::parse(text).map(Value::Device),
        }
    }
}

fn bounded(number: u64, min: u64, max: u64) -> Option<Value> {
    (min..=max).contains(&number).then_some(Value::Number(number))
}
