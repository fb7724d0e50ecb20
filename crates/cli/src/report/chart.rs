//! A chart, inside a page and as a file of its own.

use super::{
    bars::Bars,
    lines::Lines,
    plot::Plot,
    svg::{escape, Anchor, Canvas, Layout},
};

/// Colours and shapes, for pages and for charts that stand alone.
pub(super) const THEME: &str = include_str!("theme.css");

/// Marks the beginning of a file that a report wrote, so that the next report may replace it.
pub(super) const FILE_MARK: &str = "<!-- povmeter ";

/// A chart, with a description in words.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The name of its file, without the ending.
    pub(super) name: String,
    pub(super) title: String,
    /// The description, for readers who can't see the chart.
    pub(super) desc: String,
    pub(super) drawing: Drawing,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) enum Drawing {
    Plot(Plot),
    Bars(Bars),
    Lines(Lines),
}

impl Drawing {
    /// Draws from `top` downwards and returns the lower end.
    fn draw(&self, canvas: &mut Canvas, layout: Layout, top: f64) -> f64 {
        match self {
            Self::Plot(plot) => plot.draw(canvas, layout, top),
            Self::Bars(bars) => bars.draw(canvas, layout, top),
            Self::Lines(lines) => lines.draw(canvas, layout, top),
        }
    }
}

/// The style without variables, because programs other than browsers do not know them and would paint everything black:
/// each rule with the colours of the light theme, and for browsers once more with those of the dark theme.
fn with_fixed_colors(style: &str) -> String {
    let (light, rest) = style.split_once("@media").unwrap_or((style, ""));
    let (dark, rules) = rest.split_once("\n}\n").unwrap_or((rest, ""));
    let fixed = |theme: &str, rule: &str| {
        let definitions = theme.split([';', '{']).filter_map(|part| {
            let (name, color) = part.trim().strip_prefix("--")?.split_once(": ")?;
            Some((format!("var(--{name})"), color))
        });
        definitions.fold(rule.to_owned(), |rule, (variable, color)| {
            rule.replace(&variable, color)
        })
    };
    let colored: String = rules
        .split_inclusive('\n')
        .filter(|rule| rule.contains("var("))
        .map(|rule| format!("  {rule}"))
        .collect();
    format!(
        "\n{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        fixed(light, rules),
        fixed(dark, &colored)
    )
}

impl Chart {
    /// The chart twice, for wide and for narrow screens. The page shows one of them.
    pub(super) fn inline(&self) -> String {
        let drawings = [Layout::Wide, Layout::Narrow].map(|layout| {
            let mut canvas = Canvas::default();
            let height = self.drawing.draw(&mut canvas, layout, 0.0);
            let view = format!("0 0 {} {height:.0}", layout.width());
            self.element(layout.class(), &view, "", &canvas.into_string())
        });
        drawings.concat()
    }

    /// A part of every page that shows the chart of this name.
    pub(super) fn trace(name: &str) -> String {
        format!(
            "<title id=\"{}-{}-title\">",
            escape(name),
            Layout::Wide.class()
        )
    }

    /// The chart as a file: with its title, and with the style of the page.
    pub(super) fn file(&self) -> String {
        const PADDING: f64 = 20.0;
        let layout = Layout::Wide;
        let mut canvas = Canvas::default();
        canvas.text(Anchor::Start, "ink title", (0.0, 15.0), &self.title);
        let height = self.drawing.draw(&mut canvas, layout, 36.0) + 2.0 * PADDING;
        let width = layout.width() + 2.0 * PADDING;
        let before = format!(
            "<style>{}</style>\n<rect class=\"ground\" width=\"{width}\" height=\"{height:.0}\" rx=\"8\"/>\n\
             <g transform=\"translate({PADDING} {PADDING})\">\n",
            with_fixed_colors(THEME)
        );
        let body = canvas.into_string() + "</g>\n";
        // A size for programs that choose none.
        let view = format!("0 0 {width} {height:.0}\" width=\"{width}\" height=\"{height:.0}");
        let svg = self.element("alone", &view, &before, &body);
        format!("{FILE_MARK}{} -->\n{svg}", env!("CARGO_PKG_VERSION"))
    }

    fn element(&self, class: &str, view: &str, before: &str, body: &str) -> String {
        let (name, title, desc) = (escape(&self.name), escape(&self.title), escape(&self.desc));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {class}\" viewBox=\"{view}\" role=\"img\" \
             aria-labelledby=\"{name}-{class}-title {name}-{class}-desc\">\n\
             <title id=\"{name}-{class}-title\">{title}</title>\n\
             <desc id=\"{name}-{class}-desc\">{desc}</desc>\n{before}{body}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_no_variables() {
        let fixed = with_fixed_colors(THEME);
        assert!(
            !fixed.contains("var(") && !fixed.contains(":root"),
            "{fixed}"
        );
        let (light, dark) = fixed.split_once("@media").unwrap();
        assert!(
            light.contains("\n.chart .blue { fill: #0072b2; }\n"),
            "{light}"
        );
        assert!(
            light.contains("\n.chart .mid { text-anchor: middle; }\n"),
            "{light}"
        );
        assert!(
            dark.contains("\n  .chart .blue { fill: #4ba3e3; }\n"),
            "{dark}"
        );
        let colors = |part: &str| part.matches('#').count();
        assert_eq!(colors(light), colors(dark));
    }
}
