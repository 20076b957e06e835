//! Shapes and text of an SVG, in whole pixels so that the same machine gives the same bytes.

use std::fmt::Write as _;

/// Looks of everything, by class; light, for a README as well as a slide.
const STYLE: &str = "\
text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#24303c}
.mono{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:10px;fill:#5a6875}
.h1{font-size:22px;font-weight:bold}.h2{font-size:13px;font-weight:bold}
.sub{font-size:13px;fill:#5a6875}.name{font-size:13px;font-weight:bold}
.small{font-size:10px;fill:#5a6875}.off{fill:#8b949d}.warn{font-size:10px;fill:#a86400}
.pill{font-size:10px;font-weight:bold;fill:#fff}
.page{fill:#fff}.numa{fill:#f6f8fa;stroke:#d5dce3}.switch{fill:#fff;stroke:#c3ccd5}
.bridge{fill:#fbfcfd;stroke:#c3ccd5;stroke-dasharray:5 3}
.gpu{fill:#eaf5e0;stroke:#7aa94d}.nic{fill:#e4effa;stroke:#5f95c8}
.left{fill:#f3f4f5;stroke:#c2c7cc;stroke-dasharray:3 3}.taint{fill:#fff3dc;stroke:#d99a2b}
.rule{stroke:#dde2e7;stroke-width:1}
.wire{stroke:#8a97a4;stroke-width:1.5;fill:none}.near{fill:#3f7d3a}.far{fill:#7c8894}
";

/// An SVG in the making.
#[derive(Default)]
pub struct Canvas {
    body: String,
}

/// A rectangle by its corner and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

/// Which end of a text its x names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    /// A rectangle with round corners.
    pub fn rect(&mut self, class: &str, area: Area, radius: i32) {
        let Area { x, y, width, height } = area;
        self.push(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>"#
        ));
    }

    /// A text on its baseline.
    pub fn text(&mut self, class: &str, (x, y): (i32, i32), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let text = escape(text);
        self.push(format_args!(r#"<text class="{class}" x="{x}" y="{y}"{anchor}>{text}</text>"#));
    }

    /// A thin line across the page.
    pub fn rule(&mut self, (x1, x2): (i32, i32), y: i32) {
        self.push(format_args!(r#"<path class="rule" d="M{x1} {y}L{x2} {y}"/>"#));
    }

    /// A straight line.
    pub fn wire(&mut self, (x1, y1): (i32, i32), (x2, y2): (i32, i32)) {
        self.push(format_args!(r#"<path class="wire" d="M{x1} {y1}L{x2} {y2}"/>"#));
    }

    /// The whole document.
    pub fn finish(self, title: &str, width: i32, height: i32) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n\
             <style>\n{STYLE}</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n{}</svg>\n",
            escape(title),
            self.body
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// Width of a text in pixels, rather too much than too little: fonts differ by machine.
pub fn text_width(text: &str, size: i32) -> i32 {
    let count = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 100);
    count.saturating_mul(size * 62) / 100
}

/// A text cut to a width, with an ellipsis.
pub fn fitted(text: &str, size: i32, width: i32) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let limit = usize::try_from(width * 100 / (size * 62)).unwrap_or_default();
    crate::words::cut(text, limit.max(1))
}

/// XML text; what XML 1.0 cannot carry becomes the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_the_machine_cannot_break_the_drawing() {
        assert_eq!(escape("a<b>&\"c\"\u{1}\n"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd} ");
    }

    #[test]
    fn a_text_is_cut_to_its_width() {
        assert_eq!(fitted("mlx5_0", 10, 100), "mlx5_0");
        assert_eq!(fitted("a very long name of a product", 10, 62), "a very lo…");
    }
}
