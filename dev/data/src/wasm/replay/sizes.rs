//! The proof sizes that the runtimes of replayed blocks get.

use super::ReplayError;
use crate::data_files::{read_file, FileError};
use povmeter_substrate::SizeSource;
use serde::{Deserialize, Serialize};
use sp_core::H256;
use std::{collections::BTreeMap, path::Path};

/// The source of the proof sizes that a runtime gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplaySizes {
    /// The recorded size, as from sp-state-machine.
    #[default]
    Reads,
    /// The estimate, which includes the nodes that the root computation adds.
    Estimate,
    /// The sizes of the author's record.
    Record(SizeRecord),
}

impl ReplaySizes {
    /// Returns the source of sizes for the block with this number and hash.
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

    /// Returns the name of these sizes in messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Reads => "the bytes read so far",
            Self::Estimate => "the estimate, which includes the root",
            Self::Record(_) => "the sizes of a record",
        }
    }
}

/// The proof sizes that the runtime of each block got, by the hash of the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeRecord {
    blocks: BTreeMap<H256, RecordedBlock>,
}

/// The JSON form of the file.
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

/// The `what` field of a file with a record.
const WHAT: &str = "proof-sizes";
/// The `schema` field of a file with a record.
const SCHEMA: u32 = 1;

/// Why a record of proof sizes could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeRecordError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file does not have the form of a record.
    #[error("expected a record of proof sizes in JSON, found: {0}")]
    Json(#[source] serde_json::Error),
    /// The file is of another kind or schema version.
    #[error("expected `what` \"{WHAT}\" with `schema` {SCHEMA}, found \"{what}\" with {schema}")]
    Form {
        /// Kind of the file.
        what: String,
        /// Version of its schema.
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
    /// Whether a file that begins with `head` is such a record.
    pub fn is_beginning(head: &str) -> bool {
        let mut found = head.chars().filter(|letter| !letter.is_whitespace());
        let expected = format!("{{\"what\":\"{WHAT}\"");
        expected.chars().all(|letter| found.next() == Some(letter))
    }

    /// Reads the record in the file at `path`.
    ///
    /// # Errors
    /// [`SizeRecordError`] if the file cannot be read or is not a record.
    pub fn read(path: &Path) -> Result<Self, SizeRecordError> {
        Self::from_json(&read_file(path)?)
    }

    /// Reads the record in `json`.
    ///
    /// # Errors
    /// [`SizeRecordError`] if `json` is not a record.
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

    /// Returns the record as JSON, sorted by block number.
    ///
    /// # Errors
    /// The error of serde, if there is one. No known record causes one.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut blocks: Vec<_> = self.blocks.values().cloned().collect();
        blocks.sort_by_key(|block| (block.number, block.hash));
        serde_json::to_string_pretty(&SizeRecordFile {
            what: WHAT.to_owned(),
            schema: SCHEMA,
            blocks,
        })
    }

    /// Adds the sizes of a block, in place of earlier ones.
    pub fn add(&mut self, number: u32, hash: H256, sizes: Vec<u64>) {
        let block = RecordedBlock {
            number,
            hash,
            sizes,
        };
        self.blocks.insert(hash, block);
    }

    /// Returns the sizes of the block with this hash, if the record has them.
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
        assert!(SizeRecord::is_beginning(&json[..40]));
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
    fn what_makes_records_is_none() {
        for other in [
            "print({'what': \"proof-sizes\"})",
            "{\"name\":\"proof-sizes\"}",
            "{\"what\":\"block\"}",
            "{",
        ] {
            assert!(!SizeRecord::is_beginning(other), "{other}");
        }
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
