//! The proof sizes that the runtimes of replayed blocks are told.

use super::ReplayError;
use crate::data_files::{read_file, FileError};
use povmeter_substrate::SizeSource;
use serde::{Deserialize, Serialize};
use sp_core::H256;
use std::{collections::BTreeMap, path::Path};

/// Where the answers to a runtime's questions for the proof size come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplaySizes {
    /// What was read so far, as the recorder of sp-state-machine tells it.
    #[default]
    Reads,
    /// The estimate: with the nodes that the root computation adds.
    Estimate,
    /// What the author told, from its record.
    Record(SizeRecord),
}

impl ReplaySizes {
    /// The answers for the block of this number and hash.
    ///
    /// # Errors
    /// [`ReplayError::NoSizes`] if a record lacks the block.
    pub(super) fn source(&self, number: u32, hash: H256) -> Result<SizeSource, ReplayError> {
        Ok(match self {
            Self::Reads => SizeSource::Reads,
            Self::Estimate => SizeSource::Estimate,
            Self::Record(record) => {
                let sizes = record.sizes(hash);
                let sizes = sizes.ok_or(ReplayError::NoSizes { number, hash })?;
                SizeSource::Replay(sizes.to_vec())
            }
        })
    }

    /// What a message calls these answers.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Reads => "the bytes read so far",
            Self::Estimate => "the estimate, which includes the root",
            Self::Record(_) => "the sizes of a record",
        }
    }
}

/// The proof sizes that each block's runtime was told, by the hash of the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeRecord {
    blocks: BTreeMap<H256, RecordedBlock>,
}

/// The form of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SizeRecordFile {
    what: String,
    schema: u32,
    blocks: Vec<RecordedBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedBlock {
    number: u32,
    hash: H256,
    sizes: Vec<u64>,
}

/// What a file of this form is about.
const WHAT: &str = "proof-sizes";
/// The version of the form.
const SCHEMA: u32 = 1;

/// A record of proof sizes can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeRecordError {
    /// The file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not of this form.
    #[error("expected a record of proof sizes in JSON, found: {0}")]
    Json(#[source] serde_json::Error),
    /// The file is about something else, or of another version.
    #[error("expected `what` \"{WHAT}\" with `schema` {SCHEMA}, found \"{what}\" with {schema}")]
    Form {
        /// What the file is about.
        what: String,
        /// The version of its form.
        schema: u32,
    },
    /// Two entries are for one block.
    #[error("expected one entry for each block, found two for block {number} ({hash:?})")]
    Twice {
        /// Number of the block.
        number: u32,
        /// Hash of the block.
        hash: H256,
    },
}

impl SizeRecord {
    /// The record in the file at `path`.
    ///
    /// # Errors
    /// [`SizeRecordError`] if the file can't be read or is no such record.
    pub fn read(path: &Path) -> Result<Self, SizeRecordError> {
        Self::from_json(&read_file(path)?)
    }

    /// The record that `json` is.
    ///
    /// # Errors
    /// [`SizeRecordError`] if it is no such record.
    pub fn from_json(json: &[u8]) -> Result<Self, SizeRecordError> {
        let file = serde_json::from_slice(json).map_err(SizeRecordError::Json)?;
        let SizeRecordFile {
            what,
            schema,
            blocks,
        } = file;
        if what != WHAT || schema != SCHEMA {
            return Err(SizeRecordError::Form { what, schema });
        }
        let mut record = Self::default();
        for block in blocks {
            let (number, hash) = (block.number, block.hash);
            if record.blocks.insert(hash, block).is_some() {
                return Err(SizeRecordError::Twice { number, hash });
            }
        }
        Ok(record)
    }

    /// The record in JSON, ordered by the numbers of the blocks.
    ///
    /// # Errors
    /// An error of serde's, which no record is known to cause.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut blocks: Vec<_> = self.blocks.values().cloned().collect();
        blocks.sort_by_key(|block| (block.number, block.hash));
        serde_json::to_string_pretty(&SizeRecordFile {
            what: WHAT.to_owned(),
            schema: SCHEMA,
            blocks,
        })
    }

    /// Adds a block; replaces what the record had for it.
    pub fn add(&mut self, number: u32, hash: H256, sizes: Vec<u64>) {
        let block = RecordedBlock {
            number,
            hash,
            sizes,
        };
        self.blocks.insert(hash, block);
    }

    /// The sizes of the block with this hash.
    pub fn sizes(&self, hash: H256) -> Option<&[u64]> {
        let block = self.blocks.get(&hash);
        block.map(|block| block.sizes.as_slice())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        SizeRecord::from_json(json.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut record = SizeRecord::default();
        let hash = H256::repeat_byte;
        record.add(11, hash(1), vec![3, u64::MAX]);
        record.add(2, hash(9), vec![]);
        let json = record.to_json().unwrap();
        assert_eq!(SizeRecord::from_json(json.as_bytes()).unwrap(), record);
        let (first, second) = (
            json.find("\"number\": 2").unwrap(),
            json.find("11").unwrap(),
        );
        assert!(first < second, "{json}");
        assert_eq!(record.sizes(hash(1)), Some(&[3, u64::MAX][..]));
        assert_eq!(record.sizes(hash(2)), None);
    }

    #[test]
    fn other_files_are_errors() {
        assert!(error("[").contains("expected a record of proof sizes in JSON"));
        assert!(error(r#"{"blocks":[]}"#).contains("missing field `what`"));
        let other = error(r#"{"what":"block","schema":1,"blocks":[]}"#);
        assert!(other.contains("found \"block\" with 1"), "{other}");
        let later = error(r#"{"what":"proof-sizes","schema":2,"blocks":[]}"#);
        assert!(later.contains("found \"proof-sizes\" with 2"), "{later}");
        let block = format!(
            r#"{{"number":7,"hash":"0x{}","sizes":[]}}"#,
            "01".repeat(32)
        );
        let twice = error(&format!(
            r#"{{"what":"proof-sizes","schema":1,"blocks":[{block},{block}]}}"#
        ));
        assert!(twice.contains("two for block 7"), "{twice}");
        let negative = block.replace("[]", "[-1]");
        let file = format!(r#"{{"what":"proof-sizes","schema":1,"blocks":[{negative}]}}"#);
        assert!(error(&file).contains("invalid value"));
    }
}
