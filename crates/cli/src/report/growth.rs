//! The growth of a block's proof by extrinsic, and the time that each extrinsic takes.

use super::{
    axis::{ticks, Unit},
    chart::{Chart, Drawing},
    number::{self, bytes, count, decimal, place, quantile, short, signed},
    page::{Column, Fact, Page, Part, Table},
    plot::{Layer, Limit, Plot},
    svg::Color,
};
use crate::{
    pov::{LimitRow, PovRow, COLLATOR_PERCENT},
    spread::median,
};
use povmeter_dev_runtime::{BoundarySize, ExtrinsicTimes, PovSizes, Spent};

/// One extrinsic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The size of the proof after it.
    size: BoundarySize,
    /// Bytes of the header and of the extrinsics up to this one.
    block: u64,
    /// Microseconds of processor time.
    execute: f64,
    estimate: f64,
}

impl Step {
    pub(crate) fn new(size: BoundarySize, times: ExtrinsicTimes, block: u64) -> Self {
        let micros = |spent: Spent| spent.cpu.as_secs_f64() * 1e6;
        Self {
            size,
            block,
            execute: micros(times.execute),
            estimate: micros(times.estimate),
        }
    }

    /// The bytes that a collator counts if it knows the root's nodes.
    fn count(&self) -> u64 {
        self.block + self.size.total()
    }

    /// The bytes that a collator counts if it knows reads alone.
    fn count_of_reads(&self) -> u64 {
        self.block + self.size.recorded
    }
}

/// A block, extrinsic by extrinsic.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    /// Ends the names of its charts, to tell several blocks on a page apart; empty for one block.
    pub(super) suffix: String,
    /// From extrinsic 0 on, inherents included.
    pub(super) steps: Vec<Step>,
    /// Bytes of the whole proof, recorded when the block was final.
    pub(super) recorded: u64,
    /// The whole PoV.
    pov: PovRow,
    /// The limit on the PoV in bytes.
    pub(super) limit: Option<u64>,
    /// Whether the root's share is known. sp-state-machine does not tell it.
    pub(super) estimated: bool,
}

/// Where a block crosses the part of the limit up to which collators fill blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    Never,
    /// The extrinsic after which the block is too large.
    At(usize),
    /// Finalizing the block makes it too large.
    Finalizing,
}

impl Growth {
    /// A block whose sizes after each extrinsic include the root.
    pub(crate) fn new(steps: Vec<Step>, recorded: u64, pov: PovRow, limit: Option<u64>) -> Self {
        Self {
            suffix: String::new(),
            steps,
            recorded,
            pov,
            limit,
            estimated: true,
        }
    }

    /// The same block on sp-state-machine, which does not know the root's share.
    #[cfg(feature = "wasm")]
    pub(crate) fn without_estimates(self) -> Self {
        Self {
            estimated: false,
            ..self
        }
    }

    /// The size after the last extrinsic.
    fn last(&self) -> BoundarySize {
        let nothing = BoundarySize {
            recorded: 0,
            root_adds: 0,
        };
        self.steps.last().map_or(nothing, |step| step.size)
    }

    /// Where `count` first exceeds what collators allow.
    fn crossing(&self, limit: u64, count: impl Fn(&Step) -> u64) -> Crossing {
        let row = LimitRow::new(limit, &self.pov, self.recorded);
        let over = |step: &Step| count(step) > row.collator_limit;
        match self.steps.iter().position(over) {
            Some(at) => Crossing::At(at),
            None if !row.collator_fits => Crossing::Finalizing,
            None => Crossing::Never,
        }
    }

    /// Adds the final size of the proof and its limit to the facts of `page`.
    pub(super) fn facts(&self, page: &mut Page) {
        let PovRow {
            compressed,
            compact_proof,
            ..
        } = self.pov;
        let over = self.limit.and_then(|limit| compressed.checked_sub(limit));
        let note = match (self.limit, over) {
            (Some(limit), Some(over @ 1..)) => {
                format!(
                    "{} above the limit of {}",
                    bytes(over),
                    number::limit(limit)
                )
            }
            (Some(limit), _) => {
                let share = percent(compressed, limit);
                format!("{share} of the limit of {}", number::limit(limit))
            }
            (None, _) => "header, extrinsics, compact proof; compressed".to_owned(),
        };
        page.facts.push(Fact {
            bad: matches!(over, Some(1..)),
            ..Fact::new("PoV as it is sent", bytes(compressed), note)
        });
        let note = format!("recorded; {} compact", bytes(compact_proof));
        page.facts
            .push(Fact::new("proof", bytes(self.recorded), note));
        if self.estimated {
            let last = self.last();
            let share = percent(last.root_adds, last.total());
            let note = format!("{share} after the last extrinsic");
            page.facts
                .push(Fact::new("root’s share", bytes(last.root_adds), note));
        }
        let Some(limit) = self.limit else { return };
        let row = LimitRow::new(limit, &self.pov, self.recorded);
        let (value, bad) = match self.crossing(limit, Step::count) {
            Crossing::Never => ("nowhere".to_owned(), false),
            Crossing::At(at) => (format!("at extrinsic {}", count(at as u64)), true),
            Crossing::Finalizing => ("at the end".to_owned(), true),
        };
        let note = format!("{COLLATOR_PERCENT} %, {}", bytes(row.collator_limit));
        page.facts.push(Fact {
            bad,
            ..Fact::new("collators stop", value, note)
        });
    }

    /// The growth as a chart, with notes on it and on the limit.
    pub(super) fn growth_parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Note(self.in_words())];
        parts.extend(
            self.limit
                .map(|limit| Part::Note(self.limit_in_words(limit))),
        );
        parts.push(Part::Chart(self.growth_chart()));
        parts
    }

    fn in_words(&self) -> String {
        let last = self.last();
        if !self.estimated {
            return format!(
                "After the last extrinsic {} have been read. What the root adds is not known until \
                 the block is final; then the proof has {}.",
                bytes(last.recorded),
                bytes(self.recorded)
            );
        }
        let more = match self.recorded.checked_sub(last.total()) {
            Some(more @ 1..) => format!(" Finalizing the block adds {}.", bytes(more)),
            _ => String::new(),
        };
        format!(
            "After the last extrinsic the proof has {}: {} for what was read, and {} that only the \
             computation of the root needs.{more}",
            bytes(last.total()),
            bytes(last.recorded),
            bytes(last.root_adds),
        )
    }

    fn limit_in_words(&self, limit: u64) -> String {
        let (crossing, by_reads) = (
            self.crossing(limit, Step::count),
            self.crossing(limit, Step::count_of_reads),
        );
        let (sent, name) = (self.pov.compressed, number::limit(limit));
        let first = match sent.checked_sub(limit) {
            Some(over @ 1..) => format!(
                "The PoV as it is sent, compressed, has {}: {} more than the limit of {name}.",
                bytes(sent),
                bytes(over)
            ),
            _ => format!(
                "The PoV as it is sent, compressed, has {}, {} of the limit of {name}.",
                bytes(sent),
                percent(sent, limit)
            ),
        };
        let row = LimitRow::new(limit, &self.pov, self.recorded);
        let stop = format!(
            "Collators fill blocks up to {COLLATOR_PERCENT} % of the limit, {}, of header, extrinsics and \
             recorded proof, not compressed.",
            bytes(row.collator_limit)
        );
        let crossed = match crossing {
            Crossing::Never => "This block stays below it.".to_owned(),
            Crossing::At(at) => format!("This block crosses it at extrinsic {}.", count(at as u64)),
            Crossing::Finalizing => "This block crosses it when it is finalized.".to_owned(),
        };
        let blind = match (crossing, by_reads) {
            (Crossing::At(at), Crossing::At(later)) if later > at => {
                let extrinsics = match later - at {
                    1 => "1 extrinsic".to_owned(),
                    more => format!("{} extrinsics", count(more as u64)),
                };
                format!(" A count of reads alone crosses it {extrinsics} later.")
            }
            (Crossing::At(_), Crossing::Finalizing | Crossing::Never) => {
                " A count of reads alone does not cross it before the block is finalized."
                    .to_owned()
            }
            _ => String::new(),
        };
        let outside = if self.shown_limit().is_none() {
            " The limit is far above the chart."
        } else {
            ""
        };
        format!("{first} {stop} {crossed}{blind}{outside}")
    }

    /// The limit, if the growth can be seen beside it.
    fn shown_limit(&self) -> Option<u64> {
        let highest = self.highest().max(1);
        self.limit.filter(|limit| *limit / 4 <= highest)
    }

    fn highest(&self) -> u64 {
        self.steps.iter().map(Step::count).max().unwrap_or(0)
    }

    fn growth_chart(&self) -> Chart {
        let layer = |name: &str, color, size: fn(&Step) -> u64| Layer {
            name: name.to_owned(),
            color,
            values: self.steps.iter().map(|step| place(size(step))).collect(),
        };
        let mut layers = vec![
            layer("header and extrinsics", Color::Grey, |step| step.block),
            layer("reads", Color::Blue, |step| step.size.recorded),
        ];
        if self.estimated {
            layers.push(layer("the root’s share", Color::Orange, |step| {
                step.size.root_adds
            }));
        }
        let limits = self.shown_limit().map(|limit| {
            let stop = LimitRow::new(limit, &self.pov, self.recorded).collator_limit;
            [
                Limit {
                    name: format!("{COLLATOR_PERCENT} %: collators stop"),
                    color: Color::Limit,
                    value: place(stop),
                    crossed: match self.crossing(limit, Step::count) {
                        Crossing::At(at) => {
                            Some((at, format!("crossed at extrinsic {}", count(at as u64))))
                        }
                        _ => None,
                    },
                },
                Limit {
                    name: format!("limit {}", number::limit(limit)),
                    color: Color::Ceiling,
                    value: place(limit),
                    crossed: None,
                },
            ]
        });
        let most = place(self.highest().max(self.shown_limit().unwrap_or(0)));
        let mut desc = self.in_words();
        if let Some(limit) = self.limit {
            desc = format!("{desc} {}", self.limit_in_words(limit));
        }
        Chart {
            name: self.named("growth"),
            title: format!(
                "Size of block and proof after each of {} extrinsics",
                count(self.steps.len() as u64)
            ),
            desc,
            drawing: Drawing::Plot(Plot {
                layers,
                places: "extrinsic".to_owned(),
                first: 0,
                unit: Unit::of_bytes(most),
                parted: true,
                limits: limits.into_iter().flatten().collect(),
                cut: None,
            }),
        }
    }

    /// How long extrinsics, and estimates after them, take.
    pub(super) fn time_parts(&self) -> Vec<Part> {
        let execute: Vec<_> = self.steps.iter().map(|step| step.execute).collect();
        let mut parts = time("execute", "Executing", Color::Blue, execute, self);
        if self.estimated {
            let estimate = self.steps.iter().map(|step| step.estimate).collect();
            let what = "Estimating after";
            parts.extend(time("estimate", what, Color::Orange, estimate, self));
        }
        parts.push(Part::Note(
            "Processor time of the thread. Each time includes a fraction of a microsecond for reading \
             the clock."
                .to_owned(),
        ));
        parts
    }

    /// All numbers.
    pub(super) fn table(&self) -> Table {
        let mut columns = vec![
            Column::Number("extrinsic"),
            Column::Number("header and extrinsics, B"),
            Column::Number("reads, B"),
            Column::Number("execute, µs"),
        ];
        if self.estimated {
            columns.extend([
                Column::Number("root’s share, B"),
                Column::Number("proof, B"),
                Column::Number("adds, B"),
                Column::Number("PoV at most, B"),
                Column::Number("estimate, µs"),
            ]);
        }
        let mut before = 0;
        let rows = self.steps.iter().enumerate().map(|(index, step)| {
            let mut row = vec![
                count(index as u64),
                count(step.block),
                count(step.size.recorded),
                decimal(step.execute, 1),
            ];
            if self.estimated {
                let total = step.size.total();
                row.extend([
                    count(step.size.root_adds),
                    count(total),
                    signed(total.wrapping_sub(before).cast_signed()),
                    count(PovSizes::bound(step.block, total)),
                    decimal(step.estimate, 2),
                ]);
                before = total;
            }
            row
        });
        Table {
            caption: format!("Each of {} extrinsics", count(self.steps.len() as u64)),
            folded: true,
            ..Table::new(columns, rows.collect())
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }
}

/// A chart of times in microseconds, and a note with the median and the longest.
fn time(name: &str, what: &str, color: Color, values: Vec<f64>, of: &Growth) -> Vec<Part> {
    let most = values.iter().copied().fold(0.0, f64::max);
    let median = median(values.iter().copied());
    let high = quantile(&values, 0.98);
    // Cut the chart, because a few very long times would flatten all others. The cut is a round number,
    // because the axis ends there.
    let cut = axis_end((high * 2.0).max(median * 4.0));
    // A clock with long ticks says 0 for nearly all.
    let cut = (most > cut && cut > 0.0 && values.len() > 10).then_some(cut);
    let longest = values.iter().position(|value| *value >= most).unwrap_or(0);
    let unit = Unit::of_microseconds(cut.unwrap_or(most));
    let said = |value: f64| format!("{} {}", short(value / unit.size), unit.name);
    let above = cut.map_or(0, |cut| values.iter().filter(|value| **value > cut).count());
    let marked = match above {
        0 => String::new(),
        1 => " It is marked where it leaves the picture.".to_owned(),
        above => format!(" Marks show the {above} that leave the picture."),
    };
    let words = match values.is_empty() {
        // There is no median then.
        true => "The block has no extrinsics.".to_owned(),
        false => format!(
            "{what} an extrinsic takes {} in the median and {} at most, for extrinsic {}.{marked}",
            said(median),
            said(most),
            count(longest as u64)
        ),
    };
    let chart = Chart {
        name: of.named(name),
        title: format!("{what} each extrinsic, {}", unit.name),
        desc: words.clone(),
        drawing: Drawing::Plot(Plot {
            layers: vec![Layer {
                name: format!("{} each extrinsic", what.to_lowercase()),
                color,
                values,
            }],
            places: "extrinsic".to_owned(),
            first: 0,
            unit,
            parted: false,
            limits: Vec::new(),
            cut,
        }),
    };
    vec![Part::Note(words), Part::Chart(chart)]
}

/// The round number of microseconds at which an axis for values up to `most` ends.
fn axis_end(most: f64) -> f64 {
    let unit = Unit::of_microseconds(most).size;
    ticks(most / unit, 5.0)
        .last()
        .map_or(most, |tick| tick * unit)
}

/// `part` in percent of `whole`.
fn percent(part: u64, whole: u64) -> String {
    format!(
        "{} %",
        decimal(place(part) / place(whole.max(1)) * 100.0, 1)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{attribution_part, origin::Origin};
    use super::*;
    use crate::attribution_report::AttributionReport;
    use povmeter_attribution::ByteTally;

    /// A block in which each extrinsic has 5 bytes and reads 100, and the root adds 10 for each. The header has
    /// 50 bytes.
    fn growth(extrinsics: u64, recorded: u64, compressed: u64, limit: u64) -> Growth {
        let steps = (1..=extrinsics).map(|done| {
            let (recorded, root_adds) = (done * 100, done * 10);
            let size = BoundarySize {
                recorded,
                root_adds,
            };
            Step::new(size, ExtrinsicTimes::default(), 50 + 5 * done)
        });
        let pov = PovRow {
            header: 50,
            extrinsics: 5 * extrinsics,
            compact_proof: recorded * 3 / 4,
            framing: 14,
            total: 64 + 5 * extrinsics + recorded * 3 / 4,
            compressed,
        };
        Growth::new(steps.collect(), recorded, pov, Some(limit))
    }

    fn words(growth: &Growth) -> String {
        growth.limit_in_words(growth.limit.unwrap())
    }

    /// The least limit of which collators use `bytes`.
    fn with_collators_at(bytes: u64) -> u64 {
        (bytes * 100).div_ceil(COLLATOR_PERCENT)
    }

    #[test]
    fn a_limit_is_crossed_by_the_first_size_above_it() {
        for (collators, crossing) in [
            (2_000, Crossing::Never),
            (1_200, Crossing::Never),
            (1_199, Crossing::At(9)),
            (1_085, Crossing::At(9)),
            (1_084, Crossing::At(8)),
            (164, Crossing::At(0)),
        ] {
            let limit = with_collators_at(collators);
            let growth = growth(10, 1_100, 800, limit);
            assert_eq!(growth.crossing(limit, Step::count), crossing, "{limit}");
        }
        let limit = with_collators_at(1_300);
        let late = growth(10, 1_250, 800, limit);
        assert_eq!(late.crossing(limit, Step::count), Crossing::Finalizing);
        assert!(words(&late).contains("crosses it when it is finalized."));
    }

    #[test]
    fn what_is_sent_is_limited_and_what_collators_count_is_said() {
        let said = words(&growth(10, 1_100, 800, 2_000));
        assert_eq!(
            said,
            "The PoV as it is sent, compressed, has 800 B, 40.0 % of the limit of 2,000 B. Collators fill \
             blocks up to 85 % of the limit, 1,700 B, of header, extrinsics and recorded proof, not compressed. \
             This block stays below it."
        );
        let said = words(&growth(10, 1_100, 2_010, 2_000));
        assert!(
            said.contains("2,010 B: 10 B more than the limit of 2,000 B."),
            "{said}"
        );
        let said = words(&growth(10, 1_100, 800, with_collators_at(900)));
        assert!(said.contains("This block crosses it at extrinsic 7. A count of reads alone crosses it 1 extrinsic later"), "{said}");
        let said = words(&growth(10, 1_100, 800, with_collators_at(1_150)));
        assert!(said.contains("reads alone does not cross it"), "{said}");
    }

    #[test]
    fn a_limit_far_away_does_not_press_the_growth_to_the_ground() {
        let far = growth(10, 1_100, 800, 5_242_880);
        assert!(words(&far).contains("0.0 % of the limit of 5,242,880 B (5 MiB)."));
        assert!(words(&far).contains("The limit is far above the chart."));
        assert!(!far.growth_chart().file().contains("class=\"limit\""));
        let near = growth(10, 1_100, 800, 4_000);
        assert!(near.growth_chart().file().contains("class=\"limit\""));
    }

    /// Chains have such blocks. Each number on their page is a number.
    #[test]
    fn a_block_without_extrinsics() {
        let empty = growth(0, 0, 60, 100);
        let without_estimates = Growth {
            estimated: false,
            ..empty.clone()
        };
        for (empty, facts, charts) in [(empty, 4, 4), (without_estimates, 3, 3)] {
            let mut page = Page::new("a", "b");
            empty.facts(&mut page);
            page.section("c", empty.growth_parts());
            page.section("d", empty.time_parts());
            page.section("e", vec![Part::Table(empty.table())]);
            let nothing = AttributionReport::new(&ByteTally::default(), 5);
            page.section("f", attribution_part::parts(&nothing));
            assert_eq!(page.facts.len(), facts);
            assert_eq!(page.charts().count(), charts);
            let files = page.charts().map(Chart::file);
            for html in files.chain([page.html(&Origin::here())]) {
                let mut words = html.split(|c: char| !c.is_alphanumeric());
                assert!(!words.any(|word| matches!(word, "NaN" | "inf")), "{html}");
                // A number that is missing.
                assert!(!html.contains('–'), "{html}");
            }
        }
    }

    /// A clock with long ticks says 0 for nearly all extrinsics. No axis ends at 0.
    #[test]
    fn a_chart_of_zeros_is_not_cut() {
        let mut values = vec![0.0; 300];
        for most in [0.0, 1_000.0] {
            values[7] = most;
            let parts = time(
                "execute",
                "Executing",
                Color::Blue,
                values.clone(),
                &growth(1, 1, 1, 1),
            );
            let [Part::Note(words), Part::Chart(chart)] = &parts[..] else {
                unreachable!("a note and a chart")
            };
            assert!(!words.contains("mark"), "{words}");
            let Drawing::Plot(plot) = &chart.drawing else {
                unreachable!("times are plotted")
            };
            assert_eq!(plot.cut, None);
            let file = chart.file();
            assert!(!file.contains("NaN") && !file.contains("inf"), "{file}");
        }
    }

    #[test]
    fn extrinsics_that_take_very_long_are_marked() {
        let mut values = vec![10.0; 100];
        values[7] = 900.0;
        let parts = time(
            "execute",
            "Executing",
            Color::Blue,
            values,
            &growth(1, 1, 1, 1),
        );
        let Part::Note(words) = &parts[0] else {
            unreachable!("a note first")
        };
        assert!(
            words.contains("10.0 µs in the median and 900 µs at most, for extrinsic 7"),
            "{words}"
        );
        assert!(words.contains("marked"));
    }
}
