//! A chart of bars, one below the other.

use super::{
    axis::{tick_label, ticks},
    svg::{text_width, Anchor, Canvas, Color, Layout},
};

/// Bars with a common scale.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) groups: Vec<Group>,
    pub(super) scale: Scale,
    /// The unit that follows the numbers of the axis.
    pub(super) unit: &'static str,
    /// The legend; empty if there is only one colour.
    pub(super) keys: Vec<(Color, String)>,
}

/// Bars, with a heading above them if there is a name.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: Option<String>,
    pub(super) bars: Vec<Bar>,
}

/// One number.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    /// The number with its unit.
    pub(super) text: String,
    pub(super) color: Color,
}

/// Where bars begin, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero, with a line at a number to compare with.
    FromZero { compare_with: f64 },
    /// From one on a logarithmic scale, to the right if larger and to the left if smaller.
    Times,
}

/// The place and scale of the bars in a chart.
struct Frame {
    left: f64,
    width: f64,
    low: f64,
    high: f64,
    scale: Scale,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::FromZero { .. } => value,
            Scale::Times => value.max(1e-9).log10(),
        };
        let share = (value - self.low) / (self.high - self.low);
        // NaN needs a place, too.
        let share = if share.is_nan() { 0.0 } else { share };
        self.left + self.width * share.clamp(0.0, 1.0)
    }
}

impl Bars {
    /// Draws from `top` downwards and returns the lower end.
    pub(super) fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        let top = canvas.legend(layout, top, &self.keys);
        let (ticks, frame) = self.frame(layout);
        let height = match layout {
            Layout::Wide => 24.0,
            Layout::Narrow => 42.0,
        };
        let mut rows = Canvas::default();
        let mut y = top + 4.0;
        for (index, group) in self.groups.iter().enumerate() {
            if let Some(name) = &group.name {
                y += if index == 0 { 14.0 } else { 26.0 };
                rows.text(Anchor::Start, "ink group halo", (0.0, y), name);
                y += 8.0;
            }
            for bar in &group.bars {
                frame.bar(&mut rows, layout, y, bar);
                y += height;
            }
        }
        for (value, label) in ticks {
            let x = frame.x(value);
            let class = if value == frame.origin() {
                "axis"
            } else {
                "grid"
            };
            canvas.path(class, &format!("M{x:.1} {top:.1}V{y:.1}"));
            // The first label must not begin left of the picture.
            let middle = x.max(text_width(&label) / 2.0);
            canvas.text(Anchor::Middle, "", (middle, y + 15.0), &label);
        }
        if let Scale::FromZero { compare_with } = self.scale {
            let x = frame.x(compare_with);
            canvas.path("axis", &format!("M{x:.1} {top:.1}V{y:.1}"));
        }
        canvas.append(rows);
        y + 24.0
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    /// The ticks with their labels, and the place of the bars.
    fn frame(&self, layout: Layout) -> (Vec<(f64, String)>, Frame) {
        let widest = |text: fn(&Bar) -> &str| {
            let widths = self.bars().map(|bar| text_width(text(bar)));
            widths.fold(0.0, f64::max)
        };
        let left = match layout {
            Layout::Wide => widest(|bar| &bar.name).min(280.0) + 12.0,
            Layout::Narrow => 12.0,
        };
        // Room for the numbers to the right of the bars.
        let right = (widest(|bar| &bar.text) + 12.0).max(24.0);
        let values = self
            .bars()
            .map(|bar| bar.value)
            .filter(|value| value.is_finite());
        let (mut low, mut high) = values.fold((1.0, 1.0), |(low, high), value: f64| {
            (value.max(1e-9).min(low), value.max(high))
        });
        let ticks = match self.scale {
            Scale::FromZero { compare_with } => {
                let ticks = ticks(
                    high.max(compare_with),
                    if layout == Layout::Wide { 6.0 } else { 4.0 },
                );
                let apart = ticks.get(1).copied().unwrap_or(1.0);
                (low, high) = (0.0, ticks.last().copied().unwrap_or(1.0));
                let label = |tick: f64| format!("{}{}", tick_label(tick, apart), self.unit);
                ticks.into_iter().map(|tick| (tick, label(tick))).collect()
            }
            Scale::Times => {
                low = low.log10().floor();
                high = high.log10().ceil().max(low + 1.0);
                let powers = (-9..=15).map(|power| (f64::from(power), 10f64.powi(power)));
                let powers = powers.filter(|(power, _)| (low..=high).contains(power));
                let label = |tick: f64| format!("{}{}", tick_label(tick, tick), self.unit);
                powers.map(|(_, tick)| (tick, label(tick))).collect()
            }
        };
        let frame = Frame {
            left,
            width: layout.width() - left - right,
            low,
            high,
            scale: self.scale,
        };
        (ticks, frame)
    }
}

impl Frame {
    /// The value at which bars begin.
    fn origin(&self) -> f64 {
        match self.scale {
            Scale::FromZero { .. } => 0.0,
            Scale::Times => 1.0,
        }
    }

    fn bar(&self, canvas: &mut Canvas, layout: Layout, y: f64, bar: &Bar) {
        let (from, to) = (self.x(self.origin()), self.x(bar.value));
        let (left, right) = (from.min(to), from.max(to));
        let y = match layout {
            Layout::Wide => {
                let middle = (self.left - 8.0, y + 15.0);
                canvas.text(Anchor::End, "ink", middle, &bar.name);
                y
            }
            Layout::Narrow => {
                canvas.text(
                    Anchor::Start,
                    "ink halo",
                    (self.left + 4.0, y + 13.0),
                    &bar.name,
                );
                y + 15.0
            }
        };
        let title = format!("{}: {}", bar.name, bar.text);
        // One pixel at least, so that a tiny value can be seen.
        let place = [left, y + 3.0, (right - left).max(1.0), 16.0];
        canvas.rect(bar.color.class(), place, &title);
        canvas.text(
            Anchor::Start,
            "ink halo",
            (right + 6.0, y + 15.0),
            &bar.text,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64], scale: Scale) -> String {
        drawn_in(Layout::Wide, "×", values, scale)
    }

    fn drawn_in(layout: Layout, unit: &'static str, values: &[f64], scale: Scale) -> String {
        let bars = values.iter().map(|value| Bar {
            name: format!("bar {value}"),
            value: *value,
            text: format!("{value} x"),
            color: Color::Blue,
        });
        let bars = Bars {
            groups: vec![Group {
                name: Some("a group".to_owned()),
                bars: bars.collect(),
            }],
            scale,
            unit,
            keys: Vec::new(),
        };
        let mut canvas = Canvas::default();
        bars.draw(&mut canvas, layout, 0.0);
        canvas.into_string()
    }

    /// Left end and width of each bar.
    fn rects(svg: &str) -> Vec<(f64, f64)> {
        let number = |line: &str, name: &str| -> f64 {
            let rest = line.split(&format!(" {name}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let lines = svg.lines().filter(|line| line.starts_with("<rect"));
        lines
            .map(|line| (number(line, "x"), number(line, "width")))
            .collect()
    }

    #[test]
    fn the_first_label_begins_within_the_picture() {
        let scale = Scale::FromZero { compare_with: 0.0 };
        let svg = drawn_in(Layout::Narrow, " KiB", &[2.0, 9.0], scale);
        let label = svg.lines().find(|line| line.contains(">0 KiB<")).unwrap();
        let x: f64 = label
            .split("x=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(x + 0.05 >= text_width("0 KiB") / 2.0, "{label}");
    }

    #[test]
    fn bars_from_zero_are_as_long_as_their_values() {
        let svg = drawn(
            &[50.0, 100.0, 200.0],
            Scale::FromZero {
                compare_with: 100.0,
            },
        );
        let bars = rects(&svg);
        assert!((bars[2].1 / bars[0].1 - 4.0).abs() < 0.02, "{bars:?}");
        assert!(bars.iter().all(|bar| (bar.0 - bars[0].0).abs() < 0.05));
        for part in ["a group", "bar 50", "200 x", ">150×<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }

    #[test]
    fn times_reach_to_both_sides_of_one() {
        let svg = drawn(&[0.1, 10.0, 100.0], Scale::Times);
        let bars = rects(&svg);
        assert!((bars[0].0 + bars[0].1 - bars[1].0).abs() < 0.11, "{bars:?}");
        assert!((bars[2].1 / bars[1].1 - 2.0).abs() < 0.02, "{bars:?}");
        assert!(svg.contains(">0.1×<") && svg.contains(">100×<"), "{svg}");
    }

    #[test]
    fn what_is_no_number_has_a_place() {
        for scale in [Scale::Times, Scale::FromZero { compare_with: 1.0 }] {
            let svg = drawn(&[f64::NAN, 0.0, -1.0, f64::INFINITY, 2.0], scale);
            assert!(!svg.contains("NaN\"") && !svg.contains("\"inf"), "{svg}");
        }
        drawn(&[], Scale::Times);
    }
}
