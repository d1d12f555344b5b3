//! The kinds of value that a setting can have, with their parsing, bounds and description.
//!
//! Invariant: [`ValueKind::allowed`] supplies the text for error messages and documentation, so
//! these cannot differ.

use super::units::{KIB, parse_count, parse_seconds, parse_size, show_seconds, show_size};
use super::values::{Device, Every, Provider};
use crate::inject::{self, InjectedFault, Point};

/// The kind and bounds of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// One of these words, in lower case.
    Choice(&'static [&'static str]),
    /// A whole number.
    Count {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Bytes, whole or decimal, with an optional suffix K, M, G or T (powers of 1024), rounded
    /// up; another suffix is an error (OpenSHMEM, environment variables).
    Size {
        /// Minimum in bytes.
        min: u64,
        /// Maximum in bytes.
        max: u64,
    },
    /// A [`ValueKind::Size`] that is a lower bound; values below `least` become `least`.
    AtLeast {
        /// Smallest result in bytes.
        least: u64,
        /// Maximum in bytes.
        max: u64,
    },
    /// Seconds, whole or decimal, to the millisecond.
    Seconds {
        /// Minimum in milliseconds.
        min: u64,
        /// Maximum in milliseconds.
        max: u64,
    },
    /// A [`ValueKind::Seconds`] from 0, or `auto`.
    Interval {
        /// Maximum in milliseconds.
        max: u64,
    },
    /// A [`ValueKind::Size`] of at least one tile per second, or `off`, which is 0.
    Rate {
        /// Maximum in bytes per second.
        max: u64,
    },
    /// A whole number from 1, or `auto`, which is 0.
    Share {
        /// Maximum.
        max: u64,
    },
    /// `1` for on or `0` for off.
    Switch,
    /// On if set at all, whatever the value (OpenSHMEM 1.5, section 8).
    Flag,
    /// Fault injection rules, see [`crate::inject`].
    Rules,
    /// The path of a file.
    File,
    /// The path of a folder.
    Folder,
    /// A whole number of checkpoints from 1, or seconds with the suffix `s`.
    Every {
        /// Maximum in checkpoints, or in milliseconds.
        max: u64,
    },
    /// An RDMA device, optionally with a port.
    Device,
    /// A provider of libfabric.
    Provider,
}

/// A parsed value; the [`ValueKind`] determines the variant.
pub(super) enum Value {
    Choice(usize),
    Number(u64),
    Auto,
    On(bool),
    Rules(Vec<InjectedFault>),
    File(String),
    Every(Every),
    Device(Device),
    Provider(Provider),
}

impl ValueKind {
    /// Returns the name of the kind in documentation.
    pub const fn name(&self) -> &'static str {
        match self {
            ValueKind::Choice(_) => "word",
            ValueKind::Count { .. } => "number",
            ValueKind::Size { .. } | ValueKind::AtLeast { .. } => "size",
            ValueKind::Seconds { .. } => "seconds",
            ValueKind::Interval { .. } => "interval",
            ValueKind::Rate { .. } => "rate",
            ValueKind::Share { .. } => "share",
            ValueKind::Switch => "switch",
            ValueKind::Flag => "flag",
            ValueKind::Rules => "rules",
            ValueKind::File => "file",
            ValueKind::Folder => "folder",
            ValueKind::Every { .. } => "every",
            ValueKind::Device => "device",
            ValueKind::Provider => "provider",
        }
    }

    /// Returns the allowed values, as documentation and error messages print them.
    pub fn allowed(&self) -> String {
        match self {
            ValueKind::Choice(words) => words.join(", "),
            ValueKind::Count { min, max } => format!("{min} to {max}"),
            ValueKind::Size { min, max } => format!(
                "{} to {} bytes, as a number with an optional suffix K, M, G or T",
                show_size(*min),
                show_size(*max)
            ),
            ValueKind::AtLeast { least, max } => format!(
                "0 to {} bytes, as a number with an optional suffix K, M, G or T; less than {} is \
                 rounded up",
                show_size(*max),
                show_size(*least)
            ),
            ValueKind::Seconds { min, max } => {
                format!("{} to {} seconds", show_seconds(*min), show_seconds(*max))
            }
            ValueKind::Interval { max } => format!("auto, 0 to {} seconds", show_seconds(*max)),
            ValueKind::Rate { max } => format!(
                "off, 64K to {} bytes a second, as a number with an optional suffix K, M, G or T",
                show_size(*max)
            ),
            ValueKind::Share { max } => format!("auto, 1 to {max}"),
            ValueKind::Switch => "1 (on), 0 (off)".to_owned(),
            ValueKind::Flag => "any value, even 0 (on)".to_owned(),
            ValueKind::File => "the path of a file".to_owned(),
            ValueKind::Folder => "the path of a folder".to_owned(),
            ValueKind::Every { max } => format!(
                "1 to {max} checkpoints, or 0.001 to {} seconds, followed by an s",
                show_seconds(*max)
            ),
            ValueKind::Provider => "NAME of a provider that fi_info lists".to_owned(),
            ValueKind::Device => "NAME or NAME:PORT of a device that ibv_devices lists".to_owned(),
            ValueKind::Rules => {
                "rules PE@CHECKPOINT[:point], node:K@.. or stop:PE@.., \
                            separated by commas; points are "
                    .to_owned()
                    + &Point::ALL.map(Point::name).join(", ")
            }
        }
    }

    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        match *self {
            ValueKind::Choice(words) => words.iter().position(|w| *w == text).map(Value::Choice),
            ValueKind::Count { min, max } => bounded(parse_count(text)?, min, max),
            ValueKind::Size { min, max } => bounded(parse_size(text)?, min, max),
            ValueKind::AtLeast { least, max } => bounded(parse_size(text)?.max(least), least, max),
            ValueKind::Seconds { min, max } => bounded(parse_seconds(text)?, min, max),
            ValueKind::Interval { .. } if text == "auto" => Some(Value::Auto),
            ValueKind::Interval { max } => bounded(parse_seconds(text)?, 0, max),
            ValueKind::Rate { .. } if text == "off" => Some(Value::Number(0)),
            ValueKind::Rate { max } => bounded(parse_size(text)?, 64 * KIB, max),
            ValueKind::Share { .. } if text == "auto" => Some(Value::Number(0)),
            ValueKind::Share { max } => bounded(parse_count(text)?, 1, max),
            ValueKind::Switch if text == "1" => Some(Value::On(true)),
            ValueKind::Switch if text == "0" => Some(Value::On(false)),
            ValueKind::Switch => None,
            ValueKind::Flag => Some(Value::On(true)),
            ValueKind::Rules => inject::parse(text).ok().map(Value::Rules),
            ValueKind::Every { max } => Every::parse(text, max).map(Value::Every),
            ValueKind::File | ValueKind::Folder => {
                (!text.is_empty()).then(|| Value::File(text.to_owned()))
            }
            ValueKind::Device => Device::parse(text).map(Value::Device),
            ValueKind::Provider => Provider::parse(text).map(Value::Provider),
        }
    }
}

fn bounded(number: u64, min: u64, max: u64) -> Option<Value> {
    (min..=max).contains(&number).then_some(Value::Number(number))
}
