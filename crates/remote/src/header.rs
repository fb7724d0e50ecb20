//! Headers of blocks.

use bytes::Bytes;
use povmeter_delta_root::{
    push_compact, read_compact, state_update, Blake2b256, Changes, NodeHash, NodePrefix,
    NodeSource, Root, ShadowState, SourceError, StateVersion,
};
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
    /// Root of the trie of the block's extrinsics.
    pub extrinsics_root: Root,
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
            let (extrinsics_root, rest) = rest.split_first_chunk::<32>()?;
            // The length of the digest.
            read_compact(rest)?;
            Some(Self {
                parent: *parent,
                number: number as u64,
                state_root: Root::from(*state_root),
                extrinsics_root: Root::from(*extrinsics_root),
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

/// Whether `root` is the root of `extrinsics`, which come without their length prefixes. Their trie holds extrinsic
/// number `n`, with its length prefix, at the compact encoding of `n`. Tries both state versions, because the runtime
/// chooses the one of this trie.
pub(crate) fn commits_to(root: Root, extrinsics: &[Vec<u8>]) -> bool {
    let compact = |number: usize| {
        let mut encoded = Vec::new();
        push_compact(&mut encoded, number);
        encoded
    };
    let encoded = |extrinsic: &Vec<u8>| [&compact(extrinsic.len())[..], extrinsic].concat();
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = extrinsics
        .iter()
        .enumerate()
        .map(|(number, extrinsic)| (compact(number), encoded(extrinsic)))
        .collect();
    entries.sort_unstable();
    let entries = entries.iter();
    let changes = Changes {
        top: entries
            .map(|(key, value)| (key.as_slice(), Some(value.as_slice())))
            .collect(),
        children: Vec::new(),
    };
    [StateVersion::V1, StateVersion::V0]
        .into_iter()
        .any(|version| {
            let mut empty = ShadowState::new(NoNodes, Root::EMPTY);
            let update = state_update(&mut empty, &changes, version, &mut ());
            update.is_ok_and(|update| update.root == root)
        })
}

/// The nodes of the empty trie.
struct NoNodes;

impl NodeSource for NoNodes {
    fn node(&self, _: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        Ok(None)
    }
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
