//! Text tables whose columns fit their content.

use crate::one_line::one_line;
use std::{fmt, io};

/// The space between two columns.
const GAP: &str = "  ";

/// A table with `N` columns. They are aligned to the right, or to the left if their heading begins
/// with `<`.
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[String; N]>,
    /// The number of columns that name the row.
    keys: usize,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        Self {
            heading,
            rows: Vec::new(),
            keys: 1,
        }
    }

    /// Adds a row below the others.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        // A name from outside must not break the line.
        self.rows
            .push(cells.map(|cell| one_line(&cell).into_owned()));
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    /// The lines of the table, the last without a line break. A table that is wider than the terminal is
    /// printed in parts below each other, each with the first columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.within(screen_columns()))
    }
}

impl<const N: usize> Table<N> {
    /// Returns the table with `keys` first columns that name the row and begin each part.
    pub(crate) fn keyed_by(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// The table in parts that are not wider than `most`, as far as that is possible.
    fn within(&self, most: usize) -> String {
        let names = self.heading.map(|name| name.trim_start_matches('<'));
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.fold(names[column].chars().count(), usize::max)
        });
        let parts = parts(&widths, self.keys, most);
        let parts = parts.iter().map(|columns| {
            let line = |cells: [&str; N]| {
                let cells = columns.iter().map(|&column| {
                    let (cell, width) = (cells[column], widths[column]);
                    match self.heading[column].starts_with('<') {
                        true => format!("{cell:<width$}"),
                        false => format!("{cell:>width$}"),
                    }
                });
                let line = cells.collect::<Vec<_>>().join(GAP);
                line.trim_end().to_owned()
            };
            let rows = self.rows.iter();
            let rows = rows.map(|row| line(row.each_ref().map(String::as_str)));
            let lines: Vec<_> = [line(names)].into_iter().chain(rows).collect();
            lines.join("\n")
        });
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

/// The columns of each part of a table: the first `keys`, and as many others as fit into `most`, but at
/// least one.
fn parts(widths: &[usize], keys: usize, most: usize) -> Vec<Vec<usize>> {
    let keys: Vec<_> = (0..keys.min(widths.len())).collect();
    let mut parts = vec![keys.clone()];
    for column in keys.len()..widths.len() {
        let part = parts.last().map_or(&keys[..], Vec::as_slice);
        let columns = part.iter().chain([&column]);
        let width: usize = columns.map(|&column| widths[column] + GAP.len()).sum();
        if part.len() > keys.len() && width.saturating_sub(GAP.len()) > most {
            parts.push(keys.clone());
        }
        if let Some(part) = parts.last_mut() {
            part.push(column);
        }
    }
    parts
}

/// The number of columns on the screen: the variable COLUMNS if it is set, else the width of the terminal at
/// standard output, else no limit.
fn screen_columns() -> usize {
    let set = std::env::var("COLUMNS").ok();
    let set = set
        .and_then(|columns| columns.parse().ok())
        .filter(|columns| *columns > 0);
    let of_terminal = || {
        let size = terminal_size::terminal_size_of(io::stdout())?;
        Some(usize::from(size.0 .0))
    };
    set.or_else(of_terminal).unwrap_or(usize::MAX)
}

/// The value, or a dash where there is none.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(["<", "cpu ms", "<note"]);
        assert_eq!(table.to_string(), "  cpu ms  note");
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        table.row(row(["peer-none", "1.5", "größer"]));
        table.row(row(["ours", "12345.5", ""]));
        let lines = [
            "            cpu ms  note",
            "peer-none      1.5  größer",
            "ours       12345.5",
        ];
        assert_eq!(table.to_string(), lines.join("\n"));
    }

    #[test]
    fn a_table_for_a_narrow_terminal_is_in_parts() {
        let mut table = Table::new(["<name", "one", "two", "three"]);
        table.row(["a\u{1b}".to_owned(), "1".into(), "2".into(), "3".into()]);
        let whole = ["name     one  two  three", "a\\u{1b}    1    2      3"];
        assert_eq!(table.within(24), whole.join("\n"));
        let parts = [
            "name     one  two",
            "a\\u{1b}    1    2",
            "",
            "name     three",
            "a\\u{1b}      3",
        ];
        assert_eq!(table.within(23), parts.join("\n"));
        assert_eq!(table.within(17), parts.join("\n"));
        // Each part has at least one column beside the names.
        assert_eq!(table.within(0).matches("name").count(), 3);
        let keyed = table.keyed_by(2).within(0);
        assert_eq!(keyed.matches("one").count(), 2, "{keyed}");
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        assert_eq!(or_dash(Some(1)), "1");
        assert_eq!(or_dash(None::<u64>), "-");
    }
}
