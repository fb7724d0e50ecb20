//! Reads parts of answers.

use crate::error::RemoteError;
use serde_json::Value;

/// The most bytes of an answer that an error message repeats.
const SHOWN: usize = 120;

/// The most values of a message, those inside others included. serde_json needs up to 400 bytes for a value of a few
/// bytes, so millions of them would fill the memory before anything is checked. By default a Substrate node
/// sends 15 MiB at most, and these hold fewer values: a trie node that has a hash in another one has 32 bytes at
/// least, and so 69 of text.
const MOST_VALUES: usize = 1 << 18;

/// What a message must be.
const RESPONSE: &str = "a JSON-RPC response";
/// What a message must also be; with the number [`MOST_VALUES`].
const FEW_VALUES: &str = "a JSON-RPC response of at most 262144 values";

/// Parses a message that should answer a call of `method`.
///
/// # Errors
/// [`RemoteError::Answer`] if `message` is no JSON, or has more values than [`MOST_VALUES`]: nothing is parsed then.
pub(crate) fn parsed(method: &'static str, message: &[u8]) -> Result<Value, RemoteError> {
    let wrong = |expected, found| RemoteError::Answer {
        method,
        expected,
        found,
    };
    if !has_few_values(message) {
        return Err(wrong(FEW_VALUES, format!("more in {}", shortened(message))));
    }
    let parsed = serde_json::from_slice(message);
    parsed.map_err(|error| wrong(RESPONSE, format!("{}: {error}", shortened(message))))
}

/// Whether a text that may be JSON has at most [`MOST_VALUES`] values. Each value but the first one comes after a comma
/// or at the beginning of a list or an object, so the count of these is not too low. In other texts this holds up to
/// the place at which the parser stops.
fn has_few_values(text: &[u8]) -> bool {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
        if values > MOST_VALUES {
            return false;
        }
    }
    true
}

/// The error for a message that is no answer to a call of `method`.
pub(crate) fn no_response(method: &'static str, message: &[u8]) -> RemoteError {
    RemoteError::Answer {
        method,
        expected: RESPONSE,
        found: shortened(message),
    }
}

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_message_of_few_values_is_parsed() {
        let list = |value: &str, count: usize| {
            format!("[{}{value}]", format!("{value},").repeat(count - 1))
        };
        // Without the list itself.
        let most = MOST_VALUES - 1;
        for value in ["0", "\"\"", r#""[{,\"[{,\\""#] {
            let fits = parsed("method", list(value, most).as_bytes()).unwrap();
            assert_eq!(fits.as_array().unwrap().len(), most, "{value}");
            let error = parsed("method", list(value, most + 1).as_bytes()).unwrap_err();
            let found = format!("262144 values in the answer to method, found more in [{value},");
            assert!(error.to_string().contains(&found), "{error}");
        }
        assert!(FEW_VALUES.contains(&format!(" {MOST_VALUES} ")));
        let error = parsed("method", b"[1,").unwrap_err();
        assert!(error.to_string().contains("found [1,: EOF"), "{error}");
    }
}
