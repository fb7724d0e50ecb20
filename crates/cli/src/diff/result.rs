//! A result, read back from its file.

use super::{error::described, error::DiffError, kind::Kind, parts::Parts};
use povmeter_dev_data::read_file_up_to;
use serde_json::Value;
use std::path::Path;

/// The most bytes of a result, unpacked. A short number needs about 40 times its length in memory.
const RESULT_LIMIT: u64 = 64 << 20;

/// The kind of a result, and its parts to compare.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) kind: &'static Kind,
    pub(crate) parts: Parts,
}

impl RunResult {
    /// Reads the result in the file at `path`.
    ///
    /// # Errors
    /// A [`DiffError`] if the file can't be read, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, DiffError> {
        let bytes = read_file_up_to(path, RESULT_LIMIT)?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|source| {
            let path = path.to_owned();
            // An empty file counts as cut off, too.
            match source.is_eof() {
                true => DiffError::CutOff {
                    path,
                    line: source.line(),
                    column: source.column(),
                },
                false => DiffError::NotJson { path, source },
            }
        })?;
        let kind = kind(path, &value)?;
        let parts = (kind.read)(path, &value)?;
        // No compared number is negative, but the types of times and ratios allow negative values.
        if let Some(negative) = parts.numbers.iter().find(|number| number.value < 0.0) {
            return Err(DiffError::Field {
                path: path.to_owned(),
                field: negative.name(),
                expected: "a number of 0 or more".to_owned(),
                found: negative.value.to_string(),
            });
        }
        Ok(Self { kind, parts })
    }
}

/// The kind of the result in the file at `path`, by the fields `what`, `rows` and `schema`.
fn kind(path: &Path, value: &Value) -> Result<&'static Kind, DiffError> {
    let not_ours = |found| DiffError::NotOurs {
        path: path.to_owned(),
        found,
    };
    let what = match value {
        Value::Object(fields) => fields.get("what"),
        other => return Err(not_ours(described(Some(other)))),
    };
    let what = what.ok_or_else(|| not_ours("an object without `what`".to_owned()))?;
    let kind = Kind::find(what, value.get("rows").is_some());
    let kind = kind.ok_or_else(|| not_ours(described(Some(what))))?;
    let schema = value.get("schema");
    if schema != Some(&kind.schema.into()) {
        return Err(DiffError::Schema {
            path: path.to_owned(),
            what: kind.what,
            expected: kind.schema,
            found: described(schema),
        });
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a file with this content.
    fn error(content: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        std::fs::write(&path, content).unwrap();
        let error = RunResult::read(&path).unwrap_err().to_string();
        let start = format!("{}: expected ", path.display());
        let rest = error.strip_prefix(&start);
        rest.unwrap_or_else(|| panic!("{error}")).to_owned()
    }

    const GENESIS: &str = r#"{"what":"genesis","schema":1,"name":null,"id":null,"entries":3,
        "child_tries":0,"child_entries":0,"state_version":1,"state_root":"0x","genesis_hash":"0x"}"#;

    /// A replay with these blocks.
    fn replay(blocks: &str) -> String {
        let start = r#"{"what":"replay","schema":1,"name":"a","on":"povmeter","sizes":"reads","#;
        format!(r#"{start}"blocks":{blocks},"checks":[]}}"#)
    }

    #[test]
    fn each_kind_of_damage_has_an_error_of_its_own() {
        for (content, expected) in [
            ("", "a whole result, found the end of the file at line 1, column 0"),
            (&GENESIS[..60], "a whole result, found the end of the file at line 1, column 60"),
            ("block   5 transfers", "a result in JSON, found: expected value at line 1"),
            ("[1]", "a result of povmeter, whose `what` is one of block, cache, chain, estimator, genesis, overlay, parallel, \
                pool, replay, root, validation, found a list"),
            ("{}", "a result of povmeter, whose `what` is one of"),
            (r#"{"what":"else"}"#, "a result of povmeter, whose `what` is one of"),
            (r#"{"what":"genesis"}"#, "version 1 of `genesis` in `schema`, found none"),
            (r#"{"what":"genesis","schema":2}"#, "version 1 of `genesis` in `schema`, found 2"),
            (r#"{"what":"genesis","schema":1}"#, "a value in `name`, found nothing"),
            (&GENESIS.replace(r#""entries":3"#, r#""entries":-3"#),
                "a whole number of 0 or more in `entries`, found -3"),
            (&GENESIS.replace(r#""state_root":"0x""#, r#""state_root":5"#), "a string in `state_root`, found 5"),
            (&replay("5"), "a list in `blocks`, found 5"),
            (&replay("[5]"), "an object in `blocks/0`, found 5"),
            (&replay("[{}]"), "a value in `blocks/0/number`, found nothing"),
        ] {
            let found = error(content);
            assert!(found.starts_with(expected), "{content}: {found}");
        }
    }

    #[test]
    fn numbers_are_numbers() {
        let pool = |bytes: &str| {
            let row = format!(
                r#"{{"allocations_per_extrinsic":0.0,"allocations":1,"bytes":{bytes},"bytes_of_sealing":1}}"#
            );
            format!(
                r#"{{"what":"pool","schema":1,"same_block":true,"same_sizes":true,"extrinsics":1,
                "fresh":{row},"pooled":{row},"kept":{row},"bytes_percent":1.0,"kept_percent":1.0}}"#
            )
        };
        for bytes in [r#""5""#, "-1", "[]", "null"] {
            let found = error(&pool(bytes));
            let expected = format!("a number of 0 or more in `fresh/bytes`, found {bytes}");
            assert!(
                found.starts_with(expected.trim_end_matches("[]")),
                "{found}"
            );
        }
    }

    #[test]
    fn a_result_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        // A newer program may have more fields.
        let newer = GENESIS.replace(r#""name":null"#, r#""name":null,"new":[1]"#);
        for genesis in [GENESIS, &newer] {
            std::fs::write(&path, genesis).unwrap();
            let RunResult { kind, parts } = RunResult::read(&path).unwrap();
            assert_eq!(kind.command, "genesis");
            let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            assert_eq!(parts.options, [pair("state_version", "1")]);
            assert!(parts.facts.contains(&pair("entries", "3")));
            assert!(parts.facts.contains(&pair("name", "null")));
        }
    }
}
