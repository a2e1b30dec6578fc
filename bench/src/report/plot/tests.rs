//! Pictures hold no nonsense, and every label is inside the frame and apart from its neighbours.

use super::axis::{Axis, Scale};
use super::bars::{self, Bar};
use super::canvas::Canvas;
use super::lines::{self, LineChart};
use crate::results::Line;

fn bar(label: &str, value: f64, reach: f64) -> Bar {
    Bar { label: label.to_owned(), value, reach, ours: label.contains("Silica") }
}

fn check(canvas: Canvas) -> String {
    for placed in &canvas.placed {
        let inside = placed.left >= -0.01
            && placed.right <= canvas.width + 0.01
            && placed.baseline > 0.0
            && placed.baseline <= canvas.height;
        assert!(inside, "{placed:?} leaves the frame");
    }
    for (index, one) in canvas.placed.iter().enumerate() {
        for other in &canvas.placed[index + 1..] {
            let beside = one.right <= other.left || other.right <= one.left;
            let apart = (one.baseline - other.baseline).abs() > 11.0;
            assert!(beside || apart, "{:?} and {:?} overlap", one.text, other.text);
        }
    }
    let picture = canvas.finish("a title");
    assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    picture
}

#[test]
fn bars_of_very_different_lengths_are_all_seen() {
    let contenders = [
        bar("Silica, from the pool", 1.1, 2.0),
        bar("monty", 0.08, 0.2),
        bar("plain python3", 15.0, 30.0),
        bar("Pyodide", 3900.0, 5200.0),
    ];
    let hint = "less is better; thin line: to the 99th percentile";
    let picture = check(bars::draw("Start and print(1)", hint, "ms", &contenders));
    assert!(picture.contains("3.90 s") && picture.contains("80.0 µs"), "{picture}");
}

#[test]
fn bars_without_length_or_without_rows_are_drawn() {
    check(bars::draw("t", "h", "MB", &[bar("nothing", 0.0, 0.0), bar("a", 3.0, 3.0)]));
    check(bars::draw("t", "h", "MB", &[]));
    check(bars::draw("t", "h", "MB", &[bar("broken", f64::NAN, f64::INFINITY)]));
}

#[test]
fn names_are_escaped() {
    let picture = check(bars::draw("a < b & c", "h", "ms", &[bar("<x>", 1.0, 1.0)]));
    assert!(picture.contains("a &lt; b &amp; c") && picture.contains("&lt;x&gt;"), "{picture}");
}

fn chart(scale_across: Scale, scale_up: Scale) -> LineChart<'static> {
    let (title, hint, unit, across) = ("With sandboxes", "less is better", "ms", "sandboxes");
    LineChart { title, hint, unit, across, scale_across, scale_up }
}

fn line(label: &str, points: &[(f64, f64)]) -> Line {
    Line { label: label.to_owned(), points: points.to_vec() }
}

#[test]
fn lines_that_end_together_have_labels_apart() {
    let both = [
        line("create + print(1)", &[(1.0, 8.0), (1000.0, 9.0)]),
        line("print(1)", &[(1.0, 8.1), (1000.0, 9.1)]),
        line("delete", &[(1.0, 7.9), (1000.0, 8.9)]),
    ];
    for scale in [Scale::Straight, Scale::Logarithmic] {
        check(lines::draw(chart(Scale::Logarithmic, scale), &both));
    }
}

#[test]
fn lines_of_one_point_or_none_are_drawn() {
    check(lines::draw(chart(Scale::Straight, Scale::Straight), &[line("a", &[(5.0, 0.0)])]));
    check(lines::draw(chart(Scale::Logarithmic, Scale::Logarithmic), &[line("a", &[])]));
    check(lines::draw(chart(Scale::Logarithmic, Scale::Logarithmic), &[]));
}

#[test]
fn axes_have_round_ticks_and_hold_their_values() {
    let axis = Axis::new(Scale::Straight, &[3.0, 47.0], 0.0, 100.0);
    assert_eq!(axis.ticks(), [0.0, 20.0, 40.0]);
    let axis = Axis::new(Scale::Logarithmic, &[0.08, 3900.0], 0.0, 100.0);
    let powers: Vec<String> = axis.ticks().iter().map(|tick| format!("{tick}")).collect();
    assert_eq!(powers, ["0.01", "0.1", "1", "10", "100", "1000", "10000"]);
    assert!((axis.place(0.01) - 0.0).abs() < 1e-9 && (axis.place(10_000.0) - 100.0).abs() < 1e-9);
}
