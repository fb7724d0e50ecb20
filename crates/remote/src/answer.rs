//! Reads parts of answers.

use crate::error::RemoteError;
use serde_json::Value;

/// The most bytes of an answer that an error message repeats.
const SHOWN: usize = 120;

/// The beginning of `bytes` as text.
pub(crate) fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN {
        return format!("{text}... ({} bytes)", bytes.len());
    }
    text
}

/// The error for an answer with `value` where `expected` should be.
pub(crate) fn unexpected(
    method: &'static str,
    expected: &'static str,
    value: &Value,
) -> RemoteError {
    RemoteError::Answer {
        method,
        expected,
        found: shortened(value.to_string().as_bytes()),
    }
}

/// Decodes `value`, which holds bytes in hexadecimal with 0x.
///
/// # Errors
/// [`RemoteError::Answer`] if `value` is something else.
pub(crate) fn bytes(method: &'static str, value: &Value) -> Result<Vec<u8>, RemoteError> {
    let text = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let bytes = text.and_then(|digits| hex::decode(digits).ok());
    bytes.ok_or_else(|| unexpected(method, "bytes in hexadecimal with 0x", value))
}

/// Decodes `value`, which holds a hash in hexadecimal with 0x.
///
/// # Errors
/// [`RemoteError::Answer`] if `value` is something else.
pub(crate) fn hash(method: &'static str, value: &Value) -> Result<[u8; 32], RemoteError> {
    let bytes = bytes(method, value)?;
    let hash = bytes.try_into();
    hash.map_err(|_| unexpected(method, "a hash of 32 bytes", value))
}

/// The elements of the list `value`.
///
/// # Errors
/// [`RemoteError::Answer`] if `value` is no list.
pub(crate) fn list<'v>(method: &'static str, value: &'v Value) -> Result<&'v [Value], RemoteError> {
    let list = value.as_array().map(Vec::as_slice);
    list.ok_or_else(|| unexpected(method, "a list", value))
}

/// `bytes` in hexadecimal with 0x.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}
