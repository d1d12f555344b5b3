//! Bytes in messages: encoded and decoded as a whole, not one by one.

use serde::{Deserialize, Deserializer, Serializer};

/// Encodes bytes.
///
/// # Errors
/// Fails as the serializer does.
pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes.as_ref())
}

/// Decodes bytes.
///
/// # Errors
/// Fails as the deserializer does, which must lend its bytes.
pub fn deserialize<'de, D: Deserializer<'de>, B: From<&'de [u8]>>(from: D) -> Result<B, D::Error> {
    <&[u8]>::deserialize(from).map(B::from)
}
