//! Text tables whose columns fit their content.

use std::fmt;

/// The space between two columns.
const GAP: &str = "  ";

/// A table with `N` columns. They are aligned to the right, or to the left if their heading begins
/// with `<`.
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        let rows = Vec::new();
        Self { heading, rows }
    }

    /// Adds a row below the others.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    /// The lines of the table, the last without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.heading.map(|name| name.trim_start_matches('<'));
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.fold(names[column].chars().count(), usize::max)
        });
        let line = |cells: [&str; N]| {
            let cells = cells.iter().zip(self.heading).zip(widths);
            let cells = cells.map(|((cell, heading), width)| match heading.starts_with('<') {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join(GAP);
            line.trim_end().to_owned()
        };
        f.write_str(&line(names))?;
        let mut rows = self.rows.iter();
        rows.try_for_each(|row| write!(f, "\n{}", line(row.each_ref().map(String::as_str))))
    }
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
    fn what_is_not_there_is_a_dash() {
        assert_eq!(or_dash(Some(1)), "1");
        assert_eq!(or_dash(None::<u64>), "-");
    }
}
