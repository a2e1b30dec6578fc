//! Silica against the best of the others, in a table and in words; also where others are ahead.

use std::fmt::Write as _;

use super::sections::COMPARISONS;
use crate::peers::PLAIN;
use crate::report::words::{amount, digits};
use crate::results::{Results, Row, Table};

/// Less than this is no difference to speak of.
const SAME: f64 = 1.05;

/// One line for each comparison.
pub(super) fn glance(text: &mut String, results: &Results) {
    text.push_str(
        "## At a glance\n\n\
         Medians. *Against plain* is Silica ÷ plain python3, which isolates nothing. Then the best of those on which code\n\
         with pandas has run here, and the best of all others, and how far Silica is ahead of each, or behind.\n\n\
         | | Silica | plain python3 | against plain | the best with pandas | | the best of all others | |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for section in COMPARISONS {
        let Some(table) = results.table(section.table) else { continue };
        let Some(ours) = table.best(|row| row.ours) else { continue };
        let show = |row: &Row| amount(row.summary.p50, &table.unit);
        let plain = table.row(PLAIN);
        let ratio =
            plain.map(|plain| format!("{} ×", digits(ours.summary.p50 / plain.summary.p50)));
        let against = |best: Option<&Row>| match best {
            Some(row) => format!("{}, {} | {}", row.who, show(row), standing(table, ours, row)),
            None => " | ".to_owned(),
        };
        let _ = writeln!(
            text,
            "| [{}](#{}) | {} | {} | {} | {} | {} |",
            section.title,
            section.anchor(),
            show(ours),
            plain.map(show).unwrap_or_default(),
            ratio.unwrap_or_default(),
            against(table.best(|row| is_peer(row) && has_pandas(results, row))),
            against(table.best(is_peer)),
        );
    }
    text.push('\n');
}

/// Plain Python is the measure and not one of the others.
pub(super) fn is_peer(row: &Row) -> bool {
    !row.ours && row.who != PLAIN
}

/// Returns whether a contender has run code with pandas in this run.
fn has_pandas(results: &Results, row: &Row) -> bool {
    results.table("start-pandas").is_none_or(|table| table.row(&row.who).is_some())
}

/// Returns the ratio of one row to another, in words.
fn standing(table: &Table, ours: &Row, other: &Row) -> String {
    let times = table.times_better(ours.summary.p50, other.summary.p50);
    if times >= SAME {
        format!("{} ahead", how_far(times))
    } else if 1.0 / times >= SAME {
        format!("**{} behind**", how_far(1.0 / times))
    } else {
        "the same".to_owned()
    }
}

/// Formats a ratio; one to zero is infinite.
fn how_far(times: f64) -> String {
    if times.is_finite() { format!("{} ×", digits(times)) } else { "far".to_owned() }
}

/// Writes the contenders that are better than Silica at something, with their descriptions.
pub(super) fn ahead(text: &mut String, results: &Results) {
    let mut found = Vec::new();
    for section in COMPARISONS {
        let Some(table) = results.table(section.table) else { continue };
        let Some(ours) = table.best(|row| row.ours) else { continue };
        for row in table.rows.iter().filter(|row| is_peer(row)) {
            let times = table.times_better(row.summary.p50, ours.summary.p50);
            if times >= SAME {
                let (theirs, own) =
                    (amount(row.summary.p50, &table.unit), amount(ours.summary.p50, &table.unit));
                let what = results.peers.iter().find(|peer| peer.name == row.who);
                let what = what.map(|peer| format!(" ({})", peer.what)).unwrap_or_default();
                found.push(format!(
                    "- **{}**: {}{what} is {} ahead, {theirs} against {own}.",
                    section.title,
                    row.who,
                    how_far(times)
                ));
            }
        }
    }
    text.push_str("## Where others are ahead\n\n");
    if found.is_empty() {
        text.push_str("Nowhere in this run.\n\n");
        return;
    }
    for line in found {
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
}
