//! A frame to draw in: shapes and words, written as SVG.

use std::fmt::Write as _;

/// Size of the letters.
const LETTER: f64 = 13.0;

/// How wide a letter is at most on average, as a share of its size.
const LETTER_SHARE: f64 = 0.58;

/// Colours by meaning, for light and for dark; a class of its own for each.
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}\
.frame{fill:#ffffff}.muted{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}.strong{font-weight:600}\
.ours{fill:#0969da}.other{fill:#aab3bd}.reach{stroke:#59636e;stroke-width:1.5}\
.line{fill:none;stroke-width:2.5}.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}\
.d0{fill:#0969da}.d1{fill:#bc4c00}.d2{fill:#1a7f37}\
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.frame{fill:#0d1117}.muted{fill:#9198a1}\
.grid{stroke:#3d444d}.ours{fill:#4493f8}.other{fill:#656c76}.reach{stroke:#9198a1}\
.c0{stroke:#4493f8}.c1{stroke:#f0883e}.c2{stroke:#3fb950}\
.d0{fill:#4493f8}.d1{fill:#f0883e}.d2{fill:#3fb950}}";

/// On which side of its point a text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Where a text lies.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) text: String,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) baseline: f64,
}

pub(super) struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    body: String,
    #[cfg(test)]
    pub(super) placed: Vec<Placed>,
}

/// How wide a text is drawn, at most.
pub(super) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER * LETTER_SHARE
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
            #[cfg(test)]
            placed: Vec::new(),
        }
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let wide = width_of(text);
        let (name, left) = match anchor {
            Anchor::Start => ("start", x),
            Anchor::Middle => ("middle", x - wide / 2.0),
            Anchor::End => ("end", x - wide),
        };
        // A word that would leave the frame is moved back into it.
        let shift = left.min(self.width - wide).max(0.0) - left;
        let x = x + shift;
        let escaped = escape(text);
        let _ = write!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{name}" class="{class}">{escaped}</text>"#
        );
        #[cfg(test)]
        self.placed.push(Placed {
            text: text.to_owned(),
            left: left + shift,
            right: left + shift + wide,
            baseline: y,
        });
    }

    pub(super) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
    ) {
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2" class="{class}"/>"#
        );
    }

    pub(super) fn stroke(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let mut steps = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(steps, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.body, r#"<path d="{steps}" class="{class}"/>"#);
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), class: &str) {
        let _ = write!(self.body, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" class="{class}"/>"#);
    }

    /// The whole picture; the title is for those who cannot see it.
    pub(super) fn finish(self, title: &str) -> String {
        let (width, height, body) = (self.width, self.height, self.body);
        let title = escape(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"frame\"/>\n{body}\n</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
