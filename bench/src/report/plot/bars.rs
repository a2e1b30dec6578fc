//! Bars beside each other: one for each contender, its median as the length, a thin line to its
//! p99.

use super::axis::{Axis, Scale};
use super::canvas::{Anchor, Canvas, width_of};
use crate::report::words::{amount, tick};

const WIDTH: f64 = 760.0;
const ROW: f64 = 26.0;
const THICK: f64 = 14.0;
const MARGIN: f64 = 12.0;
const HEAD: f64 = 46.0;
const FOOT: f64 = 30.0;

/// From this ratio of the longest to the shortest on, a straight axis would hide the short ones.
const STRAIGHT_RATIO_MAX: f64 = 12.0;

/// One contender.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// Where the thin line ends, if that is further.
    pub(crate) reach: f64,
    pub(crate) ours: bool,
}

/// A picture of contenders, in the order given.
pub(crate) fn bars(title: &str, hint: &str, unit: &str, contenders: &[Bar]) -> String {
    draw(title, hint, unit, contenders).finish(title)
}

pub(super) fn draw(title: &str, hint: &str, unit: &str, contenders: &[Bar]) -> Canvas {
    let height = HEAD + FOOT + ROW * contenders.len() as f64;
    let mut canvas = Canvas::new(WIDTH, height);
    canvas.text((MARGIN, 19.0), Anchor::Start, "strong", title);
    let (scale, axis) = axis(unit, contenders);
    let hint = match scale {
        Scale::Straight => hint.to_owned(),
        Scale::Logarithmic => format!("{hint}; axis: powers of ten"),
    };
    canvas.text((MARGIN, 36.0), Anchor::Start, "muted", &hint);
    let bottom = height - FOOT;
    for value in axis.ticks() {
        let x = axis.place(value);
        canvas.stroke((x, HEAD), (x, bottom), "grid");
        let label = if unit == "ms" { amount_short(value) } else { tick(value) };
        canvas.text((x, bottom + 17.0), Anchor::Middle, "muted", &label);
    }
    for (index, bar) in contenders.iter().enumerate() {
        row(&mut canvas, &axis, unit, bar, HEAD + ROW * index as f64);
    }
    canvas
}

fn row(canvas: &mut Canvas, axis: &Axis, unit: &str, bar: &Bar, top: f64) {
    let start = axis.place(f64::MIN_POSITIVE);
    let (end, reach) = (axis.place(bar.value), axis.place(bar.reach.max(bar.value)));
    let middle = top + ROW / 2.0;
    let (fill, weight) = if bar.ours { ("ours", "strong") } else { ("other", "") };
    canvas.text((start - 8.0, middle + 4.5), Anchor::End, weight, &bar.label);
    canvas.rectangle((start, middle - THICK / 2.0), ((end - start).max(1.0), THICK), fill);
    if reach > end + 1.0 {
        canvas.stroke((end, middle), (reach, middle), "reach");
    }
    canvas.text((reach + 6.0, middle + 4.5), Anchor::Start, weight, &amount(bar.value, unit));
}

/// Room for the longest label on the left and the longest amount on the right.
fn axis(unit: &str, contenders: &[Bar]) -> (Scale, Axis) {
    let widest = |text: &dyn Fn(&Bar) -> String| {
        contenders.iter().map(|bar| width_of(&text(bar))).fold(0.0, f64::max)
    };
    let left = MARGIN + widest(&|bar| bar.label.clone()) + 10.0;
    let right = WIDTH - MARGIN - widest(&|bar| amount(bar.value, unit)) - 8.0;
    let values: Vec<f64> = contenders
        .iter()
        .flat_map(|bar| [bar.value, bar.reach])
        .filter(|value| *value > 0.0)
        .collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    let scale =
        if most / least > STRAIGHT_RATIO_MAX { Scale::Logarithmic } else { Scale::Straight };
    (scale, Axis::new(scale, &values, left, right.max(left + 60.0)))
}

/// A time on an axis, in the unit people say.
fn amount_short(milliseconds: f64) -> String {
    match milliseconds {
        value if value >= 1e3 => format!("{} s", tick(value / 1e3)),
        value if value > 0.0 && value < 0.1 => format!("{} µs", tick(value * 1e3)),
        value => format!("{} ms", tick(value)),
    }
}
