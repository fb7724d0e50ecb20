//! A chart of curves over few places, such as hits over sizes.

use super::{
    axis::{tick_label, ticks},
    number::place,
    svg::{Anchor, Canvas, Color, Layout},
};
use std::fmt::Write;

/// Curves with a value at each place. The places are equally far apart.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) places: Vec<String>,
    /// The name of the horizontal axis.
    pub(super) axis: String,
    pub(super) unit: ValueUnit,
    pub(super) curves: Vec<Curve>,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueUnit {
    /// Percent, up to 100.
    Percent,
    /// How many times as much, up to the largest value.
    Times,
}

impl ValueUnit {
    const fn sign(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Times => "×",
        }
    }

    /// The number with its unit.
    fn text(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:.1} %"),
            Self::Times => format!("{value:.2}×"),
        }
    }
}

/// One curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) values: Vec<f64>,
}

const LEFT: f64 = 42.0;

impl Lines {
    /// Draws from `top` downwards and returns the lower end.
    pub(super) fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        let keys = self
            .curves
            .iter()
            .map(|curve| (curve.color, curve.name.clone()));
        let top = canvas.legend(layout, top, &keys.collect::<Vec<_>>()) + 20.0;
        let (width, height) = (layout.width() - LEFT - 24.0, 220.0);
        let ticks = ticks(self.most(), 5.0);
        let most = match self.unit {
            ValueUnit::Percent => 100.0,
            ValueUnit::Times => ticks.last().copied().unwrap_or(1.0),
        };
        let apart = ticks.get(1).copied().unwrap_or(1.0);
        let y = |value: f64| top + height * (1.0 - value.clamp(0.0, most) / most);
        let last = place(self.places.len().saturating_sub(1).max(1) as u64);
        let x = |at: usize| LEFT + 12.0 + (width - 12.0) * place(at as u64) / last;
        canvas.text(Anchor::End, "", (LEFT - 6.0, top - 12.0), self.unit.sign());
        for tick in ticks {
            let y = y(tick);
            canvas.path("grid", &format!("M{LEFT:.1} {y:.1}h{width:.1}"));
            canvas.text(
                Anchor::End,
                "",
                (LEFT - 6.0, y + 4.0),
                &tick_label(tick, apart),
            );
        }
        for curve in &self.curves {
            let mut commands = String::new();
            for (at, value) in curve.values.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                // Writing to a string does not fail.
                let _ = write!(commands, "{command}{:.1} {:.1}", x(at), y(*value));
            }
            canvas.path(&format!("curve {}", curve.color.class()), &commands);
            for (at, value) in curve.values.iter().enumerate() {
                let value_text = self.unit.text(*value);
                let title = format!("{}, {}: {value_text}", curve.name, self.places[at]);
                canvas.rect(
                    curve.color.class(),
                    [x(at) - 3.5, y(*value) - 3.5, 7.0, 7.0],
                    &title,
                );
            }
        }
        let bottom = top + height;
        canvas.path("axis", &format!("M{LEFT:.1} {bottom:.1}h{width:.1}"));
        for (at, name) in self.places.iter().enumerate() {
            canvas.path("axis", &format!("M{:.1} {bottom:.1}v4", x(at)));
            canvas.text(Anchor::Middle, "", (x(at), bottom + 17.0), name);
        }
        canvas.text(Anchor::End, "", (LEFT + width, bottom + 36.0), &self.axis);
        bottom + 44.0
    }

    /// The largest value.
    fn most(&self) -> f64 {
        let values = self.curves.iter().flat_map(|curve| &curve.values);
        let finite = values.copied().filter(|value| value.is_finite());
        match self.unit {
            ValueUnit::Percent => 100.0,
            ValueUnit::Times => finite.fold(1.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_point() {
        let curve = |name: &str, color, values| Curve {
            name: name.to_owned(),
            color,
            values,
        };
        let lines = Lines {
            places: ["1 %", "5 %"].map(str::to_owned).to_vec(),
            axis: "memory".to_owned(),
            unit: ValueUnit::Percent,
            curves: vec![
                curve("povmeter", Color::Green, vec![50.0, 100.0]),
                curve("other", Color::Grey, vec![0.0, 250.0]),
            ],
        };
        for layout in [Layout::Wide, Layout::Narrow] {
            let mut canvas = Canvas::default();
            assert!(lines.draw(&mut canvas, layout, 0.0) < 350.0);
            let svg = canvas.into_string();
            for part in [
                "povmeter, 5 %: 100.0 %",
                "other, 1 %: 0.0 %",
                ">memory<",
                "curve green",
            ] {
                assert!(svg.contains(part), "{part}: {svg}");
            }
            assert_eq!(svg.matches("class=\"curve ").count(), 2);
        }
        let times = Lines {
            unit: ValueUnit::Times,
            ..lines.clone()
        };
        let mut canvas = Canvas::default();
        times.draw(&mut canvas, Layout::Wide, 0.0);
        let svg = canvas.into_string();
        // The largest value is within the chart.
        for part in ["other, 5 %: 250.00×", ">×<", ">250<"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let nothing = Lines {
            places: Vec::new(),
            axis: String::new(),
            unit: ValueUnit::Times,
            curves: Vec::new(),
        };
        nothing.draw(&mut Canvas::default(), Layout::Wide, 0.0);
    }
}
