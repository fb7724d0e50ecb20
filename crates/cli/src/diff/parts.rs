//! The parts of a result that are compared: options, facts and numbers.
//!
//! The name of a part is its path in the JSON, with slashes between names. [`facts!`] and [`numbers!`]
//! name a part after the variable that holds its field.

use super::measure::Gauge;
use crate::spread::Spread;
use serde::Serialize;
use serde_json::Value;

/// The parts of a result, in the order of the result.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Values that must be equal for a comparison to mean something.
    pub(crate) options: Vec<(String, String)>,
    /// Values that are listed if they differ.
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) checks: Vec<Checked>,
    pub(crate) numbers: Vec<Measured>,
    /// The names of rows.
    pub(crate) rows: Vec<String>,
}

/// A check.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) name: String,
    /// The limit that it checks, if there is one.
    pub(crate) limit: Option<u64>,
    pub(crate) holds: bool,
}

/// A number, and where it was found.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The name of its row; empty if it is in no row.
    pub(crate) row: String,
    pub(crate) field: String,
    pub(crate) gauge: Gauge,
    pub(crate) value: f64,
    /// The range of the middle half of the rounds; `None` if it is not known.
    pub(crate) spread: Option<Spread>,
    /// Whether only its sum over rows is compared, because the time of one row alone is too short.
    pub(crate) only_total: bool,
    /// How many numbers it is the sum of, if it is judged only beside a sum of as many.
    pub(crate) addends: Option<usize>,
}

impl Measured {
    /// The row and the field.
    pub(crate) fn name(&self) -> String {
        name(&self.row, &self.field, "")
    }
}

/// The name of a part: its row, if it is in one, and its field in a `folder` of fields.
pub(super) fn name(row: &str, folder: &str, field: &str) -> String {
    match row {
        "" => format!("{folder}{field}"),
        row => format!("{row}: {folder}{field}"),
    }
}

/// A value that may be a number.
pub(super) trait Amount {
    /// Returns the number; `None` if the value is null.
    fn amount(&self) -> Option<f64>;
}

macro_rules! amounts {
    ($($number:ty),*) => {$(
        impl Amount for $number {
            fn amount(&self) -> Option<f64> {
                // Exact, because counts and sizes are far below 2^52.
                Some(*self as f64)
            }
        }
    )*};
}

amounts!(u32, u64, usize, f64);

impl<A: Amount> Amount for Option<A> {
    fn amount(&self) -> Option<f64> {
        self.as_ref().and_then(Amount::amount)
    }
}

impl Parts {
    /// Adds each field of `options` as an option.
    pub(super) fn options(&mut self, options: &impl Serialize) -> Result<(), serde_json::Error> {
        if let Value::Object(options) = serde_json::to_value(options)? {
            let options = options.into_iter();
            let options = options.map(|(name, value)| (name, plain(value)));
            self.options.extend(options);
        }
        Ok(())
    }

    pub(super) fn option(
        &mut self,
        name: &str,
        value: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let value = plain(serde_json::to_value(value)?);
        self.options.push((name.to_owned(), value));
        Ok(())
    }

    /// Adds checks, and whether they hold.
    pub(super) fn checks<'n>(&mut self, checks: impl IntoIterator<Item = (&'n str, bool)>) {
        let checks = checks.into_iter();
        let checks = checks.map(|(name, holds)| Checked {
            name: name.to_owned(),
            limit: None,
            holds,
        });
        self.checks.extend(checks);
    }

    /// Returns an adder of parts that are in no row.
    pub(super) fn top(&mut self) -> Row<'_> {
        Row {
            parts: self,
            name: String::new(),
            judged: true,
        }
    }

    /// Adds a row, and returns an adder of its parts.
    pub(super) fn row(&mut self, name: impl Into<String>) -> Row<'_> {
        let name = name.into();
        self.rows.push(name.clone());
        Row {
            parts: self,
            name,
            judged: true,
        }
    }
}

/// Adds the parts of a row, or those in no row.
pub(super) struct Row<'a> {
    parts: &'a mut Parts,
    name: String,
    judged: bool,
}

impl Row<'_> {
    /// The same row, whose numbers are only shown unless `judged`.
    pub(super) fn judged(self, judged: bool) -> Self {
        Self { judged, ..self }
    }

    pub(super) fn fact(
        &mut self,
        folder: &str,
        field: &str,
        value: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let value = plain(serde_json::to_value(value)?);
        let name = name(&self.name, folder, field);
        self.parts.facts.push((name, value));
        Ok(())
    }

    /// Adds the check of a `limit` on this row, and whether it holds.
    pub(super) fn check(&mut self, folder: &str, field: &str, limit: u64, holds: bool) {
        self.parts.checks.push(Checked {
            name: name(&self.name, folder, field),
            limit: Some(limit),
            holds,
        });
    }

    /// Adds a number unless it is null.
    pub(super) fn number(&mut self, gauge: Gauge, folder: &str, field: &str, value: &impl Amount) {
        self.add(gauge, format!("{folder}{field}"), value, (None, false));
    }

    /// Adds a number that was measured in rounds, the middle half of them in `spread`.
    pub(super) fn number_within(
        &mut self,
        gauge: Gauge,
        folder: &str,
        field: &str,
        value: &impl Amount,
        spread: Option<Spread>,
    ) {
        self.add(gauge, format!("{folder}{field}"), value, (spread, false));
    }

    /// Adds the sum of `addends` numbers. It is only shown beside a sum of more or fewer.
    pub(super) fn sum(&mut self, gauge: Gauge, field: &str, sum: &impl Amount, addends: usize) {
        let at = self.parts.numbers.len();
        self.number(gauge, "", field, sum);
        for added in &mut self.parts.numbers[at..] {
            added.addends = Some(addends);
        }
    }

    /// Adds a number to the sum over all rows that both results have.
    pub(super) fn total(&mut self, gauge: Gauge, field: &str, value: &impl Amount) {
        self.add(gauge, field.to_owned(), value, (None, true));
    }

    fn add(
        &mut self,
        gauge: Gauge,
        field: String,
        value: &impl Amount,
        (spread, only_total): (Option<Spread>, bool),
    ) {
        let measured = value.amount().map(|value| Measured {
            row: self.name.clone(),
            field,
            gauge: Gauge {
                judged: gauge.judged && self.judged,
                ..gauge
            },
            value,
            spread,
            only_total,
            addends: None,
        });
        self.parts.numbers.extend(measured);
    }
}

/// Adds a fact for each variable to a row, named after the variable: `facts!(row, "folder/": a, b)`.
macro_rules! facts {
    ($row:expr, $folder:expr; $($field:ident),+) => {
        $($row.fact($folder, stringify!($field), $field)?;)+
    };
}

/// Adds a number for each variable to a row, named after the variable.
macro_rules! numbers {
    ($row:expr, $gauge:expr, $folder:expr; $($field:ident),+) => {
        $($row.number($gauge, $folder, stringify!($field), $field);)+
    };
}

pub(super) use {facts, numbers};

/// A value as text; a string without its quotes.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
