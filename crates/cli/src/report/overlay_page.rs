//! The page of the overlay.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{decimal, short},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{counted::counted, overlay::Report};
use povmeter_dev_measure::OverlayRow;

/// The charts on the page.
pub(crate) const CHARTS: [&str; 1] = ["overlay"];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let lead = format!(
            "{}, keys drawn from seed {}",
            counted(self.rounds.into(), "round"),
            self.seed
        );
        let mut page = Page::new("The overlay beside sp-state-machine’s", lead);
        let transfer = self.rows.iter().find(|row| row.operation == "transfer");
        page.facts.extend(transfer.map(|row| {
            let value = format!("{} times", short(row.ratio));
            Fact::new(
                "as fast for a transfer",
                value,
                "all calls of the recorded block",
            )
        }));
        let memory = &self.memory;
        page.facts.push(Fact::new(
            "memory for each changed key",
            format!("{} B", decimal(memory.ours_bytes_per_key, 0)),
            format!(
                "sp-state-machine {} B",
                decimal(memory.peer_bytes_per_key, 0)
            ),
        ));
        let note =
            "How many times as long sp-state-machine takes for the same calls. To the right of 1× \
                    povmeter is faster, to the left sp-state-machine. Each step of the axis is ten \
                    times the last.";
        page.section(
            "Ratios",
            vec![Part::Note(note.to_owned()), Part::Chart(self.chart())],
        );
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        page
    }

    fn chart(&self) -> Chart {
        let bar = |row: &OverlayRow| Bar {
            name: row.operation.clone(),
            value: row.ratio,
            text: format!("{}×", short(row.ratio)),
            color: if row.ratio < 1.0 {
                Color::Grey
            } else {
                Color::Green
            },
        };
        let rows = &self.rows;
        let words = rows
            .iter()
            .map(|row| format!("{}: {}", row.operation, short(row.ratio)));
        Chart {
            name: "overlay".to_owned(),
            title: "Overlay: times as fast as sp-state-machine’s".to_owned(),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: vec![Group {
                    name: None,
                    bars: rows.iter().map(bar).collect(),
                }],
                scale: Scale::Times,
                unit: "×",
                keys: vec![
                    (Color::Green, "povmeter is faster".to_owned()),
                    (Color::Grey, "sp-state-machine is faster".to_owned()),
                ],
            }),
        }
    }

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Text("operation"),
            Column::Number("sp-state-machine, ns"),
            Column::Number("povmeter, ns"),
            Column::Number("times"),
            Column::Number("sp-state-machine, allocations"),
            Column::Number("povmeter, allocations"),
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                row.operation.clone(),
                decimal(row.peer_ns, 1),
                decimal(row.ours_ns, 1),
                short(row.ratio),
                decimal(row.peer_allocations, 3),
                decimal(row.ours_allocations, 3),
            ]
        });
        Table {
            caption: "Each operation".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}
