//! Lines: how a cost grows with an amount. Each line says its name and its last value at its end.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, width_of};
use crate::report::words::{amount, tick};
use crate::results::Line;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 12.0;
const HEAD: f64 = 52.0;
const FOOT: f64 = 46.0;
const COLOURS: usize = 3;

/// How far apart the labels of lines are kept.
const LABEL_GAP: f64 = 16.0;

/// What a picture of lines shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineChart<'a> {
    pub(crate) title: &'a str,
    pub(crate) hint: &'a str,
    pub(crate) unit: &'a str,
    /// What grows, below the axis.
    pub(crate) across: &'a str,
    pub(crate) scale_across: Scale,
    pub(crate) scale_up: Scale,
}

pub(crate) fn lines(chart: LineChart<'_>, lines: &[Line]) -> String {
    draw(chart, lines).finish(chart.title)
}

pub(super) fn draw(chart: LineChart<'_>, lines: &[Line]) -> Canvas {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.text((MARGIN, 19.0), Anchor::Start, "strong", chart.title);
    canvas.text((MARGIN, 36.0), Anchor::Start, "muted", chart.hint);
    let ends: Vec<String> = lines.iter().map(|line| end_label(line, chart.unit)).collect();
    let right = WIDTH - MARGIN - ends.iter().map(|text| width_of(text)).fold(0.0, f64::max) - 10.0;
    let each = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        lines.iter().flat_map(|line| line.points.iter().map(pick)).collect()
    };
    let bottom = HEIGHT - FOOT;
    let up = Axis::new(chart.scale_up, &each(|point| point.1), bottom, HEAD);
    let widest = up.ticks().into_iter().map(|value| width_of(&amount_tick(value, chart.unit)));
    let left = MARGIN + widest.fold(0.0, f64::max) + 8.0;
    let across =
        Axis::new(chart.scale_across, &each(|point| point.0), left, right.max(left + 60.0));
    grid(&mut canvas, chart, &across, &up, left, right, bottom);
    let mut labels = Vec::new();
    for (index, (line, end)) in lines.iter().zip(ends).enumerate() {
        let colour = index % COLOURS;
        let points: Vec<(f64, f64)> =
            line.points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
        canvas.path(&points, &format!("line c{colour}"));
        for point in &points {
            canvas.dot(*point, &format!("d{colour}"));
        }
        if let Some(&(x, y)) = points.last() {
            labels.push((x, y, format!("d{colour}"), end));
        }
    }
    place_labels(&mut canvas, labels, bottom);
    canvas
}

fn grid(
    canvas: &mut Canvas,
    chart: LineChart<'_>,
    across: &Axis,
    up: &Axis,
    left: f64,
    right: f64,
    bottom: f64,
) {
    for value in up.ticks() {
        let y = up.place(value);
        canvas.stroke((left, y), (right, y), "grid");
        canvas.text((left - 6.0, y + 4.5), Anchor::End, "muted", &amount_tick(value, chart.unit));
    }
    for value in across.ticks() {
        let x = across.place(value);
        canvas.stroke((x, bottom), (x, bottom + 4.0), "grid");
        canvas.text((x, bottom + 18.0), Anchor::Middle, "muted", &tick(value));
    }
    canvas.text((f64::midpoint(left, right), HEIGHT - 8.0), Anchor::Middle, "muted", chart.across);
}

/// Labels of lines that end close together are moved apart, the lowest staying where it is.
fn place_labels(canvas: &mut Canvas, mut labels: Vec<(f64, f64, String, String)>, bottom: f64) {
    labels.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut free_above = bottom + LABEL_GAP;
    for (x, y, class, text) in labels {
        let at = y.min(free_above - LABEL_GAP);
        free_above = at;
        canvas.text((x + 8.0, at + 4.5), Anchor::Start, &class, &text);
    }
}

fn end_label(line: &Line, unit: &str) -> String {
    let last = line.points.last().map_or(String::new(), |point| amount(point.1, unit));
    format!("{} {last}", line.label).trim().to_owned()
}

fn amount_tick(value: f64, unit: &str) -> String {
    match unit {
        "ms" if value >= 1e3 => format!("{} s", tick(value / 1e3)),
        "ms" if value > 0.0 && value < 0.1 => format!("{} µs", tick(value * 1e3)),
        unit => format!("{} {unit}", tick(value)),
    }
}
