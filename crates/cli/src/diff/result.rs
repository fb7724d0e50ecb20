//! A result, read back from its file.

use super::{
    error::DiffError,
    shape::{Number, Rows, Shape, SHAPES},
};
use povmeter_dev_data::read_file;
use serde_json::{Map, Value};
use std::path::Path;

/// The parts of a result that are compared, in its order.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) shape: &'static Shape,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) numbers: Vec<Measured>,
    /// Names of rows, as `row_name` makes them.
    pub(crate) rows: Vec<String>,
}

/// A number, and where it was found.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The name of its row; empty if it is in none.
    pub(crate) row: String,
    pub(crate) number: Number,
    pub(crate) value: f64,
    /// Whether it is only added up over rows.
    pub(crate) only_total: bool,
}

impl RunResult {
    /// The result in the file at `path`.
    ///
    /// # Errors
    /// A [`DiffError`] if the file can't be read, or holds something else.
    pub(crate) fn read(path: &Path) -> Result<Self, DiffError> {
        let bytes = read_file(path)?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|source| {
            let path = path.to_owned();
            // An empty file is cut off, too.
            match source.is_eof() {
                true => DiffError::CutOff {
                    path,
                    line: source.line(),
                    column: source.column(),
                },
                false => DiffError::NotJson { path, source },
            }
        })?;
        let reader = Reader { path };
        let shape = reader.shape(&value)?;
        reader.result(shape, &value)
    }
}

/// Reads fields; its errors name the file.
struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn shape(&self, value: &Value) -> Result<&'static Shape, DiffError> {
        let not_ours = |found| DiffError::NotOurs {
            path: self.path.to_owned(),
            found,
        };
        let what = match value {
            Value::Object(fields) => fields.get("what"),
            other => return Err(not_ours(described(Some(other)))),
        };
        let what = what.ok_or_else(|| not_ours("an object without `what`".to_owned()))?;
        // `block` and `compare block` have the same `what`; only the latter has rows.
        let rows = value.get("rows").is_some();
        let mut shapes = SHAPES.iter().filter(|shape| {
            let has_rows = shape.rows.iter().any(|list| list.field == "rows");
            what == shape.heading.what && rows == has_rows
        });
        let shape = shapes
            .next()
            .ok_or_else(|| not_ours(described(Some(what))))?;
        let schema = value.get("schema");
        if schema != Some(&shape.heading.schema.into()) {
            return Err(DiffError::Schema {
                path: self.path.to_owned(),
                what: shape.heading.what,
                expected: shape.heading.schema,
                found: described(schema),
            });
        }
        Ok(shape)
    }

    fn result(&self, shape: &'static Shape, value: &Value) -> Result<RunResult, DiffError> {
        let mut result = RunResult {
            shape,
            options: Vec::new(),
            facts: Vec::new(),
            numbers: Vec::new(),
            rows: Vec::new(),
        };
        for field in shape.options {
            match self.field(value, field)? {
                Value::Object(options) => {
                    let options = options.iter();
                    let options = options.map(|(name, value)| (name.clone(), plain(value)));
                    result.options.extend(options);
                }
                option => result.options.push(((*field).to_owned(), plain(option))),
            }
        }
        for field in shape.facts {
            let fact = plain(self.field(value, field)?);
            result.facts.push(((*field).to_owned(), fact));
        }
        for number in shape.numbers {
            let measured = self.number(value, "", *number, false)?;
            result.numbers.extend(measured);
        }
        for rows in shape.rows {
            self.rows(&mut result, value, rows)?;
        }
        Ok(result)
    }

    fn rows(&self, result: &mut RunResult, value: &Value, rows: &Rows) -> Result<(), DiffError> {
        if rows.optional && at(value, rows.field).is_none() {
            return Ok(());
        }
        let list = self.field(value, rows.field)?;
        let Value::Array(list) = list else {
            return Err(self.wrong(rows.field, "a list", list));
        };
        for (index, row) in list.iter().enumerate() {
            let place = format!("{}/{index}", rows.field);
            let Value::Object(fields) = row else {
                return Err(self.wrong(&place, "an object", row));
            };
            let key = self.key(fields, rows, &place)?;
            let judged = !key.iter().any(|part| rows.not_judged.contains(&&**part));
            let name = row_name(rows, &key);
            for fact in rows.facts {
                let value = plain(self.field(row, fact)?);
                result.facts.push((format!("{name}: {fact}"), value));
            }
            let totals = rows.totals.iter().map(|number| (number, true));
            let numbers = rows.numbers.iter().map(|number| (number, false));
            for (number, only_total) in numbers.chain(totals) {
                let number = Number {
                    judged: number.judged && judged,
                    ..*number
                };
                let measured = self.number(row, &name, number, only_total)?;
                result.numbers.extend(measured);
            }
            result.rows.push(name);
        }
        Ok(())
    }

    fn key(
        &self,
        fields: &Map<String, Value>,
        rows: &Rows,
        place: &str,
    ) -> Result<Vec<String>, DiffError> {
        let parts = rows.key.iter().map(|field| match fields.get(*field) {
            Some(value @ (Value::String(_) | Value::Number(_) | Value::Null)) => Ok(plain(value)),
            other => Err(DiffError::Field {
                path: self.path.to_owned(),
                field: format!("{place}/{field}"),
                expected: "a name or a number",
                found: described(other),
            }),
        });
        parts.collect()
    }

    /// The number; `None` if the field is null.
    fn number(
        &self,
        value: &Value,
        row: &str,
        number: Number,
        only_total: bool,
    ) -> Result<Option<Measured>, DiffError> {
        let found = self.field(value, number.field)?;
        if found.is_null() {
            return Ok(None);
        }
        let value = found.as_f64().filter(|value| *value >= 0.0);
        let value = value.ok_or_else(|| {
            let field = match row {
                "" => number.field.to_owned(),
                row => format!("{row}: {}", number.field),
            };
            self.wrong(&field, "a number of 0 or more", found)
        })?;
        Ok(Some(Measured {
            row: row.to_owned(),
            number,
            value,
            only_total,
        }))
    }

    fn field<'v>(&self, value: &'v Value, field: &str) -> Result<&'v Value, DiffError> {
        at(value, field).ok_or_else(|| DiffError::Field {
            path: self.path.to_owned(),
            field: field.to_owned(),
            expected: "a value",
            found: "nothing".to_owned(),
        })
    }

    fn wrong(&self, field: &str, expected: &'static str, found: &Value) -> DiffError {
        DiffError::Field {
            path: self.path.to_owned(),
            field: field.to_owned(),
            expected,
            found: described(Some(found)),
        }
    }
}

fn at<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    let mut names = field.split('/');
    names.try_fold(value, |value, name| value.get(name))
}

/// The name of a row: its key, after the name of its list unless the key alone is clear.
fn row_name(rows: &Rows, key: &[String]) -> String {
    // A part of the key that is null names nothing.
    let key: Vec<_> = key.iter().filter(|part| *part != "null").cloned().collect();
    let key = key.join(" ");
    let list = rows.field.rsplit('/').next().unwrap_or(rows.field);
    match list {
        "rows" | "by_extrinsic" | "by_item" => key,
        list => format!("{list} {key}"),
    }
}

/// A value as text; a string without its quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Describes what was found; small values as they are.
fn described(value: Option<&Value>) -> String {
    match value {
        None => "none".to_owned(),
        Some(Value::Object(_)) => "an object".to_owned(),
        Some(Value::Array(_)) => "a list".to_owned(),
        Some(Value::String(text)) if text.len() > 80 => "a long string".to_owned(),
        Some(value) => value.to_string(),
    }
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

    #[test]
    fn each_kind_of_damage_has_an_error_of_its_own() {
        for (content, expected) in [
            ("", "a whole result, found the end of the file at line 1, column 0"),
            (&GENESIS[..60], "a whole result, found the end of the file at line 1, column 60"),
            ("block   5 transfers", "a result in JSON, found: expected value at line 1"),
            ("[1]", "a result of povmeter, whose `what` is one of block, estimator, genesis, overlay, pool, \
                replay, root, found a list"),
            ("{}", "a result of povmeter, whose `what` is one of"),
            (r#"{"what":"else"}"#, "a result of povmeter, whose `what` is one of"),
            (r#"{"what":"genesis"}"#, "version 1 of `genesis` in `schema`, found none"),
            (r#"{"what":"genesis","schema":2}"#, "version 1 of `genesis` in `schema`, found 2"),
            (r#"{"what":"genesis","schema":1}"#, "a value in `state_version`, found nothing"),
            (r#"{"what":"replay","schema":1,"name":"a","on":"b","sizes":"c","blocks":5}"#, "a list in `blocks`, found 5"),
            (r#"{"what":"replay","schema":1,"name":"a","on":"b","sizes":"c","blocks":[5]}"#, "an object in `blocks/0`"),
            (r#"{"what":"replay","schema":1,"name":"a","on":"b","sizes":"c","blocks":[{}]}"#,
                "a name or a number in `blocks/0/number`, found none"),
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
        for bytes in [r#""5""#, "-1", "[]"] {
            let found = error(&pool(bytes));
            assert!(
                found.starts_with("a number of 0 or more in `fresh/bytes`"),
                "{found}"
            );
        }
    }

    #[test]
    fn a_result_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        std::fs::write(&path, GENESIS).unwrap();
        let result = RunResult::read(&path).unwrap();
        assert_eq!(result.shape.command, "genesis");
        assert_eq!(
            result.options,
            [("state_version".to_owned(), "1".to_owned())]
        );
        assert!(result
            .facts
            .contains(&("entries".to_owned(), "3".to_owned())));
    }
}
