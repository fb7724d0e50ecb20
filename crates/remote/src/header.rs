//! Headers of blocks.

use povmeter_delta_root::{push_compact, read_compact, Blake2b256, Root};
use serde_json::Value;

use crate::{answer, error::RemoteError};

/// Parts of a header in the form that Substrate chains use: parent hash, number, state root, root of the
/// extrinsics, digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderParts {
    /// Hash of the parent block.
    pub parent: [u8; 32],
    /// Number of the block.
    pub number: u64,
    /// Root of the state after the block.
    pub state_root: Root,
}

/// The error for bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a header of parent, number, state root, root of extrinsics and digest, found {found} bytes that are none")]
#[non_exhaustive]
pub struct HeaderError {
    /// Number of bytes.
    pub found: usize,
}

impl HeaderParts {
    /// Decodes the parts of the encoded header `header`. Does not decode the items of the digest.
    ///
    /// # Errors
    /// [`HeaderError`] if `header` is too short, or its number or digest length is no compact integer.
    pub fn of(header: &[u8]) -> Result<Self, HeaderError> {
        let parts = || {
            let (parent, rest) = header.split_first_chunk::<32>()?;
            let (number, used) = read_compact(rest)?;
            let (state_root, rest) = rest.get(used..)?.split_first_chunk::<32>()?;
            // The root of the extrinsics, and the length of the digest.
            read_compact(rest.get(32..)?)?;
            Some(Self {
                parent: *parent,
                number: number as u64,
                state_root: Root::from(*state_root),
            })
        };
        parts().ok_or(HeaderError {
            found: header.len(),
        })
    }
}

/// The hash of a block with the encoded header `header`.
pub(crate) fn hash(header: &[u8]) -> [u8; 32] {
    Blake2b256::hash(header).into()
}

/// Encodes the header that `value`, a part of an answer to `method`, holds as JSON.
///
/// # Errors
/// [`RemoteError::Answer`] if a field is missing or has another form.
pub(crate) fn encode(method: &'static str, value: &Value) -> Result<Vec<u8>, RemoteError> {
    let field = |name: &str| answer::hash(method, &value[name]);
    let number = value["number"]
        .as_str()
        .and_then(|text| text.strip_prefix("0x"));
    let number = number.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let number = number.ok_or_else(|| {
        answer::unexpected(method, "a block number in hexadecimal", &value["number"])
    })?;
    let logs = answer::list(method, &value["digest"]["logs"])?;
    let mut header = field("parentHash")?.to_vec();
    push_compact(&mut header, number);
    header.extend(field("stateRoot")?);
    header.extend(field("extrinsicsRoot")?);
    push_compact(&mut header, logs.len());
    for log in logs {
        header.extend(answer::bytes(method, log)?);
    }
    Ok(header)
}
