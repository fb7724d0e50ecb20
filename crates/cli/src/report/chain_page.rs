//! The page of a chain of blocks.

use super::{
    axis::Unit,
    chart::{Chart, Drawing},
    number::{bytes, count, decimal, place},
    page::{Column, Fact, Page, Part, Table},
    plot::{Layer, Plot},
    svg::Color,
};
use crate::chain_report::{ChainReport, ChainRow};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 3] = ["chain-time", "chain-nodes", "chain-memory"];

impl ChainReport {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::new("Blocks on top of each other", self.line());
        let facts = [
            ("block", self.block_ms, "median of the second half"),
            ("commit", self.commit_ms, "until the store has taken it"),
            ("prune", self.prune_ms, "the oldest state"),
        ];
        for (name, millis, note) in facts {
            page.facts
                .push(Fact::new(name, format!("{} ms", decimal(millis, 2)), note));
        }
        if let Some(last) = self.rows.last() {
            let note = format!("loaded nodes take {}", bytes(last.carried_bytes));
            let resident = last.resident_bytes.map_or_else(|| "–".to_owned(), bytes);
            page.facts.push(Fact::new("memory", resident, note));
            page.facts.push(Fact::new(
                "on disk",
                bytes(last.disk_bytes),
                "files of the store",
            ));
        }
        page.section(
            "Time",
            vec![
                Part::Note(
                    "Time of the clock. A high step is a block in which the memory of loaded nodes was full \
                     and half of it was freed, or in which the machine was busy."
                        .to_owned(),
                ),
                Part::Chart(self.time_chart()),
            ],
        );
        page.section(
            "Nodes",
            vec![
                Part::Note(
                    "Nodes that each block asked the store for, because no block before it had loaded them."
                        .to_owned(),
                ),
                Part::Chart(self.plot("chain-nodes", "Nodes asked of the store", Unit { name: "", size: 1.0 }, vec![
                    self.layer("nodes", Color::Blue, |row| place(row.nodes_asked)),
                ])),
            ],
        );
        page.section("Memory", vec![Part::Chart(self.memory_chart())]);
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        let checks = self.named_checks();
        let checks = checks.map(|(name, holds, detail)| (name, holds, detail.to_owned()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn layer(&self, name: &str, color: Color, value: fn(&ChainRow) -> f64) -> Layer {
        Layer {
            name: name.to_owned(),
            color,
            values: self.rows.iter().map(value).collect(),
        }
    }

    /// The number of blocks, in words.
    fn counted_blocks(&self) -> String {
        match self.rows.len() {
            1 => "1 block".to_owned(),
            more => format!("{} blocks", count(more as u64)),
        }
    }

    fn plot(&self, name: &str, title: &str, unit: Unit, layers: Vec<Layer>) -> Chart {
        let blocks = self.counted_blocks();
        Chart {
            name: name.to_owned(),
            title: format!("{title}, {blocks}"),
            desc: format!("{title}, for each of {blocks}. The table below has the numbers."),
            drawing: Drawing::Plot(Plot {
                layers,
                places: "block".to_owned(),
                first: self.rows.first().map_or(1, |row| row.number),
                unit,
                parted: false,
                limits: Vec::new(),
                cut: None,
            }),
        }
    }

    fn time_chart(&self) -> Chart {
        let layers = vec![
            self.layer("build", Color::Blue, |row| row.block_ms * 1e3),
            self.layer("commit", Color::Orange, |row| row.commit_ms * 1e3),
            self.layer("prune", Color::Green, |row| row.prune_ms * 1e3),
        ];
        let unit = Unit {
            name: "ms",
            size: 1e3,
        };
        self.plot(
            "chain-time",
            "Time to build, commit and prune",
            unit,
            layers,
        )
    }

    fn memory_chart(&self) -> Chart {
        let carried = self.layer("carried", Color::Blue, |row| place(row.carried_bytes));
        let most = carried.values.iter().copied().fold(0.0, f64::max);
        self.plot(
            "chain-memory",
            "Memory of loaded nodes",
            Unit::of_bytes(most),
            vec![carried],
        )
    }

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Number("block"),
            Column::Number("build, ms"),
            Column::Number("commit, ms"),
            Column::Number("prune, ms"),
            Column::Number("nodes asked"),
            Column::Number("proof, B"),
            Column::Number("carried, B"),
            Column::Number("resident, B"),
            Column::Number("on disk, B"),
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                count(u64::from(row.number)),
                decimal(row.block_ms, 2),
                decimal(row.commit_ms, 2),
                decimal(row.prune_ms, 2),
                count(row.nodes_asked),
                count(row.proof_bytes),
                count(row.carried_bytes),
                super::number::count_or_none(row.resident_bytes),
                count(row.disk_bytes),
            ]
        });
        Table {
            caption: format!("Each of {}", self.counted_blocks()),
            folded: true,
            ..Table::new(columns, rows.collect())
        }
    }
}
