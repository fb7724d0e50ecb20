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
//! cget CHILD K V ...                                     in a child trie: all but append and root
//! ckill CHILD LIMIT CURSOR CURSOR-OUT BACKEND UNIQUE LOOPS
//! ```
//!
//! A trace holds no sizes, so a call for the proof size has no result here.

use crate::{data_files::read_file, data_files::FileError, trace_line::TraceLine};
use povmeter_dev_runtime::Entries;
use povmeter_vectors::{Answer, Op, TrieName};
use sp_core::storage::StateVersion;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// A recorded block, and the state before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Entries of the top trie before the block.
    pub top: Entries,
    /// Entries of child tries before the block, by storage key.
    pub children: BTreeMap<Vec<u8>, Entries>,
    /// State version of the roots that the block asks for, if it asks.
    pub version: Option<StateVersion>,
    /// The calls and events of the block, in order.
    pub records: Vec<TraceRecord>,
}

/// A call or an event in a recorded block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRecord {
    /// The block author begins a phase.
    Phase(TracePhase),
    /// The block author begins the extrinsic with this index.
    Extrinsic(u32),
    /// A write to the offchain index; no value removes the key.
    Offchain {
        /// Key in the index.
        key: Vec<u8>,
        /// Value, if one is written.
        value: Option<Vec<u8>>,
    },
    /// A call, and its result.
    Call(Op, Answer),
}

/// A phase of a block outside its extrinsics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePhase {
    /// Before the first extrinsic.
    Initialize,
    /// After the last extrinsic.
    Finalize,
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
        source: TraceLineError,
    },
    /// A key of the state before the block has two values.
    #[error("line {line}: expected one entry per key, found a second")]
    SecondEntry {
        /// Number of the line; the first is 1.
        line: usize,
    },
    /// Two roots have different state versions.
    #[error("line {line}: expected a root of state version {expected:?}, found one of {found:?}")]
    Version {
        /// Number of the line; the first is 1.
        line: usize,
        /// Version of the root before.
        expected: StateVersion,
        /// Version of this root.
        found: StateVersion,
    },
}

/// Why a line is not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceLineError {
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

/// Reads the trace in the file at `path`, which may be compressed with gzip.
///
/// # Errors
/// If the file cannot be read or decompressed, is too large, or is not a trace.
pub fn read_trace(path: &Path) -> Result<Trace, TraceError> {
    let bytes = read_file(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| TraceError::NotText {
        at: error.valid_up_to(),
    })?;
    text.parse()
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let read = text
                .parse()
                .map_err(|source| TraceError::Line { line, source })?;
            match read {
                TraceLine::Genesis { trie, key, value } => {
                    let entries = match trie {
                        TrieName::Top => &mut trace.top,
                        TrieName::Child(name) => trace.children.entry(name).or_default(),
                    };
                    if entries.insert(key, value).is_some() {
                        return Err(TraceError::SecondEntry { line });
                    }
                }
                TraceLine::Root { version, root } => {
                    let expected = *trace.version.get_or_insert(version);
                    if version != expected {
                        let found = version;
                        return Err(TraceError::Version {
                            line,
                            expected,
                            found,
                        });
                    }
                    let call = TraceRecord::Call(Op::Root, Answer::Root(root));
                    trace.records.push(call);
                }
                TraceLine::Record(record) => trace.records.push(record),
            }
        }
        Ok(trace)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::data_files::expect_data;

    #[test]
    #[ignore = "needs the real chain data"]
    fn every_line_of_the_recorded_trace_is_read() {
        let path = expect_data().join("traces/transfers-544.trace.gz");
        let lines = String::from_utf8(read_file(&path).unwrap()).unwrap();
        let trace = read_trace(&path).unwrap();
        assert_eq!(trace.top.len(), 10_014);
        assert!(trace.children.is_empty());
        assert_eq!(trace.version, Some(StateVersion::V1));
        let (records, entries) = (trace.records.len(), trace.top.len());
        assert_eq!(records + entries, lines.lines().count());
        let count = |of: fn(&TraceRecord) -> bool| {
            let records = trace.records.iter();
            records.filter(|record| of(record)).count()
        };
        // 544 transfers and the inherent that sets the time.
        assert_eq!(
            count(|record| matches!(record, TraceRecord::Extrinsic(_))),
            545
        );
        assert_eq!(
            count(|record| matches!(record, TraceRecord::Call(Op::HostCommit, _))),
            545
        );
    }

    #[test]
    fn entries_are_apart_from_what_happens() {
        let root = "07".repeat(32);
        let text = format!("genesis 01 02\ncgenesis 0c 01 03\nenter\nroot 00 {root}\nexit\n");
        let trace: Trace = text.parse().unwrap();
        let entries = |value| Entries::from([(vec![1], vec![value])]);
        let call = |op, answer| TraceRecord::Call(op, answer);
        let expected = Trace {
            top: entries(2),
            children: BTreeMap::from([(vec![12], entries(3))]),
            version: Some(StateVersion::V0),
            records: vec![
                call(Op::Enter, Answer::Done),
                call(Op::Root, Answer::Root(vec![7; 32])),
                call(Op::Exit, Answer::Done),
            ],
        };
        assert_eq!(trace, expected);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let root = "07".repeat(32);
        for (trace, expected) in [
            (
                "enter\nget 01 02\nget 01 zz\nexit\n".to_owned(),
                "line 3: expected hexadecimal digits, `.` or `-` as field 2, found `zz`",
            ),
            (
                "genesis 01 02\ngenesis 01 02\n".to_owned(),
                "line 2: expected one entry per key, found a second",
            ),
            (
                format!("root 00 {root}\nroot 01 {root}\n"),
                "line 2: expected a root of state version V0, found one of V1",
            ),
        ] {
            let error = trace.parse::<Trace>().unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_trace_that_is_not_text_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"enter\n\xff").unwrap();
        let error = read_trace(file.path()).unwrap_err();
        assert!(matches!(error, TraceError::NotText { at: 6 }), "{error}");
    }
}
