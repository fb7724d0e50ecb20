//! Names of blocks.

use std::{fmt, str::FromStr};

/// A block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockId {
    /// The block with this number on the best chain.
    Number(u64),
    /// The block whose header has this hash.
    Hash([u8; 32]),
    /// The best block.
    Best,
    /// The last finalized block.
    Finalized,
}

/// A text names no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockIdError {
    /// It begins as a hash.
    #[error("expected a hash of 64 hexadecimal digits after 0x")]
    Hash,
    /// It is none of the four forms.
    #[error("expected a block's number, its hash with 0x, `best` or `finalized`")]
    Form,
}

impl FromStr for BlockId {
    type Err = BlockIdError;

    fn from_str(text: &str) -> Result<Self, BlockIdError> {
        match (text, text.strip_prefix("0x")) {
            ("best", _) => Ok(Self::Best),
            ("finalized", _) => Ok(Self::Finalized),
            (_, Some(digits)) => {
                let mut hash = [0; 32];
                hex::decode_to_slice(digits, &mut hash).map_err(|_| BlockIdError::Hash)?;
                Ok(Self::Hash(hash))
            }
            _ => text
                .parse()
                .map(Self::Number)
                .map_err(|_| BlockIdError::Form),
        }
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Hash(hash) => write!(f, "0x{}", hex::encode(hash)),
            Self::Best => f.write_str("best"),
            Self::Finalized => f.write_str("finalized"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_numbers_hashes_and_two_names() {
        let hash = format!("0x{}", "0a".repeat(32));
        for (text, id) in [
            ("7", BlockId::Number(7)),
            (&hash[..], BlockId::Hash([10; 32])),
            ("best", BlockId::Best),
            ("finalized", BlockId::Finalized),
        ] {
            assert_eq!(text.parse::<BlockId>().unwrap(), id);
            assert_eq!(id.to_string(), text);
        }
        for text in ["", "-1", "0x12", "latest", &hash[2..]] {
            assert!(text.parse::<BlockId>().is_err(), "{text}");
        }
    }
}
