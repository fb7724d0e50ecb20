//! Blocks of real chains, with their parent states.

use crate::{chain_spec::ChainSpec, chain_spec::ChainSpecError};
use crate::{data_files::read_file, data_files::FileError};
use codec::DecodeAll;
use sp_core::storage::StateVersion;
use sp_core::{Blake2Hasher, Hasher, H256};
use sp_runtime::generic;
use sp_runtime::traits::BlakeTwo256;
use std::io;
use std::path::{Path, PathBuf};

/// Header of a real block, in the form that all public chains use.
pub type RealHeader = generic::Header<u32, BlakeTwo256>;

/// Consecutive blocks of one chain, and the path of the file with the state before the first block.
#[derive(Clone, Debug)]
pub struct RealBlocks {
    /// Name of the blocks, for messages.
    pub name: String,
    /// File with the state before the first block, for [`ChainSpec::read`].
    pub state_path: PathBuf,
    /// State version of the runtime of the blocks.
    pub state_version: StateVersion,
    /// The blocks in order; at least one.
    pub blocks: Vec<RealBlock>,
}

/// A published block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealBlock {
    /// Hash of the header.
    pub hash: H256,
    /// Header with the seal. Its state root is the root after the block.
    pub header: RealHeader,
    /// Encoded extrinsics in order, each without its length prefix.
    pub body: Vec<Vec<u8>>,
}

/// Why a file of blocks could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealBlocksError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content is not a list of blocks in JSON.
    #[error("expected a file of blocks, found: {0}")]
    Json(#[source] serde_json::Error),
    /// The state version is unknown.
    #[error("expected state version V0 or V1, found `{found}`")]
    StateVersion {
        /// The version in the file.
        found: String,
    },
    /// The file has no block.
    #[error("expected at least one block, found none")]
    NoBlocks,
    /// A field is not written in hexadecimal.
    #[error("block {number}: expected hexadecimal digits in the {part}, with or without 0x, found: {source}")]
    Hex {
        /// Number of the block.
        number: u32,
        /// The field.
        part: &'static str,
        /// The decoding error.
        source: hex::FromHexError,
    },
    /// A hash has the wrong length.
    #[error("block {number}: expected a hash of 32 bytes, found {found}")]
    HashLength {
        /// Number of the block.
        number: u32,
        /// Length of the hash in bytes.
        found: usize,
    },
    /// A header does not decode.
    #[error("block {number}: expected an encoded header, found: {source}")]
    Header {
        /// Number of the block.
        number: u32,
        /// The decoding error.
        source: codec::Error,
    },
    /// A header does not have the hash, number or parent in the file.
    #[error("block {number}: expected {part} {expected}, found {found}")]
    Mismatch {
        /// Number of the block.
        number: u32,
        /// The part that differs.
        part: &'static str,
        /// Its value in the rest of the file.
        expected: String,
        /// Its value in the header.
        found: String,
    },
}

impl RealBlocks {
    /// Reads the blocks in the file at `path`, and checks their hashes, numbers and order.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed, is too large, or does not hold consecutive blocks.
    pub fn read(path: &Path) -> Result<Self, RealBlocksError> {
        let json = read_file(path)?;
        let file: BlocksFile = serde_json::from_slice(&json).map_err(RealBlocksError::Json)?;
        let state_version = match file.state_version.as_str() {
            "V0" => StateVersion::V0,
            "V1" => StateVersion::V1,
            _ => {
                return Err(RealBlocksError::StateVersion {
                    found: file.state_version,
                })
            }
        };
        let blocks: Vec<_> = file
            .blocks
            .into_iter()
            .map(BlockEntry::decode)
            .collect::<Result<_, _>>()?;
        if blocks.is_empty() {
            return Err(RealBlocksError::NoBlocks);
        }
        for pair in blocks.windows(2) {
            let number = pair[1].header.number;
            expect_equal(number, "parent", pair[0].hash, pair[1].header.parent_hash)?;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            name: file.name,
            state_path: folder.join(file.state),
            state_version,
            blocks,
        })
    }

    /// Reads the state before the first block.
    ///
    /// # Errors
    /// Those of [`ChainSpec::read`].
    pub fn read_state(&self) -> Result<ChainSpec, ChainSpecError> {
        ChainSpec::read(&self.state_path)
    }
}

impl RealBlock {
    /// Returns the block with this encoded header and these extrinsics, each without its length
    /// prefix.
    ///
    /// # Errors
    /// [`RealBlocksError::Header`] if the header does not decode; [`RealBlocksError::Mismatch`] if it
    /// decodes, but has another chain's form, so that its hash differs.
    pub fn from_header(encoded: &[u8], body: Vec<Vec<u8>>) -> Result<Self, RealBlocksError> {
        let hash = Blake2Hasher::hash(encoded);
        let mut input = encoded;
        let header = RealHeader::decode_all(&mut input)
            .map_err(|source| RealBlocksError::Header { number: 0, source })?;
        expect_equal(header.number, "hash", hash, header.hash())?;
        Ok(Self { hash, header, body })
    }
}

/// Returns the files of blocks in the data folder `data`, sorted by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn block_files(data: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(data.join("blocks"))?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    Ok(paths)
}

/// The JSON form of the file.
#[derive(serde::Deserialize)]
struct BlocksFile {
    name: String,
    state: PathBuf,
    state_version: String,
    blocks: Vec<BlockEntry>,
}

/// The JSON form of a block.
#[derive(serde::Deserialize)]
struct BlockEntry {
    number: u32,
    hash: String,
    header: String,
    body: Vec<String>,
}

impl BlockEntry {
    fn decode(self) -> Result<RealBlock, RealBlocksError> {
        let number = self.number;
        let bytes = |part, text: &str| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            hex::decode(digits).map_err(|source| RealBlocksError::Hex {
                number,
                part,
                source,
            })
        };
        let hash: [u8; 32] = bytes("hash", &self.hash)?
            .try_into()
            .map_err(|hash: Vec<u8>| RealBlocksError::HashLength {
                number,
                found: hash.len(),
            })?;
        let encoded = bytes("header", &self.header)?;
        let header = RealHeader::decode_all(&mut encoded.as_slice())
            .map_err(|source| RealBlocksError::Header { number, source })?;
        expect_equal(number, "number", number, header.number)?;
        expect_equal(number, "hash", H256(hash), Blake2Hasher::hash(&encoded))?;
        let body = self
            .body
            .iter()
            .map(|extrinsic| bytes("body", extrinsic))
            .collect::<Result<_, _>>()?;
        Ok(RealBlock {
            hash: hash.into(),
            header,
            body,
        })
    }
}

fn expect_equal<T: PartialEq + std::fmt::Debug>(
    number: u32,
    part: &'static str,
    expected: T,
    found: T,
) -> Result<(), RealBlocksError> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
    Err(RealBlocksError::Mismatch {
        number,
        part,
        expected,
        found,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::chain_spec::genesis_hash;
    use crate::data_files::expect_data;
    use codec::Encode;
    use serde_json::{json, Value};

    #[test]
    #[ignore = "needs the real chain data"]
    fn every_block_file_is_read_with_its_state() {
        let data = expect_data();
        let expected = [
            ("child-trie-create-one", StateVersion::V1, 1, 2, (34, 0)),
            ("child-trie-read-basic", StateVersion::V1, 1, 2, (61, 3)),
            ("kusama-1", StateVersion::V0, 1, 2, (3419, 0)),
            ("polkadot-1", StateVersion::V0, 1, 2, (11_645, 0)),
            ("westend-1-64", StateVersion::V0, 64, 165, (93, 0)),
        ];
        let files = block_files(&data).unwrap();
        assert_eq!(files.len(), expected.len());
        for (path, (name, version, blocks, extrinsics, (top, children))) in
            files.iter().zip(expected)
        {
            let file = RealBlocks::read(path).unwrap();
            assert_eq!(
                (file.name.as_str(), file.state_version, file.blocks.len()),
                (name, version, blocks)
            );
            let bodies = file.blocks.iter().map(|block| block.body.len());
            assert_eq!(bodies.sum::<usize>(), extrinsics, "{name}");
            let state = file.read_state().unwrap();
            assert_eq!(
                (state.top.len(), state.children.len()),
                (top, children),
                "{name}"
            );
        }
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn first_blocks_are_on_the_genesis_of_their_chain() {
        let data = expect_data();
        let roots = read_file(&data.join("genesis-roots.json")).unwrap();
        let roots: Vec<Value> = serde_json::from_slice(&roots).unwrap();
        for chain in ["kusama-1", "polkadot-1", "westend-1-64"] {
            let file = RealBlocks::read(&data.join(format!("blocks/{chain}.json"))).unwrap();
            let spec = chain.split('-').next().unwrap();
            let row = roots.iter().find(|row| row["spec"] == spec).unwrap();
            let root: H256 = row["state_root"].as_str().unwrap().parse().unwrap();
            assert_eq!(
                file.blocks[0].header.parent_hash,
                genesis_hash(root),
                "{chain}"
            );
        }
    }

    fn header(number: u32, parent: H256) -> RealHeader {
        let (root, digest) = (H256::repeat_byte(1), Default::default());
        RealHeader {
            parent_hash: parent,
            number,
            state_root: root,
            extrinsics_root: root,
            digest,
        }
    }

    fn entry(header: &RealHeader) -> Value {
        let encoded = header.encode();
        let hash = hex::encode(Blake2Hasher::hash(&encoded));
        json!({"number": header.number, "hash": hash, "header": hex::encode(encoded), "body": ["0400"]})
    }

    /// A valid file of two blocks.
    fn two_blocks() -> Value {
        let first = header(7, H256::zero());
        let second = header(8, Blake2Hasher::hash(&first.encode()));
        json!({"name": "two", "state": "../two.json", "state_version": "V1", "blocks": [entry(&first), entry(&second)]})
    }

    fn read(file: &Value) -> Result<RealBlocks, RealBlocksError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two.json");
        std::fs::write(&path, file.to_string()).unwrap();
        let read = RealBlocks::read(&path);
        if let Ok(file) = &read {
            assert_eq!(file.state_path, folder.path().join("../two.json"));
        }
        read
    }

    #[test]
    fn a_good_file_is_read() {
        let file = read(&two_blocks()).unwrap();
        assert_eq!(file.blocks.len(), 2);
        assert_eq!(file.blocks[1].header.number, 8);
        assert_eq!(file.blocks[1].body, [vec![4, 0]]);
    }

    #[test]
    fn digits_may_have_a_prefix() {
        let mut prefixed = two_blocks();
        for block in prefixed["blocks"].as_array_mut().unwrap() {
            for field in ["/hash", "/header", "/body/0"] {
                let digits = block.pointer_mut(field).unwrap();
                *digits = json!(format!("0x{}", digits.as_str().unwrap()));
            }
        }
        let [with, without] = [&prefixed, &two_blocks()].map(|file| read(file).unwrap().blocks);
        assert_eq!(with, without);
    }

    /// Returns the error of reading a valid file after `damage`.
    fn damaged(damage: impl FnOnce(&mut Value)) -> String {
        let mut file = two_blocks();
        damage(&mut file);
        read(&file).unwrap_err().to_string()
    }

    #[test]
    fn files_that_are_not_blocks_are_errors() {
        let starts =
            |error: String, expected: &str| assert!(error.starts_with(expected), "{error}");
        starts(
            damaged(|file| *file = json!(7)),
            "expected a file of blocks",
        );
        starts(
            damaged(|file| file["state_version"] = json!("V2")),
            "expected state version V0 or V1, found `V2`",
        );
        starts(
            damaged(|file| file["blocks"] = json!([])),
            "expected at least one block",
        );
        starts(
            damaged(|file| file["blocks"][0]["number"] = json!("7")),
            "expected a file of blocks",
        );
        starts(
            damaged(|file| file["blocks"][0]["number"] = json!(6)),
            "block 6: expected number 6, found 7",
        );
        starts(
            damaged(|file| file["blocks"][1]["hash"] = json!("00")),
            "block 8: expected a hash of 32 bytes",
        );
        starts(
            damaged(|file| file["blocks"][1]["hash"] = json!("00".repeat(32))),
            "block 8: expected hash 0x00",
        );
        starts(
            damaged(|file| file["blocks"][1]["header"] = json!("x00")),
            "block 8: expected hexadecimal digits in the header, with or without 0x",
        );
        starts(
            damaged(|file| file["blocks"][1]["header"] = json!("00")),
            "block 8: expected an encoded header",
        );
        starts(
            damaged(|file| file["blocks"][0]["body"][0] = json!("0")),
            "block 7: expected hexadecimal digits in the body",
        );
        let twice = |file: &mut Value| file["blocks"][1] = file["blocks"][0].clone();
        starts(damaged(twice), "block 7: expected parent");
        let error = RealBlocks::read(Path::new("/nowhere/blocks.json")).unwrap_err();
        assert!(matches!(error, RealBlocksError::File(_)), "{error}");
    }
}
