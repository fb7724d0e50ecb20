//! Recorded traces: every call of a runtime to its externalities in one block, with every result.
//!
//! A trace is text, one record per line, the fields separated by one space. Keys and values are in
//! hexadecimal; `-` stands for none, `.` for empty bytes.
//!
//! ```text
//! genesis K V                                            an entry of the state before the block
//! phase init | phase finalize | tx I                     what the block author does next
//! enter | exit                                           a call into the runtime begins, ends
//! host-start | host-commit                               the author's transaction
//! start | commit | rollback                              the runtime's own transactions
//! get K V | hash K H | exists K 00|01 | next K K2        reads, with their results
//! set K V | del K | append K ELEMENT                     writes
//! clear PREFIX LIMIT CURSOR CURSOR-OUT BACKEND UNIQUE LOOPS
//! root VERSION ROOT                                      the storage root, with its result
//! ext                                                    the proof size was asked for
//! offchain K V                                           a write to the offchain index
//! cget CHILD K V ...                                     a storage record in a child trie
//! ckill CHILD LIMIT CURSOR CURSOR-OUT BACKEND UNIQUE LOOPS
//! ```

use crate::{data_files::read_file, data_files::FileError};
use sp_core::storage::StateVersion;
use sp_core::H256;
use std::path::Path;

/// One record of a trace. It prints as the line that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRecord {
    /// The block author begins a phase.
    Phase(TracePhase),
    /// The block author begins the extrinsic with this index.
    Extrinsic(u32),
    /// A call into the runtime begins.
    Enter,
    /// A call into the runtime ends.
    Exit,
    /// The author opens a transaction around an extrinsic.
    HostStart,
    /// The author commits the transaction around an extrinsic.
    HostCommit,
    /// The runtime opens a transaction.
    Start,
    /// The runtime commits its innermost transaction.
    Commit,
    /// The runtime rolls its innermost transaction back.
    Rollback,
    /// The proof size is asked for.
    ProofSize,
    /// A write to the offchain index; no value removes the key.
    Offchain {
        /// Key in the index.
        key: Vec<u8>,
        /// Value, if one is written.
        value: Option<Vec<u8>>,
    },
    /// A storage call.
    Storage {
        /// Storage key of the child trie, or `None` for the top trie.
        child: Option<Vec<u8>>,
        /// The call and its result.
        call: StorageCall,
    },
    /// A whole child trie is removed.
    KillChild {
        /// Storage key of the child trie.
        child: Vec<u8>,
        /// Limit and result of the removal.
        removal: Removal,
    },
}

/// A phase of a block outside its extrinsics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePhase {
    /// Before the first extrinsic.
    Initialize,
    /// After the last extrinsic.
    Finalize,
}

/// A call on one trie, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageCall {
    /// An entry of the state before the block; not a call.
    Genesis {
        /// Key of the entry.
        key: Vec<u8>,
        /// Value of the entry.
        value: Vec<u8>,
    },
    /// A value is read.
    Get {
        /// Key that is read.
        key: Vec<u8>,
        /// Value of the key.
        value: Option<Vec<u8>>,
    },
    /// The hash of a value is read.
    Hash {
        /// Key that is read.
        key: Vec<u8>,
        /// Hash of the value.
        hash: Option<Vec<u8>>,
    },
    /// A key is tested for a value.
    Exists {
        /// Key that is tested.
        key: Vec<u8>,
        /// Whether it has a value.
        exists: bool,
    },
    /// The next key is asked for.
    Next {
        /// Key after which the search starts.
        key: Vec<u8>,
        /// The next key.
        next: Option<Vec<u8>>,
    },
    /// A value is written.
    Set {
        /// Key that is written.
        key: Vec<u8>,
        /// The new value.
        value: Vec<u8>,
    },
    /// A value is removed.
    Delete {
        /// Key that is removed.
        key: Vec<u8>,
    },
    /// An element is appended to the SCALE-encoded sequence in a value.
    Append {
        /// Key of the sequence.
        key: Vec<u8>,
        /// The encoded element.
        element: Vec<u8>,
    },
    /// All keys that begin with a prefix are removed.
    Clear {
        /// The prefix.
        prefix: Vec<u8>,
        /// Limit and result.
        removal: Removal,
    },
    /// The storage root is computed.
    Root {
        /// State version of the root.
        version: StateVersion,
        /// The root.
        root: H256,
    },
}

/// A removal of many keys: its limit and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The most keys of the parent state to remove.
    pub limit: Option<u32>,
    /// Cursor from an earlier call.
    pub cursor: Option<Vec<u8>>,
    /// Cursor for the next call, if keys are left.
    pub next_cursor: Option<Vec<u8>>,
    /// Keys removed from the parent state.
    pub backend: u32,
    /// Distinct keys removed, from the parent state and from the changes of the block.
    pub unique: u32,
    /// Keys looked at.
    pub loops: u32,
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not text.
    #[error("expected text, found other bytes from byte {at} on")]
    NotText {
        /// Number of bytes before the first that is not text.
        at: usize,
    },
    /// A line is not a record.
    #[error("line {line}: {source}")]
    Line {
        /// Number of the line; the first is 1.
        line: usize,
        /// Why it is not a record.
        source: TraceRecordError,
    },
}

/// Why a line is not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceRecordError {
    /// The first field is not the name of a record.
    #[error("expected the name of a record, found `{0}`")]
    UnknownRecord(String),
    /// The line has too few fields.
    #[error("expected {expected} as field {field}, found the end of the line")]
    MissingField {
        /// Number of the field; the name of the record is 0.
        field: usize,
        /// The expected form of the field.
        expected: &'static str,
    },
    /// The line has too many fields.
    #[error("expected the end of the line, found field {field}: `{found}`")]
    ExtraField {
        /// Number of the first surplus field; the name of the record is 0.
        field: usize,
        /// The field.
        found: String,
    },
    /// A field does not have the expected form.
    #[error("expected {expected} as field {field}, found `{found}`")]
    Field {
        /// Number of the field; the name of the record is 0.
        field: usize,
        /// The expected form of the field.
        expected: &'static str,
        /// The field.
        found: String,
    },
}

/// Reads the records of the trace in the file at `path`, which may be compressed with gzip.
///
/// # Errors
/// If the file cannot be read or decompressed, is too large, or has a line that is not a record.
pub fn read_trace(path: &Path) -> Result<Vec<TraceRecord>, TraceError> {
    let bytes = read_file(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| TraceError::NotText {
        at: error.valid_up_to(),
    })?;
    parse_trace(text).collect()
}

/// Parses a trace: returns a record, or an error, for each line of `text`.
pub fn parse_trace(text: &str) -> impl Iterator<Item = Result<TraceRecord, TraceError>> + '_ {
    (1..).zip(text.lines()).map(|(line, text)| {
        text.parse()
            .map_err(|source| TraceError::Line { line, source })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::data_files::expect_data;

    #[test]
    #[ignore = "needs the real chain data"]
    fn every_line_of_the_recorded_trace_prints_as_it_was() {
        let data = expect_data();
        let path = data.join("traces/transfers-544.trace.gz");
        let text = String::from_utf8(read_file(&path).unwrap()).unwrap();
        let records = read_trace(&path).unwrap();
        assert_eq!(records.len(), text.lines().count());
        for (record, line) in records.iter().zip(text.lines()) {
            assert_eq!(record.to_string(), line);
        }
        let count =
            |of: fn(&TraceRecord) -> bool| records.iter().filter(|record| of(record)).count();
        // 544 transfers and the inherent that sets the time.
        assert_eq!(
            count(|record| matches!(record, TraceRecord::Extrinsic(_))),
            545
        );
        assert_eq!(
            count(|record| matches!(record, TraceRecord::HostCommit)),
            545
        );
        let genesis = |record: &TraceRecord| {
            matches!(
                record,
                TraceRecord::Storage {
                    call: StorageCall::Genesis { .. },
                    ..
                }
            )
        };
        assert_eq!(count(genesis), 10_014);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let trace = "enter\nget 01 02\nget 01 zz\nexit\n";
        let errors: Vec<_> = parse_trace(trace)
            .filter_map(Result::err)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(
            errors,
            ["line 3: expected hexadecimal digits, `.` or `-` as field 2, found `zz`"]
        );
    }

    #[test]
    fn a_trace_that_is_not_text_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"enter\n\xff").unwrap();
        let error = read_trace(file.path()).unwrap_err();
        assert!(matches!(error, TraceError::NotText { at: 6 }), "{error}");
    }
}
