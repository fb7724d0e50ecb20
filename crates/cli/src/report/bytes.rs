//! Numbers of bytes as people write them.

use std::str::FromStr;

/// A number of bytes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteCount(pub(crate) u64);

/// Why a text is no number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ByteCountError {
    #[error("expected a whole number of bytes such as 5242880, 512KiB or 5MiB")]
    Form,
    #[error("expected one of the suffixes B, kB, KiB, MB, MiB, GB, GiB after the number")]
    Suffix,
    #[error("expected at least one byte, found none")]
    Zero,
    #[error("expected less than 2^64 bytes")]
    TooLarge,
}

impl FromStr for ByteCount {
    type Err = ByteCountError;

    fn from_str(text: &str) -> Result<Self, ByteCountError> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '_');
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let number = number.replace('_', "");
        if number.is_empty() {
            return Err(ByteCountError::Form);
        }
        let unit: u64 = match suffix.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "kib" => 1 << 10,
            "mb" => 1_000_000,
            "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "gib" => 1 << 30,
            fraction if fraction.starts_with(['.', ',']) => return Err(ByteCountError::Form),
            _ => return Err(ByteCountError::Suffix),
        };
        // Only digits are left, so the only possible error is too many of them.
        let number: u64 = number.parse().map_err(|_| ByteCountError::TooLarge)?;
        match number.checked_mul(unit) {
            None => Err(ByteCountError::TooLarge),
            Some(0) => Err(ByteCountError::Zero),
            Some(bytes) => Ok(Self(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_a_suffix() {
        for (text, bytes) in [
            ("1", 1),
            ("5242880", 5_242_880),
            ("5_242_880", 5_242_880),
            ("300KiB", 307_200),
            ("300 kib", 307_200),
            ("5MiB", 5_242_880),
            ("5mb", 5_000_000),
            ("2GiB", 2_147_483_648),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_bytes() {
        for (text, error) in [
            ("", ByteCountError::Form),
            ("MiB", ByteCountError::Form),
            ("-5", ByteCountError::Form),
            ("1.5MiB", ByteCountError::Form),
            ("5M", ByteCountError::Suffix),
            ("5 apples", ByteCountError::Suffix),
            ("0", ByteCountError::Zero),
            ("0MiB", ByteCountError::Zero),
            ("18446744073709551616", ByteCountError::TooLarge),
            ("18446744073709551615KiB", ByteCountError::TooLarge),
        ] {
            assert_eq!(text.parse::<ByteCount>(), Err(error), "{text}");
        }
    }
}
