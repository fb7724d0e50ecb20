//! The page of validations.

use super::{
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{count, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{counted::counted, validation::Report};
use povmeter_dev_validation::ValidationRow;

/// The charts on the page.
pub(crate) const CHARTS: [&str; 1] = ["validation"];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let measured = &self.0;
        let lead = format!(
            "A parachain’s validate_block as validators run it, medians of {}",
            counted(measured.rounds as u64, "round")
        );
        let mut page = Page::new("Validation beside the stock validate_block", lead);
        let ratios = measured.rows.iter().map(|row| row.ratio * 100.0);
        let (least, most) = ratios.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| {
            (least.min(ratio), most.max(ratio))
        });
        page.facts.push(Fact::new(
            "of the stock function’s time",
            format!("{}–{} %", decimal(least, 0), decimal(most, 0)),
            "processor time of a call in a new instance",
        ));
        page.facts.push(Fact::new(
            "blob",
            format!("{} B", count(measured.ours_blob_bytes as u64)),
            format!("stock {} B", count(measured.stock_blob_bytes as u64)),
        ));
        let note = "The time of povmeter’s validate_block in percent of that of \
                    cumulus-pallet-parachain-system, for the same PoV, with the sizes of stock nodes.";
        page.section(
            "Times",
            vec![Part::Note(note.to_owned()), Part::Chart(self.chart())],
        );
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        let checks = self.named_checks();
        let checks = checks.map(|(name, holds, detail)| (name, holds, detail.to_owned()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn chart(&self) -> Chart {
        let rows = &self.0.rows;
        let bar = |row: &ValidationRow| Bar {
            name: format!("{}, {} accounts", row.case, count(u64::from(row.accounts))),
            value: row.ratio * 100.0,
            text: format!("{} %", decimal(row.ratio * 100.0, 0)),
            color: if row.ratio > 1.0 {
                Color::Grey
            } else {
                Color::Green
            },
        };
        let words = rows.iter().map(|row| {
            format!(
                "{} of {}: {}",
                row.case,
                row.accounts,
                decimal(row.ratio, 2)
            )
        });
        Chart {
            name: "validation".to_owned(),
            title: "validate_block: time in percent of the stock function’s".to_owned(),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: vec![Group {
                    name: None,
                    bars: rows.iter().map(bar).collect(),
                }],
                scale: Scale::FromZero {
                    compare_with: 100.0,
                },
                unit: " %",
                keys: Vec::new(),
            }),
        }
    }

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Text("case"),
            Column::Number("accounts"),
            Column::Number("blocks"),
            Column::Number("PoV bytes"),
            Column::Number("stock, ms"),
            Column::Number("least–most"),
            Column::Number("povmeter, ms"),
            Column::Number("least–most"),
            Column::Number("ratio"),
            Column::Number("with the root, ms"),
            Column::Number("stock, pages"),
            Column::Number("povmeter, pages"),
        ];
        let range = |[least, most]: [f64; 2]| format!("{}–{}", decimal(least, 1), decimal(most, 1));
        let rows = self.0.rows.iter().map(|row| {
            vec![
                row.case.clone(),
                count(u64::from(row.accounts)),
                count(row.blocks as u64),
                count(row.pov_bytes as u64),
                decimal(row.stock_ms, 1),
                range(row.stock_range_ms),
                decimal(row.ours_ms, 1),
                range(row.ours_range_ms),
                decimal(row.ratio, 2),
                decimal(row.with_root_ms, 1),
                count(u64::from(row.stock_pages)),
                count(u64::from(row.ours_pages)),
            ]
        });
        Table {
            caption: "Processor time of a call; pages of 64 KiB".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}
