//! The page of one block.

use super::{
    attribution_part,
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    growth::Growth,
    number::{count, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{block_report::BlockReport, checks};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 6] = [
    "time",
    "growth",
    "execute",
    "estimate",
    attribution_part::CHARTS[0],
    attribution_part::CHARTS[1],
];

impl BlockReport {
    /// The report as a page, with the growth by extrinsic.
    pub(crate) fn page(&self, growth: &Growth) -> Page {
        let mut page = Page::new("One block", self.options.line());
        growth.facts(&mut page);
        let proof = &self.proof_bytes;
        page.facts.extend([
            Fact::new(
                "processor time",
                format!("{} ms", decimal(self.phases.total.cpu_ms, 1)),
                "the whole block",
            ),
            Fact::new(
                "extrinsics",
                count(self.extrinsics.applied as u64),
                format!(
                    "{} failed, {} refused",
                    self.extrinsics.failed, self.extrinsics.refused
                ),
            ),
        ]);
        let failed = checks::failed(&self.checks).len();
        if failed > 0 {
            page.facts.push(Fact {
                bad: true,
                ..Fact::new("checks", format!("{failed} failed"), "see below")
            });
        }
        page.section("Where the time goes", self.time_parts());
        page.section("How the block grows", growth.growth_parts());
        if let Some(attribution) = &proof.attribution {
            page.section("Whose the bytes are", attribution_part::parts(attribution));
        }
        page.section("Time for each extrinsic", growth.time_parts());
        page.section(
            "The numbers",
            vec![
                Part::Table(self.sizes_table()),
                Part::Table(self.phases_table()),
                Part::Table(growth.table()),
            ],
        );
        let checks = self.checks.iter();
        let checks = checks.map(|check| (&*check.name, check.holds, check.detail.clone()));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    /// The phases of the block beside each other.
    fn time_parts(&self) -> Vec<Part> {
        let total = self.phases.total.cpu_ms.max(f64::MIN_POSITIVE);
        let phases = self.phases.named();
        let parts = phases.iter().filter(|(name, _)| *name != "total");
        let bars = parts.clone().map(|(name, time)| Bar {
            name: (*name).to_owned(),
            value: 100.0 * time.cpu_ms / total,
            text: format!(
                "{} ms, {} %",
                decimal(time.cpu_ms, 1),
                decimal(100.0 * time.cpu_ms / total, 1)
            ),
            color: match *name {
                "estimates" => Color::Orange,
                _ => Color::Blue,
            },
        });
        let beside = self.beside_peer.as_ref().map_or_else(String::new, |beside| {
            format!(
                " sp-state-machine, which makes no estimates, takes {} times as long for this block.",
                decimal(beside.ratio, 2)
            )
        });
        let words = format!(
            "The block takes {} ms of processor time. The estimates are those after each extrinsic; all else \
             would be done without them, too.{beside}",
            decimal(total, 1)
        );
        let chart = Chart {
            name: CHARTS[0].to_owned(),
            title: "Processor time by phase, in percent of the block".to_owned(),
            desc: words.clone(),
            drawing: Drawing::Bars(Bars {
                groups: vec![Group {
                    name: None,
                    bars: bars.collect(),
                }],
                scale: Scale::FromZero {
                    compare_with: 100.0,
                },
                unit: " %",
                keys: Vec::new(),
            }),
        };
        vec![Part::Note(words), Part::Chart(chart)]
    }

    fn sizes_table(&self) -> Table {
        let proof = &self.proof_bytes;
        let rows = [
            (
                "estimate after the last extrinsic, B",
                proof.estimate_after_last,
            ),
            (
                "of which only the root needs, B",
                proof.root_adds_after_last,
            ),
            ("proof recorded, B", proof.recorded),
            ("proof encoded, B", proof.encoded),
            ("proof compact, B", proof.compact),
            ("nodes in the proof", proof.nodes),
        ];
        let pov = self.pov.as_ref().map(|pov| {
            [
                ("header, B", pov.header),
                ("extrinsics, B", pov.extrinsics),
                ("PoV, B", pov.total),
                ("PoV as it is sent, compressed, B", pov.compressed),
            ]
        });
        let rows = rows.into_iter().chain(pov.into_iter().flatten());
        let rows = rows.map(|(name, value)| vec![name.to_owned(), count(value)]);
        let mut rows: Vec<_> = rows.collect();
        for (name, root) in [("parent root", &self.parent_root), ("root", &self.root)] {
            rows.push(vec![name.to_owned(), root.to_string()]);
        }
        Table {
            caption: "Sizes".to_owned(),
            ..Table::new(vec![Column::Text(""), Column::Text("")], rows)
        }
    }

    fn phases_table(&self) -> Table {
        let columns = vec![
            Column::Text("phase"),
            Column::Number("cpu ms"),
            Column::Number("wall ms"),
        ];
        let rows = self.phases.named().map(|(name, time)| {
            vec![
                name.to_owned(),
                decimal(time.cpu_ms, 3),
                decimal(time.wall_ms, 3),
            ]
        });
        Table {
            caption: "Where the time of the block went".to_owned(),
            ..Table::new(columns, rows.to_vec())
        }
    }
}
