//! Reading and printing the lines of a trace.

use crate::{
    trace::Removal, trace::StorageCall, trace::TracePhase, trace::TraceRecord,
    trace::TraceRecordError,
};
use sp_core::storage::StateVersion;
use std::fmt;
use std::str::FromStr;

impl FromStr for TraceRecord {
    type Err = TraceRecordError;

    fn from_str(line: &str) -> Result<Self, TraceRecordError> {
        let mut fields = Fields::of(line);
        let record = match fields.name {
            "phase" => Self::Phase(fields.one_of("init or finalize", |field| match field {
                "init" => Some(TracePhase::Initialize),
                "finalize" => Some(TracePhase::Finalize),
                _ => None,
            })?),
            "tx" => Self::Extrinsic(fields.number()?),
            "enter" => Self::Enter,
            "exit" => Self::Exit,
            "host-start" => Self::HostStart,
            "host-commit" => Self::HostCommit,
            "start" => Self::Start,
            "commit" => Self::Commit,
            "rollback" => Self::Rollback,
            "ext" => Self::ProofSize,
            "offchain" => Self::Offchain {
                key: fields.bytes()?,
                value: fields.optional_bytes()?,
            },
            "ckill" => Self::KillChild {
                child: fields.bytes()?,
                removal: fields.removal()?,
            },
            name => fields.storage(name)?,
        };
        fields.end()?;
        Ok(record)
    }
}

/// Names of storage records. With a `c` in front they are of a child trie.
const STORAGE_RECORDS: [&str; 10] = [
    "genesis", "get", "hash", "exists", "next", "set", "del", "append", "clear", "root",
];

/// The fields of one line, read from left to right.
struct Fields<'a> {
    name: &'a str,
    rest: std::str::Split<'a, char>,
    field: usize,
}

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        let mut rest = line.split(' ');
        // `split` returns at least one field, which may be empty.
        let name = rest.next().unwrap_or_default();
        Self {
            name,
            rest,
            field: 0,
        }
    }

    fn one_of<T>(
        &mut self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TraceRecordError> {
        self.field += 1;
        let field = self.field;
        let found = self
            .rest
            .next()
            .ok_or(TraceRecordError::MissingField { field, expected })?;
        parse(found).ok_or_else(|| TraceRecordError::Field {
            field,
            expected,
            found: found.to_owned(),
        })
    }

    fn bytes(&mut self) -> Result<Vec<u8>, TraceRecordError> {
        self.one_of("hexadecimal digits or `.`", parse_bytes)
    }

    fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, TraceRecordError> {
        self.one_of("hexadecimal digits, `.` or `-`", |field| match field {
            "-" => Some(None),
            field => parse_bytes(field).map(Some),
        })
    }

    fn number(&mut self) -> Result<u32, TraceRecordError> {
        self.one_of("a number below 2^32", parse_number)
    }

    fn removal(&mut self) -> Result<Removal, TraceRecordError> {
        Ok(Removal {
            limit: self.one_of("a number below 2^32 or `-`", |field| match field {
                "-" => Some(None),
                field => parse_number(field).map(Some),
            })?,
            cursor: self.optional_bytes()?,
            next_cursor: self.optional_bytes()?,
            backend: self.number()?,
            unique: self.number()?,
            loops: self.number()?,
        })
    }

    fn storage(&mut self, name: &str) -> Result<TraceRecord, TraceRecordError> {
        let is_storage = |name: &&str| STORAGE_RECORDS.contains(name);
        if is_storage(&name) {
            return Ok(TraceRecord::Storage {
                child: None,
                call: self.storage_call(name)?,
            });
        }
        let unknown = || TraceRecordError::UnknownRecord(name.to_owned());
        let name = name
            .strip_prefix('c')
            .filter(is_storage)
            .ok_or_else(unknown)?;
        Ok(TraceRecord::Storage {
            child: Some(self.bytes()?),
            call: self.storage_call(name)?,
        })
    }

    fn storage_call(&mut self, name: &str) -> Result<StorageCall, TraceRecordError> {
        Ok(match name {
            "genesis" => StorageCall::Genesis {
                key: self.bytes()?,
                value: self.bytes()?,
            },
            "get" => StorageCall::Get {
                key: self.bytes()?,
                value: self.optional_bytes()?,
            },
            "hash" => StorageCall::Hash {
                key: self.bytes()?,
                hash: self.optional_bytes()?,
            },
            "exists" => StorageCall::Exists {
                key: self.bytes()?,
                exists: self.one_of("00 or 01", |field| match field {
                    "00" => Some(false),
                    "01" => Some(true),
                    _ => None,
                })?,
            },
            "next" => StorageCall::Next {
                key: self.bytes()?,
                next: self.optional_bytes()?,
            },
            "set" => StorageCall::Set {
                key: self.bytes()?,
                value: self.bytes()?,
            },
            "del" => StorageCall::Delete { key: self.bytes()? },
            "append" => StorageCall::Append {
                key: self.bytes()?,
                element: self.bytes()?,
            },
            "clear" => StorageCall::Clear {
                prefix: self.bytes()?,
                removal: self.removal()?,
            },
            "root" => StorageCall::Root {
                version: self.one_of("state version 00 or 01", |field| match field {
                    "00" => Some(StateVersion::V0),
                    "01" => Some(StateVersion::V1),
                    _ => None,
                })?,
                root: self.one_of("32 bytes in hexadecimal", |field| {
                    let root: [u8; 32] = parse_bytes(field)?.try_into().ok()?;
                    Some(root.into())
                })?,
            },
            _ => return Err(TraceRecordError::UnknownRecord(name.to_owned())),
        })
    }

    fn end(mut self) -> Result<(), TraceRecordError> {
        match self.rest.next() {
            None => Ok(()),
            Some(found) => Err(TraceRecordError::ExtraField {
                field: self.field + 1,
                found: found.to_owned(),
            }),
        }
    }
}

/// Parses a number in the form that records print: no plus sign, no leading zeros.
fn parse_number(field: &str) -> Option<u32> {
    field
        .parse()
        .ok()
        .filter(|number: &u32| number.to_string() == field)
}

/// Parses bytes in the form that records print: no upper case digits.
fn parse_bytes(field: &str) -> Option<Vec<u8>> {
    match field {
        "." => Some(Vec::new()),
        "" => None,
        field if field.bytes().any(|digit| digit.is_ascii_uppercase()) => None,
        field => hex::decode(field).ok(),
    }
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase(TracePhase::Initialize) => f.write_str("phase init"),
            Self::Phase(TracePhase::Finalize) => f.write_str("phase finalize"),
            Self::Extrinsic(index) => write!(f, "tx {index}"),
            Self::Enter => f.write_str("enter"),
            Self::Exit => f.write_str("exit"),
            Self::HostStart => f.write_str("host-start"),
            Self::HostCommit => f.write_str("host-commit"),
            Self::Start => f.write_str("start"),
            Self::Commit => f.write_str("commit"),
            Self::Rollback => f.write_str("rollback"),
            Self::ProofSize => f.write_str("ext"),
            Self::Offchain { key, value } => {
                write!(f, "offchain {} {}", Field(key), optional(value))
            }
            Self::Storage { child: None, call } => call.fmt_in(f, ""),
            Self::Storage {
                child: Some(child),
                call,
            } => call.fmt_in(f, &format!(" {}", Field(child))),
            Self::KillChild { child, removal } => write!(f, "ckill {} {removal}", Field(child)),
        }
    }
}

impl StorageCall {
    /// Prints the record. `child` is a space and the field of the child trie, or empty.
    fn fmt_in(&self, f: &mut fmt::Formatter<'_>, child: &str) -> fmt::Result {
        if !child.is_empty() {
            f.write_str("c")?;
        }
        match self {
            Self::Genesis { key, value } => {
                write!(f, "genesis{child} {} {}", Field(key), Field(value))
            }
            Self::Get { key, value } => write!(f, "get{child} {} {}", Field(key), optional(value)),
            Self::Hash { key, hash } => write!(f, "hash{child} {} {}", Field(key), optional(hash)),
            Self::Exists { key, exists } => {
                write!(f, "exists{child} {} 0{}", Field(key), u8::from(*exists))
            }
            Self::Next { key, next } => write!(f, "next{child} {} {}", Field(key), optional(next)),
            Self::Set { key, value } => write!(f, "set{child} {} {}", Field(key), Field(value)),
            Self::Delete { key } => write!(f, "del{child} {}", Field(key)),
            Self::Append { key, element } => {
                write!(f, "append{child} {} {}", Field(key), Field(element))
            }
            Self::Clear { prefix, removal } => {
                write!(f, "clear{child} {} {removal}", Field(prefix))
            }
            Self::Root { version, root } => {
                write!(
                    f,
                    "root{child} 0{} {}",
                    u8::from(*version == StateVersion::V1),
                    Field(root.as_ref())
                )
            }
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "{limit}")?,
            None => f.write_str("-")?,
        }
        let Self {
            cursor,
            next_cursor,
            backend,
            unique,
            loops,
            ..
        } = self;
        write!(
            f,
            " {} {} {backend} {unique} {loops}",
            optional(cursor),
            optional(next_cursor)
        )
    }
}

/// Bytes printed as a field of a record.
struct Field<'a>(&'a [u8]);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("."),
            bytes => f.write_str(&hex::encode(bytes)),
        }
    }
}

fn optional(bytes: &Option<Vec<u8>>) -> String {
    bytes
        .as_ref()
        .map_or_else(|| "-".to_owned(), |bytes| Field(bytes).to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_record_prints_as_it_was_read() {
        let root = "07".repeat(32);
        let in_top = [
            "genesis 01 02".to_owned(),
            "get 01 -".into(),
            "get 01 .".into(),
            "get . 0203".into(),
            "hash 01 0a".into(),
            "hash 01 -".into(),
            "exists 01 00".into(),
            "exists 01 01".into(),
            "next 01 02".into(),
            "next 01 -".into(),
            "set 01 .".into(),
            "del 01".into(),
            "append 01 ff".into(),
            "clear 01 - - - 0 1 2".into(),
            "clear . 4294967295 01 02 3 4 5".into(),
            format!("root 00 {root}"),
            format!("root 01 {root}"),
        ];
        let others = "phase init|phase finalize|tx 0|tx 4294967295|enter|exit|host-start|host-commit|start|commit|\
            rollback|ext|offchain 01 02|offchain 01 -|ckill 0c - - - 0 0 0|ckill 0c 7 01 02 3 4 5";
        let in_child = in_top
            .iter()
            .map(|line| format!("c{}", line.replacen(' ', " 0c ", 1)));
        let lines = in_top
            .iter()
            .cloned()
            .chain(in_child)
            .chain(others.split('|').map(Into::into));
        let mut read = Vec::new();
        for line in lines {
            let record: TraceRecord = line
                .parse()
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(record.to_string(), line);
            assert!(!read.contains(&record), "{line} reads like an earlier line");
            read.push(record);
        }
    }

    #[test]
    fn a_child_call_has_its_child_first() {
        let call = StorageCall::Get {
            key: vec![1],
            value: Some(vec![2]),
        };
        assert_eq!(
            "cget 0c 01 02".parse(),
            Ok(TraceRecord::Storage {
                child: Some(vec![12]),
                call: call.clone()
            })
        );
        assert_eq!(
            "get 01 02".parse(),
            Ok(TraceRecord::Storage { child: None, call })
        );
    }

    #[test]
    fn lines_that_are_no_records_are_errors() {
        let unknown = [
            "",
            " ",
            "got 01 02",
            "ccget 01 02 03",
            "c",
            "cc",
            "center",
            "Get 01 02",
            " get 01 02",
            "\u{130}",
        ];
        for line in unknown {
            let error = line.parse::<TraceRecord>().unwrap_err();
            assert!(
                matches!(error, TraceRecordError::UnknownRecord(_)),
                "{line}: {error}"
            );
        }
        for line in [
            "get",
            "get 01",
            "cget 01 02",
            "phase",
            "root 01",
            "clear 01 - - - 0 1",
            "ckill 01",
        ] {
            let error = line.parse::<TraceRecord>().unwrap_err();
            assert!(
                matches!(error, TraceRecordError::MissingField { .. }),
                "{line}: {error}"
            );
        }
        for line in [
            "enter 01",
            "get 01 02 03",
            "del 01 -",
            "tx 0 ",
            "clear 01 - - - 0 1 2 3",
        ] {
            let error = line.parse::<TraceRecord>().unwrap_err();
            assert!(
                matches!(error, TraceRecordError::ExtraField { .. }),
                "{line}: {error}"
            );
        }
        let bad = [
            "get 0 02",
            "get 0x01 02",
            "get 01 0g",
            "get 0A 02",
            "get - 02",
            "set 01 -",
            "get  01 02",
            "get 01 \u{e9}",
            "exists 01 1",
            "exists 01 02",
            "phase middle",
            "tx -1",
            "tx +1",
            "tx 01",
            "tx 4294967296",
            "root 02 00",
            "root 01 00",
            "clear 01 x - - 0 1 2",
            "clear 01 - - - - 1 2",
            "ckill 01 - - - 0 0 -",
        ];
        for line in bad {
            let error = line.parse::<TraceRecord>().unwrap_err();
            assert!(
                matches!(error, TraceRecordError::Field { .. }),
                "{line}: {error}"
            );
        }
    }
}
