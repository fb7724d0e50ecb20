//! The page of caches.

use super::{
    chart::{Chart, Drawing},
    lines::{Curve, Lines, ValueUnit},
    number::{count, decimal},
    page::{Column, Fact, Page, Part, Table},
    svg::Color,
};
use crate::{cache::Report, table::or_dash};
use povmeter_dev_cache::{Access, CacheRow, Keying};

/// The charts on the page.
pub(crate) const CHARTS: [&str; 3] = ["cache-uniform", "cache-zipf", "cache-active-set"];

/// A curve, and the rows that it shows: the best one at each place.
struct Shown {
    name: &'static str,
    color: Color,
    rows: fn(&CacheRow) -> bool,
}

const OWN: [&str; 3] = ["povmeter", "fifo-ring", "sp-trie"];

const SHOWN: [Shown; 4] = [
    Shown {
        name: "povmeter",
        color: Color::Green,
        rows: |row| row.policy == OWN[0],
    },
    Shown {
        name: "best library by path",
        color: Color::Blue,
        rows: |row| row.keying == Keying::Path && !OWN.contains(&row.policy.as_str()),
    },
    Shown {
        name: "best library by hash",
        color: Color::Orange,
        rows: |row| row.keying == Keying::Hash && !OWN.contains(&row.policy.as_str()),
    },
    Shown {
        name: "ring by hash",
        color: Color::Grey,
        rows: |row| row.policy == OWN[1],
    },
];

impl Report {
    /// The report as a page.
    pub(crate) fn page(&self) -> Page {
        let report = &self.0;
        let options = &report.options;
        let lead = format!(
            "{} accounts, {} blocks that touch {} of them each",
            count(options.accounts as u64),
            count(options.blocks as u64),
            count(options.touched as u64)
        );
        let mut page = Page::new("Caches of trie nodes", lead);
        let points = report.least_lead_points;
        let points = points.map(|points| format!("{} points", decimal(points, 1)));
        page.facts.push(Fact {
            bad: !report.leads(),
            ..Fact::new(
                "least lead in hits",
                or_dash(points),
                "to the best other cache",
            )
        });
        page.facts.push(Fact::new(
            "hits, times those of a ring by hash",
            decimal(report.least_fifo_ratio, 2),
            "at the least",
        ));
        page.facts.push(Fact {
            bad: !report.is_lean(),
            ..Fact::new(
                "memory, times the payload",
                or_dash(report.most_memory_ratio.map(|ratio| decimal(ratio, 2))),
                "bytes and hashes of the nodes; at the most",
            )
        });
        let note = "Look-ups that found the node, in the second half of the blocks, by the memory of the \
                    cache in percent of the bytes of the state. All caches have the same real memory, their \
                    own tables included. Write share of the middle one measured.";
        let mut parts = vec![Part::Note(note.to_owned())];
        let charts = CHARTS.iter().zip(Access::ALL);
        let charts = charts.filter(|(_, access)| options.accesses.contains(access));
        parts.extend(charts.map(|(name, access)| Part::Chart(self.chart(name, access))));
        page.section("Hits", parts);
        page.section("The numbers", vec![Part::Table(self.rows_table())]);
        page.section(
            "Checks",
            vec![Part::Table(Table::checks(self.named_checks()))],
        );
        page
    }

    fn chart(&self, name: &str, access: Access) -> Chart {
        let options = &self.0.options;
        let shares = &options.write_shares;
        let write_share = shares.get(shares.len() / 2).copied().unwrap_or(0);
        let of_load = |row: &&CacheRow| row.access == access && row.write_share == write_share;
        let curves = SHOWN.iter().map(|shown| Curve {
            name: shown.name.to_owned(),
            color: shown.color,
            values: (options.bytes_percents.iter())
                .map(|percent| {
                    let rows = self.0.rows.iter().filter(of_load);
                    let rows =
                        rows.filter(|row| row.bytes_percent == *percent && (shown.rows)(row));
                    rows.map(|row| row.hit_percent).fold(0.0, f64::max)
                })
                .collect(),
        });
        let curves: Vec<Curve> = curves.collect();
        let words = curves.iter().map(|curve| {
            let values: Vec<_> = curve
                .values
                .iter()
                .map(|value| decimal(*value, 1))
                .collect();
            format!("{}: {}", curve.name, values.join(", "))
        });
        let drawn = match access {
            Access::Uniform => "all accounts alike",
            Access::Zipf => "accounts by Zipf’s law",
            Access::ActiveSet => "mostly a twentieth of the accounts",
        };
        Chart {
            name: name.to_owned(),
            title: format!("Hits, {drawn}, {write_share} % written"),
            desc: words.collect::<Vec<_>>().join("; "),
            drawing: Drawing::Lines(Lines {
                places: options
                    .bytes_percents
                    .iter()
                    .map(|percent| format!("{percent} %"))
                    .collect(),
                axis: "memory, percent of the state’s bytes".to_owned(),
                unit: ValueUnit::Percent,
                curves,
            }),
        }
    }

    fn rows_table(&self) -> Table {
        let columns = vec![
            Column::Text("access"),
            Column::Number("written, %"),
            Column::Number("memory, %"),
            Column::Text("policy"),
            Column::Text("by"),
            Column::Number("hits, %"),
            Column::Number("leaves, %"),
            Column::Number("entries"),
            Column::Number("bytes per entry"),
            Column::Number("memory, times payload"),
            Column::Number("ns"),
            Column::Number("ns on 2 threads"),
            Column::Number("stale"),
        ];
        let rows = self.0.rows.iter().map(|row| {
            vec![
                row.access.name().to_owned(),
                row.write_share.to_string(),
                row.bytes_percent.to_string(),
                row.policy.clone(),
                row.keying.name().to_owned(),
                decimal(row.hit_percent, 1),
                decimal(row.leaf_hit_percent, 1),
                count(row.entries as u64),
                or_dash(row.bytes_per_node().map(|bytes| decimal(bytes, 0))),
                or_dash(row.ratio_of_nodes().map(|ratio| decimal(ratio, 2))),
                decimal(row.ns, 0),
                decimal(row.ns_two_threads, 0),
                count(row.stale_reads),
            ]
        });
        Table {
            caption: "Each cache on each load".to_owned(),
            ..Table::new(columns, rows.collect())
        }
    }
}
