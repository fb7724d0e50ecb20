//! The few elements of SVG that charts need.
//!
//! A chart is themed by classes, is drawn once for wide and once for narrow screens, and describes
//! itself to people who can't see it. Chart libraries write colours into each element, draw one width,
//! and have no titles, so the elements are written here.

use std::fmt::Write;

/// The screen that a chart is drawn for. Letters have the same size on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Wide,
    Narrow,
}

impl Layout {
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Wide => 760.0,
            Self::Narrow => 360.0,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Colours that people with any colour vision tell apart. The style sheet defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Blue,
    Orange,
    Green,
    Grey,
    /// For a limit, drawn as a dashed line.
    Limit,
    /// For a limit that is never to be reached, drawn as a line.
    Ceiling,
}

impl Color {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Green => "green",
            Self::Grey => "grey",
            Self::Limit => "limit",
            Self::Ceiling => "ceiling",
        }
    }
}

/// The elements drawn so far. Coordinates are in pixels of the layout.
#[derive(Default)]
pub(super) struct Canvas(String);

/// Which part of a text is at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// One line of text; `y` is its base line.
    pub(super) fn text(&mut self, anchor: Anchor, class: &str, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "mid",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(
            r#"<text class="{anchor} {class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    /// A path, given as SVG path commands.
    pub(super) fn path(&mut self, class: &str, commands: &str) {
        self.push(format_args!(r#"<path class="{class}" d="{commands}"/>"#));
    }

    /// A rectangle, with a title that a browser shows on hovering.
    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        let title = escape(title);
        self.push(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"><title>{title}</title></rect>"#
        ));
    }

    /// Draws the legend from `top` downwards and returns the lower end.
    pub(super) fn legend(&mut self, layout: Layout, top: f64, keys: &[(Color, String)]) -> f64 {
        let (mut x, mut y) = (0.0, top);
        for (color, name) in keys {
            let width = 22.0 + text_width(name) + 18.0;
            if x > 0.0 && x + width > layout.width() {
                (x, y) = (0.0, y + 20.0);
            }
            let class = color.class();
            if matches!(color, Color::Limit | Color::Ceiling) {
                self.path(class, &format!("M{x:.1} {:.1}h16", y + 9.0));
            } else {
                self.rect(class, [x, y + 3.0, 12.0, 12.0], name);
            }
            self.text(Anchor::Start, "ink", (x + 22.0, y + 13.0), name);
            x += width;
        }
        if keys.is_empty() {
            top
        } else {
            y + 28.0
        }
    }

    /// Draws the elements of `other` on top.
    pub(super) fn append(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// The approximate width of a text, because no font is known here.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}

/// `text` escaped for HTML and SVG. Characters that neither allows are replaced.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            escape("<a href=\"x\" b='y'>&\u{1b}\0é\n"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\u{fffd}\u{fffd}é\n"
        );
        let mut canvas = Canvas::default();
        canvas.text(Anchor::Start, "ink", (0.0, 0.0), "</text><script>");
        canvas.rect("blue", [0.0; 4], "</title><script>");
        canvas.legend(Layout::Wide, 0.0, &[(Color::Blue, "<script>".to_owned())]);
        assert!(!canvas.into_string().contains("<script>"));
    }

    #[test]
    fn a_legend_that_is_too_long_is_broken() {
        let keys: Vec<_> = (0..4)
            .map(|_| (Color::Blue, "a name of thirty characters...".to_owned()))
            .collect();
        let ends = [Layout::Wide, Layout::Narrow]
            .map(|layout| Canvas::default().legend(layout, 0.0, &keys).to_string());
        assert_eq!(ends, ["48", "88"]);
    }
}
