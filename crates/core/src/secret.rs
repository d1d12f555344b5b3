//! The secret of a job, and its textual form.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a job's secret.
pub const SECRET_LEN: usize = 32;

/// The secret of a job, which proves that a process belongs to it. It cannot be printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; SECRET_LEN]);

impl Secret {
    /// Encodes the secret as one word of hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Decodes the output of `to_hex`.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let digits = text.as_bytes();
        let mut secret = [0; SECRET_LEN];
        if digits.len() != 2 * SECRET_LEN {
            return None;
        }
        for (byte, pair) in secret.iter_mut().zip(digits.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? * 16 + digit(1)?) as u8;
        }
        Some(Secret(secret))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_survives_its_spelling_and_does_not_print() {
        let secret = Secret(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(Secret::from_hex(&secret.to_hex()), Some(secret.clone()));
        assert_eq!(Secret::from_hex("00"), None);
        assert_eq!(Secret::from_hex(&"g".repeat(64)), None);
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
