//! The page of replayed blocks.

use super::{
    attribution_part,
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    growth::Growth,
    number::{bytes, count, count_or_none, decimal, place},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::replay_report::{ReplayReport, ALL_REPLAYED};

/// Most blocks that are shown by extrinsic. If there are more, those with the largest proofs are shown.
const MOST_GROWTHS: usize = 4;
/// Most blocks that have a bar.
const MOST_BARS: usize = 64;

/// The charts on the page.
pub(crate) const CHARTS: [&str; 15] = [
    attribution_part::CHARTS[0],
    attribution_part::CHARTS[1],
    "blocks",
    "growth-1",
    "growth-2",
    "growth-3",
    "growth-4",
    "execute-1",
    "execute-2",
    "execute-3",
    "execute-4",
    "estimate-1",
    "estimate-2",
    "estimate-3",
    "estimate-4",
];

impl ReplayReport {
    /// The report as a page. `growths` has one growth per block.
    pub(crate) fn page(&self, growths: Vec<Growth>) -> Page {
        let blocks = match self.blocks.len() {
            1 => "1 block".to_owned(),
            more => format!("{} blocks", count(more as u64)),
        };
        let lead = format!("{blocks} of {} on {}", self.name, self.on);
        let mut page = Page::new("Replayed blocks", lead);
        self.facts(&mut page, growths.first().and_then(|growth| growth.limit));
        if let ([_], [growth]) = (&self.blocks[..], &growths[..]) {
            growth.facts(&mut page);
        }
        if self.blocks.len() > 1 {
            let bars = "The recorded proof of each block.";
            let first = "The recorded proof of each of the first blocks.";
            let note = if self.blocks.len() > MOST_BARS {
                first
            } else {
                bars
            };
            page.section(
                "Proofs",
                vec![Part::Note(note.to_owned()), Part::Chart(self.chart())],
            );
        }
        self.growth_sections(&mut page, growths);
        if let Some(attribution) = &self.attribution {
            page.section("Whose the bytes are", attribution_part::parts(attribution));
        }
        page.section("The numbers", vec![Part::Table(self.blocks_table())]);
        let checks = self.checks.iter().map(|check| {
            let mut detail = format!("{} of {} blocks", check.holds, check.of);
            if let Some(failure) = &check.first_failure {
                detail = format!("{detail}; {failure}");
            }
            if let Some(first) = &check.first_by_design {
                let by_design = check.by_design;
                detail = format!(
                    "{detail}; {by_design} of them differ by design (docs/differences.md), the first: {first}"
                );
            }
            (&*check.name, check.holds == check.of, detail)
        });
        let error = self.error.iter();
        let checks = checks.chain(error.map(|error| (ALL_REPLAYED, false, error.clone())));
        page.section("Checks", vec![Part::Table(Table::checks(checks))]);
        page
    }

    fn facts(&self, page: &mut Page, limit: Option<u64>) {
        if let [_] = &self.blocks[..] {
            return;
        }
        let largest = self.blocks.iter().max_by_key(|block| block.recorded);
        page.facts.extend(largest.map(|block| {
            let note = format!("block {}", count(u64::from(block.number)));
            Fact::new("largest proof", bytes(block.recorded), note)
        }));
        page.facts.extend(limit.map(|limit| {
            let limits = self.blocks.iter().filter_map(|block| block.pov_limit);
            let over = limits.filter(|limit| !limit.fits).count();
            Fact {
                bad: over > 0,
                ..Fact::new(
                    "blocks over the limit",
                    count(over as u64),
                    format!(
                        "of {}; limit {}",
                        count(self.blocks.len() as u64),
                        bytes(limit)
                    ),
                )
            }
        }));
    }

    /// Sections for all blocks, or for those with the largest proofs, ordered by number.
    fn growth_sections(&self, page: &mut Page, growths: Vec<Growth>) {
        let mut shown: Vec<_> = self.blocks.iter().zip(growths).collect();
        shown.sort_by_key(|(block, _)| std::cmp::Reverse(block.recorded));
        shown.truncate(MOST_GROWTHS);
        shown.sort_by_key(|(block, _)| block.number);
        let all = shown.len() == self.blocks.len();
        for (index, (block, mut growth)) in shown.into_iter().enumerate() {
            growth.suffix = format!("-{}", index + 1);
            let number = count(u64::from(block.number));
            let mut parts = growth.growth_parts();
            if !all {
                let note = "One of the blocks with the largest proofs.".to_owned();
                parts.insert(0, Part::Note(note));
            }
            parts.extend(growth.time_parts());
            parts.push(Part::Table(growth.table()));
            page.section(format!("Block {number}, extrinsic by extrinsic"), parts);
        }
    }

    fn chart(&self) -> Chart {
        let shown = self.blocks.iter().take(MOST_BARS);
        let bars = shown.clone().map(|block| Bar {
            name: format!("block {}", count(u64::from(block.number))),
            value: place(block.recorded) / 1_024.0,
            text: bytes(block.recorded),
            color: Color::Blue,
        });
        let words = shown
            .clone()
            .map(|block| format!("block {}: {}", block.number, bytes(block.recorded)));
        Chart {
            name: "blocks".to_owned(),
            title: "Recorded proofs".to_owned(),
            desc: words.collect::<Vec<_>>().join(", "),
            drawing: Drawing::Bars(Bars {
                groups: vec![Group {
                    name: None,
                    bars: bars.collect(),
                }],
                scale: Scale::FromZero { compare_with: 0.0 },
                unit: " KiB",
                keys: Vec::new(),
            }),
        }
    }

    fn blocks_table(&self) -> Table {
        let columns = vec![
            Column::Number("block"),
            Column::Number("extrinsics"),
            Column::Number("as a whole, ms"),
            Column::Number("in steps, ms"),
            Column::Number("reads"),
            Column::Number("writes"),
            Column::Number("estimate"),
            Column::Number("truth"),
            Column::Number("recorded"),
            Column::Number("compact"),
            Column::Number("nodes"),
            Column::Number("PoV"),
            Column::Number("compressed"),
        ];
        let rows = self.blocks.iter().map(|block| {
            vec![
                count(u64::from(block.number)),
                count(block.extrinsics as u64),
                decimal(block.whole_ms, 3),
                decimal(block.steps_ms, 3),
                count_or_none(block.reads),
                count_or_none(block.writes),
                count_or_none(block.estimate_after_last),
                count_or_none(block.truth_after_last),
                count(block.recorded),
                count(block.compact),
                count(block.nodes),
                count_or_none(block.pov.map(|pov| pov.total)),
                count_or_none(block.pov.map(|pov| pov.compressed)),
            ]
        });
        Table {
            caption: "Sizes in bytes; estimate and truth are those after the last extrinsic"
                .to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}
