//! The page of strategies to know the proof size.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, count_or_none, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::compare_report::{CompareReport, Row, WAYS};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 1] = ["ladder"];

impl CompareReport {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::new("Ways to know the size of the proof", self.block_line());
        let find = |name| self.rows.iter().find(|row| row.name == name);
        for (name, note) in [
            ("povmeter", "with a size after each extrinsic"),
            ("povmeter-none", "without sizes"),
        ] {
            page.facts.extend(find(name).map(|row| {
                let value = format!("{} %", decimal(row.percent_of_peer_none, 0));
                Fact::new(&format!("{name} beside peer-none"), value, note)
            }));
        }
        page.facts.extend(find("peer-none").map(|row| {
            let value = format!("{} ms", decimal(row.median_ms, 1));
            Fact::new("peer-none", value, "processor time of the block")
        }));
        let note =
            "How many blocks are built in the time in which sp-state-machine builds 100 without \
                    an estimate. Everything ran in turns in one process.";
        page.section(
            "Throughput",
            vec![Part::Note(note.to_owned()), Part::Chart(self.ladder())],
        );
        page.section(
            "The numbers",
            vec![
                Part::Table(ways_table()),
                Part::Table(self.time_table()),
                Part::Table(self.size_table()),
            ],
        );
        if !self.threads.is_empty() {
            let note = "The extrinsics of a povmeter block in order, and on several threads, by the clock. A runtime \
                        that reclaims proof weight asks for the size in each extrinsic; the rest of such an \
                        extrinsic waits for its turn.";
            page.section(
                "Several threads",
                vec![
                    Part::Note(note.to_owned()),
                    Part::Table(self.threads_table()),
                ],
            );
        }
        let checks = self.named_checks().into_iter();
        let checks = checks.map(|(name, holds, detail)| (name, holds, detail.to_owned()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn ladder(&self) -> Chart {
        let bars = self.rows.iter().map(|row| Bar {
            name: row.name.clone(),
            value: row.percent_of_peer_none,
            text: format!(
                "{} %{}{}",
                decimal(row.percent_of_peer_none, 1),
                row.spread()
                    .map_or_else(String::new, |spread| format!(" ({spread})")),
                too_low(row)
            ),
            color: match &*row.name {
                "peer-none" => Color::Grey,
                name if name.starts_with("povmeter") => Color::Green,
                _ => Color::Blue,
            },
        });
        let words = self
            .rows
            .iter()
            .map(|row| format!("{}: {} %", row.name, decimal(row.percent_of_peer_none, 1)));
        Chart {
            name: "ladder".to_owned(),
            title: "Throughput in percent of sp-state-machine without an estimate".to_owned(),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: vec![Group {
                    name: None,
                    bars: bars.collect(),
                }],
                scale: Scale::FromZero {
                    compare_with: 100.0,
                },
                unit: " %",
                keys: vec![
                    (Color::Grey, "sp-state-machine".to_owned()),
                    (Color::Blue, "strategies on top of it".to_owned()),
                    (Color::Green, "povmeter".to_owned()),
                ],
            }),
        }
    }

    fn time_table(&self) -> Table {
        let columns = vec![
            Column::Text("way"),
            Column::Number("median cpu ms"),
            Column::Number("% of peer-none"),
            Column::Number("median wall ms"),
            Column::Number("µs to execute an extrinsic"),
            Column::Number("ms to finalize"),
            Column::Number("state machine’s share, %"),
            Column::Number("allocations per extrinsic"),
            Column::Number("rounds"),
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                row.name.clone(),
                decimal(row.median_ms, 3),
                decimal(row.percent_of_peer_none, 1),
                decimal(row.median_wall_ms, 3),
                decimal(row.per_extrinsic_us, 1),
                decimal(row.finalize_ms, 3),
                decimal(row.state_machine_percent, 1),
                row.allocations_per_extrinsic
                    .map_or_else(|| "–".to_owned(), |number| decimal(number, 1)),
                count(row.rounds as u64),
            ]
        });
        Table {
            caption: "Times: medians of processor time of the thread, unless named otherwise"
                .to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }

    fn threads_table(&self) -> Table {
        let columns = vec![
            Column::Text("extrinsics on"),
            Column::Text("runtime asks for sizes"),
            Column::Number("extrinsics, ms"),
            Column::Number("times as fast"),
            Column::Number("block, ms"),
            Column::Number("% of peer-none"),
            Column::Number("executed ahead"),
        ];
        let rows = self.threads.iter().map(|row| {
            vec![
                row.name(),
                row.asks().to_owned(),
                decimal(row.extrinsics_wall_ms, 2),
                row.times_as_fast(),
                decimal(row.wall_ms, 2),
                decimal(row.percent_of_peer_none, 1),
                count(row.ahead),
            ]
        });
        Table {
            caption: "Medians of the clock; in brackets the middle half of the rounds".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }

    fn size_table(&self) -> Table {
        let columns = vec![
            Column::Text("way"),
            Column::Number("estimate after the last"),
            Column::Number("too low by"),
            Column::Number("recorded"),
            Column::Number("encoded"),
            Column::Number("compact"),
            Column::Number("nodes"),
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                row.name.clone(),
                count_or_none(row.estimate_after_last),
                count_or_none(row.estimate_under_bytes),
                count(row.recorded),
                count(row.encoded),
                count(row.compact),
                count(row.nodes),
            ]
        });
        Table {
            caption: "Sizes in bytes".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}

/// What each way is.
fn ways_table() -> Table {
    let rows = WAYS.map(|(name, meaning)| vec![name.to_owned(), meaning.to_owned()]);
    Table {
        caption: "The ways".to_owned(),
        ..Table::new(
            vec![Column::Text("way"), Column::Text("what it is")],
            rows.to_vec(),
        )
    }
}

/// The note on an estimate that is below the truth.
fn too_low(row: &Row) -> String {
    match row.estimate_under_bytes {
        Some(under @ 1..) => format!(", {} B too low", count(under)),
        _ => String::new(),
    }
}
