//! The whole document for a small set of results; `UPDATE_EXPECT=1` writes it anew.

use std::collections::BTreeMap;

use expect_test::expect_file;

use super::make;
use crate::machine::Machine;
use crate::noise::{Noise, Quiet};
use crate::results::{
    Absent, Better, Curve, FORMAT, Failure, Finding, Line, PeerState, Results, Row, Table,
};
use crate::specification;
use crate::statistics::Summary;

/// Results with one of each kind of thing in them.
pub(crate) fn example() -> Results {
    let summary =
        |p50: f64| Summary { count: 60, min: p50 / 2.0, p50, p90: p50 * 1.5, p99: p50 * 2.0 };
    let row = |who: &str, ours, p50| Row { who: who.to_owned(), ours, summary: summary(p50) };
    let mut start = Table::new("start-print", "ms", Better::Less);
    start.rows = vec![
        row("Silica, from the pool", true, 1.25),
        row("plain python3", false, 15.0),
        row("bubblewrap", false, 18.0),
        row("monty", false, 0.125),
    ];
    let reason = "cgroups in hybrid mode | not supported".to_owned();
    start.absent = vec![Absent { who: "crun".to_owned(), reason }];
    let mut rate = Table::new("rate-16", "/s", Better::More);
    rate.add("Silica", true, 300.0);
    rate.add("bubblewrap", false, 100.0);
    let mut steps = Table::new("steps-shell", "ms", Better::Less);
    steps.rows = vec![
        row("enclosure-groups", true, 0.25),
        row("enclosure-fork", true, 0.5),
        row("nothing fails", true, 4.0),
    ];
    let points = vec![(1.0, 8.0), (1000.0, 9.5)];
    let quiet = Quiet { load: [0.25, 0.5, 0.75], processors: 2, rounds: summary(1.0) };
    let peer = |name: &str, what: &str, absent: Option<&str>| PeerState {
        name: name.to_owned(),
        what: what.to_owned(),
        version: format!("{name} 1.0"),
        absent: absent.map(str::to_owned),
    };
    Results {
        format: FORMAT,
        began: "2026-01-02T03:04:05.000006Z".to_owned(),
        seconds: 900.0,
        commit: "0123456789ab".to_owned(),
        quick: false,
        machine: Machine {
            processor: "Some Processor".to_owned(),
            processors: 2,
            memory_bytes: 24_000_000_000,
            kernel: "6.18.0".to_owned(),
            system: "Some Linux 12".to_owned(),
            virtualisation: "a virtual machine".to_owned(),
            groups: "version 2".to_owned(),
        },
        noise: Noise {
            before: quiet,
            after: None,
            complaint: Some("before the run the load is 3.00, more than 1.00".to_owned()),
        },
        peers: vec![
            peer("monty", "a subset of the language", None),
            peer("crun", "a container", Some("cgroups in hybrid mode | not supported")),
        ],
        tables: vec![start, rate, steps],
        curves: vec![Curve {
            name: "growth-sandboxes".to_owned(),
            unit: "ms".to_owned(),
            lines: vec![Line { label: "create + print(1)".to_owned(), points }],
        }],
        promises: BTreeMap::from([
            ("P1".to_owned(), vec![Finding { value: 0.0833, unit: "×".to_owned() }]),
            ("P2".to_owned(), vec![Finding { value: 9.0, unit: "ms".to_owned() }]),
        ]),
        failures: vec![Failure { measure: "e2b".to_owned(), reason: "no network".to_owned() }],
    }
}

const PROMISES: &str = "\
| P1 | create from the pool | ≤ 0.15 × plain Python |
| P2 | create on demand | ≤ 5 ms |
| P3 | something else | ≥ 5 a second |
";

#[test]
fn document_is_made_from_results() {
    let promises = specification::parse(PROMISES).unwrap();
    let page = make("2026-01-02.json", &example(), &promises).unwrap();
    expect_file!["example.txt"].assert_eq(&page.text);
    let names: Vec<&str> = page.pictures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["start-print.svg", "rate-16.svg", "growth-sandboxes.svg"]);
    assert!(page.pictures.iter().all(|(_, picture)| !picture.contains("NaN")));
}

#[test]
fn pictures_that_are_no_more_are_removed() {
    let docs = tempfile::tempdir().unwrap();
    let pictures = docs.path().join("performance");
    std::fs::create_dir_all(&pictures).unwrap();
    std::fs::write(pictures.join("old.svg"), "").unwrap();
    super::write(docs.path(), "2026-01-02.json", &example(), &[]).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(&pictures)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["growth-sandboxes.svg", "rate-16.svg", "start-print.svg"]);
    assert!(docs.path().join("performance.md").exists());
}
