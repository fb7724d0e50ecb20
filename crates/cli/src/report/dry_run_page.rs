//! The page of a dry run.

use super::{
    attribution_part,
    bars::{Bar, Bars, Group, Scale},
    chart::{Chart, Drawing},
    number::{bytes, count, decimal, limit, place},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{
    dry_run_report::{DryRunReport, NO_FURTHER_NODE},
    pov::LimitRow,
};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 2] = ["added", attribution_part::CHARTS[0]];

/// A number with its sign.
fn signed(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "+" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

impl DryRunReport {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let versions = match self.new_spec_version {
            Some(new) => format!("runtime {} to {new}", self.spec_version),
            None => format!("runtime {}", self.spec_version),
        };
        let lead = format!(
            "{} in block {} of {}, {versions}: {}",
            self.item,
            count(self.number.into()),
            self.name,
            self.outcome
        );
        let mut page = Page::new("What it would add", lead);
        self.facts(&mut page);
        let mut parts = vec![Part::Note(self.in_words())];
        parts.extend(
            self.call_error
                .iter()
                .map(|error| Part::Note(error.clone())),
        );
        let checks = self.checks.iter();
        parts.extend(checks.map(|check| Part::Note(format!("{}: {}", check.name, check.detail))));
        parts.push(Part::Chart(self.chart()));
        parts.push(Part::Table(self.table()));
        page.section("The block without it and with it", parts);
        let bytes = match self.attribution.is_empty() {
            true => vec![Part::Note(NO_FURTHER_NODE.to_owned())],
            false => attribution_part::parts(&self.attribution),
        };
        page.section("Whose the added bytes are", bytes);
        page
    }

    fn facts(&self, page: &mut Page) {
        let (added, with) = (&self.added, &self.with);
        page.facts.extend([
            Fact::new(
                "PoV, compressed",
                format!("{} B", signed(added.pov_compressed)),
                format!("to {}", bytes(with.pov.compressed)),
            ),
            Fact::new(
                "proof, recorded",
                format!("{} B", signed(added.recorded)),
                format!("to {}", bytes(with.recorded)),
            ),
            Fact::new(
                "processor time",
                format!("{} ms", decimal(added.ms, 3)),
                self.what_takes_the_time(),
            ),
        ]);
        if let Some(weight) = added.weight_ref_time {
            let note = "picoseconds, by the runtime’s account";
            page.facts.push(Fact::new("weight", signed(weight), note));
        }
        page.facts.extend(self.failed_checks());
        if let Some(row) = &self.pov_limit {
            let (word, note) = match row.fits {
                true => ("fits", "within the limit of"),
                false => ("too large", "above the limit of"),
            };
            page.facts.push(Fact {
                bad: !row.fits,
                ..Fact::new("the PoV", word, format!("{note} {}", limit(row.limit)))
            });
        }
    }

    /// The fact of each check that fails.
    fn failed_checks(&self) -> impl Iterator<Item = Fact> + '_ {
        let failed = self.checks.iter().filter(|check| !check.holds);
        failed.map(|check| Fact {
            bad: true,
            ..Fact::new("check", "fails", check.name.clone())
        })
    }

    fn in_words(&self) -> String {
        let limit = self.pov_limit.map_or_else(String::new, |row| {
            let LimitRow {
                collator_limit,
                collator_count,
                collator_fits,
                ..
            } = row;
            let verdict = if collator_fits { "are below" } else { "are above" };
            format!(
                " Collators count header, extrinsics and recorded proof: {} {verdict} the {} at which they stop.",
                bytes(collator_count),
                bytes(collator_limit)
            )
        });
        format!(
            "Both blocks are initialized and end there, without the inherents of an author and without being \
             finalized.{limit}"
        )
    }

    fn chart(&self) -> Chart {
        let (without, with) = (&self.without, &self.with);
        let rows = [
            ("proof, recorded", without.recorded, with.recorded),
            ("proof, compact", without.compact, with.compact),
            ("PoV", without.pov.total, with.pov.total),
            (
                "PoV, compressed",
                without.pov.compressed,
                with.pov.compressed,
            ),
        ];
        let groups = rows.map(|(name, without, with)| {
            let bar = |what: &str, number: u64, color| Bar {
                name: what.to_owned(),
                value: place(number) / 1_024.0,
                text: bytes(number),
                color,
            };
            Group {
                name: Some(name.to_owned()),
                bars: vec![
                    bar("without", without, Color::Grey),
                    bar("with", with, Color::Blue),
                ],
            }
        });
        let words = rows
            .map(|(name, without, with)| format!("{name}: {} to {}", bytes(without), bytes(with)));
        Chart {
            name: CHARTS[0].to_owned(),
            title: "Bytes of the block without it and with it".to_owned(),
            desc: words.join("; "),
            drawing: Drawing::Bars(Bars {
                groups: groups.into(),
                scale: Scale::FromZero { compare_with: 0.0 },
                unit: " KiB",
                keys: Vec::new(),
            }),
        }
    }

    fn table(&self) -> Table {
        let (without, with, added) = (&self.without, &self.with, &self.added);
        let row = |name: &str, before: u64, after: u64, added: i64| {
            vec![name.to_owned(), count(before), count(after), signed(added)]
        };
        let mut rows = vec![
            row(
                "proof recorded, B",
                without.recorded,
                with.recorded,
                added.recorded,
            ),
            row(
                "proof encoded, B",
                without.encoded,
                with.encoded,
                added.encoded,
            ),
            row(
                "proof compact, B",
                without.compact,
                with.compact,
                added.compact,
            ),
            row("nodes", without.nodes, with.nodes, added.nodes),
            row("PoV, B", without.pov.total, with.pov.total, added.pov),
            row(
                "PoV compressed, B",
                without.pov.compressed,
                with.pov.compressed,
                added.pov_compressed,
            ),
        ];
        let weights = [
            (
                "weight, ps",
                without.weight_ref_time,
                with.weight_ref_time,
                added.weight_ref_time,
            ),
            (
                "weight, B of the proof",
                without.weight_proof_size,
                with.weight_proof_size,
                added.weight_proof_size,
            ),
        ];
        rows.extend(
            weights
                .into_iter()
                .filter_map(|(name, before, after, added)| {
                    Some(row(name, before?, after?, added?))
                }),
        );
        rows.push(vec![
            "processor time, ms".to_owned(),
            decimal(without.ms, 3),
            decimal(with.ms, 3),
            decimal(added.ms, 3),
        ]);
        let columns = vec![
            Column::Text(""),
            Column::Number("without"),
            Column::Number("with"),
            Column::Number("added"),
        ];
        Table::new(columns, rows)
    }
}
