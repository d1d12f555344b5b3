//! Times as seconds in messages and in JSON, with six digits: `#[serde(with = "seconds")]`.

#![allow(missing_docs)] // as serde requires them

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_micros() as f64 / 1e6)
}

/// The longest time: some centuries, so that no sum of times overflows.
const LONGEST: f64 = 1e10;

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(from)?;
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|_| seconds <= LONGEST);
    time.ok_or_else(|| serde::de::Error::custom(format!("{seconds} is no time in seconds")))
}
