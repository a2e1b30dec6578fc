//! The count is an upper bound, and it does not grow with what does not nest.

use super::bound;

fn assert_bound(code: &str, least: usize, most: usize) {
    let found = bound(code).expect("this is not too deep").depth;
    assert!((least..=most).contains(&found), "{found} for {}", &code[..code.len().min(40)]);
}

#[test]
fn what_nests_is_counted() {
    assert_bound(&format!("{}1{}", "(".repeat(500), ")".repeat(500)), 500, 1_600);
    assert_bound(&format!("{}1", "-".repeat(500)), 500, 510);
    assert_bound(&format!("{}1", "lambda: ".repeat(500)), 500, 1_600);
    assert_bound(&format!("{}1", "lambda a, b=".repeat(500)), 500, 1_600);
    assert_bound(&format!("a{}", ".b".repeat(500)), 500, 510);
    assert_bound(&format!("a{}", "()".repeat(500)), 500, 510);
    assert_bound(&format!("1{}", "+1".repeat(500)), 500, 510);
    assert_bound(&format!("x = {}1", "y if z else ".repeat(500)), 500, 1_100);
    assert_bound(&"async ".repeat(500), 500, 510);
}

#[test]
fn blocks_are_counted() {
    let heads: Vec<String> = (0..60).map(|level| format!("{}if x:\n", " ".repeat(level))).collect();
    let code = format!("{}{}pass\n", heads.concat(), " ".repeat(60));
    assert_bound(&code, 60, 70);
}

#[test]
fn what_only_goes_on_is_not_counted() {
    assert_bound(&format!("x = [{}]", "1, ".repeat(50_000)), 1, 5);
    assert_bound(&format!("x = {{{}}}", "'a': (1, 2), ".repeat(20_000)), 1, 8);
    assert_bound(&"x = 1; ".repeat(5_000), 1, 5);
    assert_bound(&"x = a.b(c)[0]\n".repeat(20_000), 1, 12);
    assert_bound(&"x = f'{a} {b:>{w}}'\n".repeat(20_000), 1, 12);
}

#[test]
fn what_is_too_deep_has_no_bound() {
    assert_eq!(bound(&"(".repeat(1 << 20)), None);
    assert_eq!(bound(&"-".repeat(1 << 20)), None);
    assert_eq!(bound(&"lambda a, ".repeat(100_000)), None);
    assert_eq!(bound(&"f'{".repeat(100_000)), None);
    assert_eq!(bound(&format!("a{}", ".b".repeat(500_000))), None);
}

#[test]
fn brackets_that_stay_open_are_seen() {
    let unclosed = |code| bound(code).map(|bound| bound.unclosed);
    assert_eq!(unclosed("f(1\n/x\n"), Some(true));
    assert_eq!(unclosed("f(1)\n[2]\nf'{x}'"), Some(false));
}
