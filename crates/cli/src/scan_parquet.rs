//! Rows of a scan as Parquet, which databases read as tables.
//!
//! ```text
//! a part of a scan is complete:
//!     read its JSON lines, a group of rows at a time
//!     write each field of them as a column
//! ```
//!
//! A Parquet file has its index at its end, so rows cannot be appended to it. An interrupted scan goes on
//! from the JSON lines.

use crate::{
    error::CliError,
    output_file::{replace_by, OutputFile},
};
use parquet::{
    basic::Compression,
    column::writer::ColumnWriter,
    data_type::ByteArray,
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        reader::{FileReader, SerializedFileReader},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};
use serde_json::Value;
use std::{
    fmt::Write,
    fs::File,
    io::{self, BufRead, BufReader, Seek},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of a group: this many are in memory at a time.
const GROUP: usize = 1 << 16;

/// The program that a file says it was written by, followed by the version.
const WRITER: &str = "povmeter version ";
/// The same in files of earlier versions: the library's default.
const LIBRARY: &str = "parquet-rs version ";

/// What a field of a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number without a sign.
    Integer,
    /// A number without a sign, or null.
    MaybeInteger,
    /// Milliseconds since 1970, or null.
    MaybeTime,
    /// A number with a fraction.
    Number,
    Text,
    MaybeText,
    /// A list of texts.
    Texts,
}

/// The fields of the rows of a file.
pub(crate) struct Columns(&'static [(&'static str, Kind)]);

/// The columns of [`crate::scan_rows::BlockRow`].
pub(crate) const BLOCKS: Columns = Columns(&[
    ("block", Kind::Integer),
    ("hash", Kind::Text),
    ("state_root", Kind::Text),
    ("timestamp_ms", Kind::MaybeTime),
    ("extrinsics", Kind::Integer),
    ("recorded", Kind::Integer),
    ("encoded", Kind::Integer),
    ("compact", Kind::Integer),
    ("nodes", Kind::Integer),
    ("pov", Kind::Integer),
    ("pov_compressed", Kind::Integer),
    ("estimate_after_last", Kind::MaybeInteger),
    ("whole_ms", Kind::Number),
    ("steps_ms", Kind::Number),
    ("reads", Kind::Integer),
    ("writes", Kind::Integer),
    ("failed", Kind::Texts),
]);

/// The columns of [`crate::scan_rows::ScanItemRow`].
pub(crate) const ITEMS: Columns = Columns(&[
    ("block", Kind::Integer),
    ("timestamp_ms", Kind::MaybeTime),
    ("pallet", Kind::Text),
    ("item", Kind::MaybeText),
    ("bytes", Kind::Integer),
    ("nodes", Kind::Integer),
    ("read", Kind::Integer),
    ("root", Kind::Integer),
    ("sibling", Kind::Integer),
    ("value", Kind::Integer),
    ("shared", Kind::Integer),
]);

impl Columns {
    /// The schema, in the notation of Parquet.
    fn message(&self) -> String {
        let mut message = "message rows {\n".to_owned();
        for (name, kind) in self.0 {
            let of = match kind {
                Kind::Integer => format!("required int64 {name} (INTEGER(64,false))"),
                Kind::MaybeInteger => format!("optional int64 {name} (INTEGER(64,false))"),
                Kind::MaybeTime => format!("optional int64 {name} (TIMESTAMP(MILLIS,true))"),
                Kind::Number => format!("required double {name}"),
                Kind::Text => format!("required byte_array {name} (STRING)"),
                Kind::MaybeText => format!("optional byte_array {name} (STRING)"),
                Kind::Texts => format!("repeated byte_array {name} (STRING)"),
            };
            // Writing to a string does not fail.
            let _ = writeln!(message, "    {of};");
        }
        message.push('}');
        message
    }

    /// Checks that the Parquet file beside the JSON lines at `rows` can be written, and is missing, empty, or one that
    /// povmeter wrote.
    ///
    /// # Errors
    /// [`CliError::Table`]; then nothing has been changed.
    pub(crate) fn expect_ours(&self, rows: &Path) -> Result<(), CliError> {
        let path = rows.with_extension("parquet");
        // A Parquet file says at its end who wrote it, so its beginning is of no use.
        let opened = OutputFile::open("the table of rows", &path, |_| self.is_ours(&path));
        opened.map(drop).map_err(CliError::Table)
    }

    /// Whether povmeter wrote the file at `path`. A file that can't be read as Parquet is another program's.
    fn is_ours(&self, path: &Path) -> bool {
        let reader = File::open(path).map(SerializedFileReader::new);
        let Ok(Ok(reader)) = reader else {
            return false;
        };
        let file = reader.metadata().file_metadata();
        let writer = file.created_by().unwrap_or_default();
        let fields = file.schema().get_fields().iter().map(|field| field.name());
        writer.starts_with(WRITER)
            || writer.starts_with(LIBRARY) && fields.eq(self.0.iter().map(|(name, _)| *name))
    }

    /// Writes the rows in the JSON lines of `file`, which is at `from`, to the Parquet file beside them, and returns
    /// its path. An earlier file is replaced when the new one is complete. Reads through `file`, because Windows lets
    /// no other handle read a locked file.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be read or written, or a row has other fields.
    pub(crate) fn write_beside(&self, from: &Path, mut file: &File) -> Result<PathBuf, CliError> {
        let to = from.with_extension("parquet");
        let written = replace_by(&to, |table| {
            file.rewind()?;
            self.write(BufReader::new(file), table)
                .map_err(io::Error::other)
        });
        written.map_err(|source| CliError::Rows {
            path: to.clone(),
            source,
        })?;
        Ok(to)
    }

    fn write(&self, rows: impl BufRead, to: &mut File) -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(&self.message())?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("{WRITER}{}", env!("CARGO_PKG_VERSION")));
        let properties = Arc::new(properties.build());
        let mut writer = SerializedFileWriter::new(to, schema, properties)?;
        let mut group: Vec<Value> = Vec::new();
        for line in rows.lines() {
            let row = serde_json::from_str(&line?);
            group.push(row.map_err(|error| ParquetError::External(Box::new(error)))?);
            if group.len() == GROUP {
                self.write_group(writer.next_row_group()?, &group)?;
                group.clear();
            }
        }
        if !group.is_empty() {
            self.write_group(writer.next_row_group()?, &group)?;
        }
        writer.close()?;
        Ok(())
    }

    fn write_group<W: io::Write + Send>(
        &self,
        mut group: SerializedRowGroupWriter<'_, W>,
        rows: &[Value],
    ) -> Result<(), ParquetError> {
        for (name, kind) in self.0 {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let fields = rows.iter().map(|row| &row[name]);
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let (values, levels) = values(fields, name, *kind, integer)?;
                    writer.write_batch(&values, levels.as_deref(), None)?;
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let (values, levels) = values(fields, name, *kind, Value::as_f64)?;
                    writer.write_batch(&values, levels.as_deref(), None)?;
                }
                ColumnWriter::ByteArrayColumnWriter(writer) if *kind == Kind::Texts => {
                    let (values, there, continued) = lists(fields, name)?;
                    writer.write_batch(&values, Some(&there), Some(&continued))?;
                }
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let (values, levels) = values(fields, name, *kind, text)?;
                    writer.write_batch(&values, levels.as_deref(), None)?;
                }
                // No kind has a column of another type.
                _ => return Err(unexpected(name)),
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn unexpected(name: &str) -> ParquetError {
    ParquetError::General(format!(
        "expected a row with the field `{name}`, found another"
    ))
}

/// The bits of an unsigned number, as Parquet keeps it; the schema says that there is no sign.
fn integer(field: &Value) -> Option<i64> {
    field.as_u64().map(u64::cast_signed)
}

fn text(field: &Value) -> Option<ByteArray> {
    field.as_str().map(ByteArray::from)
}

/// The values that a column has, and the definition level of each row; `None` if each row has a value.
type Levels<T> = (Vec<T>, Option<Vec<i16>>);

fn values<'a, T>(
    fields: impl Iterator<Item = &'a Value>,
    name: &str,
    kind: Kind,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Levels<T>, ParquetError> {
    let may_lack = matches!(kind, Kind::MaybeInteger | Kind::MaybeTime | Kind::MaybeText);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for field in fields {
        match read(field) {
            Some(value) => {
                values.push(value);
                levels.push(1);
            }
            None if may_lack && field.is_null() => levels.push(0),
            None => return Err(unexpected(name)),
        }
    }
    Ok((values, may_lack.then_some(levels)))
}

/// The texts of lists, their definition levels and their repetition levels.
type Lists = (Vec<ByteArray>, Vec<i16>, Vec<i16>);

/// The texts of all lists. Each text and each empty list has two levels: whether there is a text, and whether
/// the text continues the list of the text before.
fn lists<'a>(fields: impl Iterator<Item = &'a Value>, name: &str) -> Result<Lists, ParquetError> {
    let (mut values, mut there, mut continued) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        let list = field.as_array().ok_or_else(|| unexpected(name))?;
        if list.is_empty() {
            there.push(0);
            continued.push(0);
        }
        for (index, item) in list.iter().enumerate() {
            values.push(text(item).ok_or_else(|| unexpected(name))?);
            there.push(1);
            continued.push(i16::from(index > 0));
        }
    }
    Ok((values, there, continued))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::output_file::OutputFileError;
    use parquet::record::Field;
    use serde_json::json;
    use std::fs;

    fn block(number: u64, failed: &[&str]) -> Value {
        let time = (!number.is_multiple_of(3)).then_some(1_700_000_000_000 + number);
        json!({
            "block": number, "hash": format!("0x{number:064x}"), "state_root": "0xff",
            "timestamp_ms": time, "extrinsics": 2, "recorded": u64::MAX - number, "encoded": 4,
            "compact": 5, "nodes": 6, "pov": 7, "pov_compressed": 8,
            "estimate_after_last": time.map(|_| number), "whole_ms": 1.5, "steps_ms": number as f64 / 8.0,
            "reads": 9, "writes": 10, "failed": failed,
        })
    }

    /// A value that was read back, as the JSON that it was made from.
    fn back(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::ULong(number) => json!(number),
            Field::TimestampMillis(time) => json!(time),
            Field::Double(number) => json!(number),
            Field::Str(text) => json!(text),
            Field::ListInternal(list) => {
                json!(list.elements().iter().map(back).collect::<Vec<_>>())
            }
            other => panic!("an unknown field: {other}"),
        }
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("blocks-1-of-1.jsonl");
        let failed: [&[&str]; 3] = [&[], &["one"], &["one", "another"]];
        // More than a group.
        let rows = (0..GROUP as u64 + 10).zip(failed.into_iter().cycle());
        let rows: Vec<Value> = rows.map(|(number, failed)| block(number, failed)).collect();
        let text: Vec<String> = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(&from, text.concat()).unwrap();
        let path = BLOCKS
            .write_beside(&from, &File::open(&from).unwrap())
            .unwrap();
        assert_eq!(path, folder.path().join("blocks-1-of-1.parquet"));
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let mut found = 0;
        for (row, expected) in reader.get_row_iter(None).unwrap().zip(&rows) {
            let row = row.unwrap();
            let fields = row.get_column_iter();
            let read: serde_json::Map<String, Value> = fields
                .map(|(name, field)| (name.clone(), back(field)))
                .collect();
            assert_eq!(Value::Object(read), *expected);
            found += 1;
        }
        assert_eq!(found, rows.len());
    }

    #[test]
    fn no_rows_are_an_empty_table() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("items-1-of-1.jsonl");
        fs::write(&from, "").unwrap();
        let path = ITEMS
            .write_beside(&from, &File::open(&from).unwrap())
            .unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        let schema = reader.metadata().file_metadata().schema_descr();
        assert_eq!(schema.num_columns(), 11);
    }

    #[test]
    fn tables_of_povmeter_are_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("blocks-1-of-1.jsonl");
        let table = rows.with_extension("parquet");
        let is_ours = |columns: &Columns| match columns.expect_ours(&rows) {
            Ok(()) => true,
            Err(CliError::Table(OutputFileError::NotOurs { path, .. })) if path == table => false,
            Err(error) => panic!("{error}"),
        };
        assert!(is_ours(&BLOCKS));
        assert!(!table.exists());
        fs::write(&rows, "").unwrap();
        BLOCKS
            .write_beside(&rows, &File::open(&rows).unwrap())
            .unwrap();
        assert!(is_ours(&BLOCKS));
        let reader = SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
        let writer = reader.metadata().file_metadata().created_by().unwrap();
        assert!(writer.starts_with("povmeter version "), "{writer}");
        for (text, ours) in [("", true), ("my data", false), ("PAR1PAR1", false)] {
            fs::write(&table, text).unwrap();
            assert_eq!(is_ours(&BLOCKS), ours, "{text}");
            assert_eq!(fs::read_to_string(&table).unwrap(), text);
        }
        // Of an earlier version, which named the library only, and of another program.
        for (writer, ours) in [("parquet-rs version 60.1.0", true), ("another 1.0", false)] {
            let schema = Arc::new(parse_message_type(&BLOCKS.message()).unwrap());
            let properties = WriterProperties::builder().set_created_by(writer.to_owned());
            let file = File::create(&table).unwrap();
            let file = SerializedFileWriter::new(file, schema, Arc::new(properties.build()));
            file.unwrap().close().unwrap();
            assert_eq!(is_ours(&BLOCKS), ours, "{writer}");
            assert!(!is_ours(&ITEMS), "{writer}");
        }
        fs::remove_file(&table).unwrap();
        fs::create_dir(&table).unwrap();
        let error = BLOCKS.expect_ours(&rows).unwrap_err();
        let is_folder = matches!(error, CliError::Table(OutputFileError::Folder { .. }));
        assert!(is_folder, "{error}");
    }

    #[test]
    fn another_row_is_an_error_and_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("blocks.jsonl");
        fs::write(folder.path().join("blocks.parquet"), "before").unwrap();
        let mut row = block(1, &[]);
        row["nodes"] = Value::Null;
        fs::write(&from, format!("{row}\n")).unwrap();
        let error = crate::error::chain(
            &BLOCKS
                .write_beside(&from, &File::open(&from).unwrap())
                .unwrap_err(),
        );
        assert!(
            error.contains("expected a row with the field `nodes`"),
            "{error}"
        );
        let kept = fs::read_to_string(folder.path().join("blocks.parquet")).unwrap();
        assert_eq!(kept, "before");
    }
}
