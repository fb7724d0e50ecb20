//! Reading the lines of a trace.

use crate::trace::{TraceLineError, TracePhase, TraceRecord};
use povmeter_vectors::{Answer, Op, TrieName};
use sp_core::storage::StateVersion;
use std::str::FromStr;

/// What one line of a trace holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TraceLine {
    /// An entry of the state before the block.
    Genesis {
        trie: TrieName,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// The storage root, with the state version of the call.
    Root {
        version: StateVersion,
        root: Vec<u8>,
    },
    Record(TraceRecord),
}

impl FromStr for TraceLine {
    type Err = TraceLineError;

    fn from_str(line: &str) -> Result<Self, TraceLineError> {
        let mut fields = Fields::of(line);
        let (name, trie) = fields.name_and_trie()?;
        let line = match name {
            "genesis" => Self::Genesis {
                trie,
                key: fields.bytes()?,
                value: fields.bytes()?,
            },
            "root" => Self::Root {
                version: fields.one_of("state version 00 or 01", |field| match field {
                    "00" => Some(StateVersion::V0),
                    "01" => Some(StateVersion::V1),
                    _ => None,
                })?,
                root: fields.one_of("32 bytes in hexadecimal", |field| {
                    parse_bytes(field).filter(|root| root.len() == 32)
                })?,
            },
            "phase" => {
                let phase = fields.one_of("init or finalize", |field| match field {
                    "init" => Some(TracePhase::Initialize),
                    "finalize" => Some(TracePhase::Finalize),
                    _ => None,
                })?;
                Self::Record(TraceRecord::Phase(phase))
            }
            "tx" => Self::Record(TraceRecord::Extrinsic(fields.number()?)),
            "offchain" => Self::Record(TraceRecord::Offchain {
                key: fields.bytes()?,
                value: fields.optional_bytes()?,
            }),
            name => {
                let (op, answer) = fields.call(name, trie)?;
                Self::Record(TraceRecord::Call(op, answer))
            }
        };
        fields.end()?;
        Ok(line)
    }
}

/// Names of records of a child trie, without the `c` in front of them.
const IN_CHILDREN: [&str; 9] = [
    "genesis", "get", "hash", "exists", "next", "set", "del", "clear", "kill",
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

    /// Returns the name of the record, and its trie. A `c` in front of the name stands for a child trie,
    /// whose storage key is then the first field.
    fn name_and_trie(&mut self) -> Result<(&'a str, TrieName), TraceLineError> {
        let in_child = self.name.strip_prefix('c');
        match in_child.filter(|name| IN_CHILDREN.contains(name)) {
            Some(name) => Ok((name, TrieName::Child(self.bytes()?))),
            None => Ok((self.name, TrieName::Top)),
        }
    }

    fn one_of<T>(
        &mut self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TraceLineError> {
        self.field += 1;
        let field = self.field;
        let found = self
            .rest
            .next()
            .ok_or(TraceLineError::MissingField { field, expected })?;
        parse(found).ok_or_else(|| TraceLineError::Field {
            field,
            expected,
            found: found.to_owned(),
        })
    }

    fn bytes(&mut self) -> Result<Vec<u8>, TraceLineError> {
        self.one_of("hexadecimal digits or `.`", parse_bytes)
    }

    fn optional_bytes(&mut self) -> Result<Option<Vec<u8>>, TraceLineError> {
        self.one_of("hexadecimal digits, `.` or `-`", |field| match field {
            "-" => Some(None),
            field => parse_bytes(field).map(Some),
        })
    }

    fn number(&mut self) -> Result<u32, TraceLineError> {
        self.one_of("a number below 2^32", parse_number)
    }

    /// Returns the call of the record `name`, and its result.
    fn call(&mut self, name: &str, trie: TrieName) -> Result<(Op, Answer), TraceLineError> {
        let done = |op| (op, Answer::Done);
        Ok(match name {
            "enter" => done(Op::Enter),
            "exit" => done(Op::Exit),
            "host-start" => done(Op::HostStart),
            "host-commit" => done(Op::HostCommit),
            "start" => done(Op::Start),
            "commit" => done(Op::Commit),
            "rollback" => done(Op::Rollback),
            "ext" => done(Op::Boundary),
            "set" => {
                let (key, value) = (self.bytes()?, self.bytes()?);
                done(Op::Set { trie, key, value })
            }
            "del" => {
                let key = self.bytes()?;
                done(Op::Remove { trie, key })
            }
            "append" => {
                let (key, element) = (self.bytes()?, self.bytes()?);
                done(Op::Append { trie, key, element })
            }
            "get" => {
                let key = self.bytes()?;
                (Op::Get { trie, key }, Answer::Value(self.optional_bytes()?))
            }
            "hash" => {
                let key = self.bytes()?;
                (Op::Hash { trie, key }, Answer::Hash(self.optional_bytes()?))
            }
            "exists" => {
                let key = self.bytes()?;
                let exists = self.one_of("00 or 01", |field| match field {
                    "00" => Some(false),
                    "01" => Some(true),
                    _ => None,
                })?;
                (Op::Exists { trie, key }, Answer::Exists(exists))
            }
            "next" => {
                let key = self.bytes()?;
                (Op::Next { trie, key }, Answer::Key(self.optional_bytes()?))
            }
            "clear" => {
                let prefix = self.bytes()?;
                self.clear(trie, prefix)?
            }
            // `kill` removes a whole child trie.
            "kill" if trie != TrieName::Top => self.clear(trie, Vec::new())?,
            _ => return Err(TraceLineError::UnknownRecord(self.name.to_owned())),
        })
    }

    fn clear(&mut self, trie: TrieName, prefix: Vec<u8>) -> Result<(Op, Answer), TraceLineError> {
        let limit = self.one_of("a number below 2^32 or `-`", |field| match field {
            "-" => Some(None),
            field => parse_number(field).map(Some),
        })?;
        let op = Op::Clear {
            trie,
            prefix,
            limit,
            cursor: self.optional_bytes()?,
        };
        let removed = Answer::Removed {
            cursor: self.optional_bytes()?,
            from_parent: self.number()?,
            unique: self.number()?,
            visited: self.number()?,
        };
        Ok((op, removed))
    }

    fn end(mut self) -> Result<(), TraceLineError> {
        match self.rest.next() {
            None => Ok(()),
            Some(found) => Err(TraceLineError::ExtraField {
                field: self.field + 1,
                found: found.to_owned(),
            }),
        }
    }
}

/// Parses a number as traces write it: no plus sign, no leading zeros.
fn parse_number(field: &str) -> Option<u32> {
    field
        .parse()
        .ok()
        .filter(|number: &u32| number.to_string() == field)
}

/// Parses bytes as traces write them: no upper case digits.
fn parse_bytes(field: &str) -> Option<Vec<u8>> {
    match field {
        "." => Some(Vec::new()),
        "" => None,
        field if field.bytes().any(|digit| digit.is_ascii_uppercase()) => None,
        field => hex::decode(field).ok(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Reads calls on a key, each in the top trie and in a child trie. A case is the line, the call in
    /// the JSON of test vectors, and the result.
    #[test]
    fn calls_in_any_trie_are_read_with_their_results() {
        let removed = |cursor| Answer::Removed {
            cursor,
            from_parent: 3,
            unique: 4,
            visited: 5,
        };
        let (get, hash) = (r#""get","key":"0x01""#, r#""hash","key":"0x01""#);
        let (exists, next) = (r#""exists","key":"0x01""#, r#""next_key","key":"0x01""#);
        let set = r#""set","key":"0x01","value":"0x0203""#;
        let to_nothing = r#""set","key":"0x01","value":"0x""#;
        let clear = r#""clear_prefix","prefix":"0x01""#;
        let limited = r#""clear_prefix","prefix":"0x","limit":4294967295,"cursor":"0x01""#;
        for (line, json, answer) in [
            ("get 01 -", get, Answer::Value(None)),
            ("get 01 .", get, Answer::Value(Some(vec![]))),
            ("get 01 0203", get, Answer::Value(Some(vec![2, 3]))),
            ("hash 01 -", hash, Answer::Hash(None)),
            ("hash 01 0a", hash, Answer::Hash(Some(vec![10]))),
            ("exists 01 00", exists, Answer::Exists(false)),
            ("exists 01 01", exists, Answer::Exists(true)),
            ("next 01 -", next, Answer::Key(None)),
            ("next 01 02", next, Answer::Key(Some(vec![2]))),
            ("set 01 .", to_nothing, Answer::Done),
            ("set 01 0203", set, Answer::Done),
            ("del 01", r#""remove","key":"0x01""#, Answer::Done),
            ("clear 01 - - - 3 4 5", clear, removed(None)),
            (
                "clear . 4294967295 01 02 3 4 5",
                limited,
                removed(Some(vec![2])),
            ),
        ] {
            let in_child = format!("c{}", line.replacen(' ', " 0c ", 1));
            let json_in_child = json.replacen(',', r#","child":"0x0c","#, 1);
            for (line, json) in [(line, json), (&in_child, &json_in_child)] {
                let Ok(TraceLine::Record(TraceRecord::Call(op, found))) = line.parse() else {
                    panic!("{line} is not a call");
                };
                let op = serde_json::to_string(&op).unwrap();
                assert_eq!(op, format!(r#"{{"op":{json}}}"#), "{line}");
                assert_eq!(found, answer, "{line}");
            }
        }
    }

    #[test]
    fn other_calls_are_read() {
        let append = Op::Append {
            trie: TrieName::Top,
            key: vec![1],
            element: vec![255],
        };
        for (line, op) in [
            ("append 01 ff", append),
            ("enter", Op::Enter),
            ("exit", Op::Exit),
            ("host-start", Op::HostStart),
            ("host-commit", Op::HostCommit),
            ("start", Op::Start),
            ("commit", Op::Commit),
            ("rollback", Op::Rollback),
            ("ext", Op::Boundary),
        ] {
            let record = TraceRecord::Call(op, Answer::Done);
            assert_eq!(line.parse(), Ok(TraceLine::Record(record)), "{line}");
        }
        // `kill` removes all keys with the empty prefix.
        let killed = "ckill 0c 7 01 02 3 4 5".parse::<TraceLine>();
        assert_eq!(killed, "cclear 0c . 7 01 02 3 4 5".parse());
        assert!(killed.is_ok());
    }

    #[test]
    fn what_is_no_call_is_read() {
        let offchain = |value| {
            let key = vec![1];
            TraceLine::Record(TraceRecord::Offchain { key, value })
        };
        let genesis = |trie| {
            let (key, value) = (vec![1], vec![2]);
            TraceLine::Genesis { trie, key, value }
        };
        let root = |version| {
            let root = vec![7; 32];
            TraceLine::Root { version, root }
        };
        let record = TraceLine::Record;
        let hex = "07".repeat(32);
        for (line, expected) in [
            ("genesis 01 02", genesis(TrieName::Top)),
            ("cgenesis 0c 01 02", genesis(TrieName::Child(vec![12]))),
            (&format!("root 00 {hex}")[..], root(StateVersion::V0)),
            (&format!("root 01 {hex}")[..], root(StateVersion::V1)),
            (
                "phase init",
                record(TraceRecord::Phase(TracePhase::Initialize)),
            ),
            (
                "phase finalize",
                record(TraceRecord::Phase(TracePhase::Finalize)),
            ),
            ("tx 0", record(TraceRecord::Extrinsic(0))),
            ("tx 4294967295", record(TraceRecord::Extrinsic(u32::MAX))),
            ("offchain 01 02", offchain(Some(vec![2]))),
            ("offchain 01 -", offchain(None)),
        ] {
            assert_eq!(line.parse(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_records_are_errors() {
        let unknown = [
            "",
            " ",
            "got 01 02",
            "ccget 01 02 03",
            "kill - - - 0 0 0",
            "cappend 0c 01 02",
            "croot 0c 01 02",
            "c",
            "cc",
            "center",
            "Get 01 02",
            " get 01 02",
            "\u{130}",
        ];
        for line in unknown {
            let error = line.parse::<TraceLine>().unwrap_err();
            assert!(
                matches!(error, TraceLineError::UnknownRecord(_)),
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
            let error = line.parse::<TraceLine>().unwrap_err();
            assert!(
                matches!(error, TraceLineError::MissingField { .. }),
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
            let error = line.parse::<TraceLine>().unwrap_err();
            assert!(
                matches!(error, TraceLineError::ExtraField { .. }),
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
            let error = line.parse::<TraceLine>().unwrap_err();
            assert!(
                matches!(error, TraceLineError::Field { .. }),
                "{line}: {error}"
            );
        }
    }
}
