//! Bytes as text: hex with `0x` in front.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Bytes, in JSON as hex with `0x` in front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex(pub Vec<u8>);

/// Prints bytes as [`Hex`] is written.
pub(crate) struct Digits<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bytes::deserialize(deserializer).map(Self)
    }
}

/// Serde's `with` for bytes that are written as [`Hex`].
pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Digits(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").filter(|hex| hex.len() % 2 == 0);
        // A parser of numbers takes a sign, too.
        let digits = digits.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = |at: usize, digits: &str| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes = digits.and_then(|digits| {
            let places = (0..digits.len()).step_by(2);
            places.map(|at| byte(at, digits)).collect::<Option<_>>()
        });
        let expected = || D::Error::custom(format!("expected hex with 0x in front, found {text}"));
        bytes.ok_or_else(expected)
    }
}

/// As [`bytes`], for bytes that may be absent.
pub(crate) mod optional_bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.clone().map(Hex).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let hex = Option::<Hex>::deserialize(deserializer)?;
        Ok(hex.map(|hex| hex.0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Bytes(#[serde(with = "super::bytes")] Vec<u8>);

    #[test]
    fn only_pairs_of_digits_are_bytes() {
        let read = |text: &str| serde_json::from_value::<Bytes>(text.into());
        assert_eq!(read("0x").unwrap(), Bytes(vec![]));
        assert_eq!(read("0x0fF0").unwrap(), Bytes(vec![0x0f, 0xf0]));
        for text in ["", "0f", "0x0", "0x+f", "0x-1", "0xg0", "0x\u{e9}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
