//! The promises of `SPECIFICATION.md`: their numbers and bars, and whether results keep them.
//!
//! A promise is a row of a table whose first cell is `P` and a number. The third cell is the bar:
//! one or more of `≤ NUMBER UNIT` or `≥ NUMBER UNIT`, with a semicolon between them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::report::words::amount;
use crate::results::Finding;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) number: String,
    pub(crate) words: String,
    /// The text of the specification.
    pub(crate) bar: String,
    bounds: Vec<Bound>,
}

/// One part of a bar.
#[derive(Clone, Debug, PartialEq)]
struct Bound {
    side: Side,
    value: f64,
    unit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

/// Whether a promise is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// With the measured value.
    Kept(String),
    Missed(String),
    NotMeasured,
}

/// Every promise of a specification, in its order.
pub(crate) fn parse(text: &str) -> Result<Vec<Promise>> {
    let promises: Result<Vec<Promise>> = text.lines().filter_map(row).collect();
    let promises = promises?;
    ensure!(!promises.is_empty(), "the specification has no promises of speed and size");
    Ok(promises)
}

fn row(line: &str) -> Option<Result<Promise>> {
    let cells: Vec<&str> = line.trim().strip_prefix('|')?.split('|').map(str::trim).collect();
    let number = cells.first()?.strip_prefix('P')?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let promise = |bar: &&str| -> Result<Promise> {
        let bounds: Result<Vec<Bound>> = bar.split(';').map(bound).collect();
        Ok(Promise {
            number: format!("P{number}"),
            words: cells.get(1).copied().unwrap_or_default().to_owned(),
            bar: (*bar).to_owned(),
            bounds: bounds.with_context(|| format!("P{number} has no bar that can be checked"))?,
        })
    };
    Some(cells.get(2).context("a promise without a bar").and_then(promise))
}

fn bound(text: &str) -> Result<Bound> {
    let (at, side) = text
        .char_indices()
        .find_map(|(at, letter)| match letter {
            '≤' => Some((at, Side::AtMost)),
            '≥' => Some((at, Side::AtLeast)),
            _ => None,
        })
        .with_context(|| format!("{text:?} has neither ≤ nor ≥"))?;
    let rest = text[at..].trim_start_matches(['≤', '≥']).trim();
    let (number, unit) = rest.split_once(' ').unwrap_or((rest, ""));
    let value = number.parse().with_context(|| format!("{number:?} is no number"))?;
    Ok(Bound { side, value, unit: unit.trim().to_owned() })
}

impl Promise {
    /// Compares a measured value with the bar.
    pub(crate) fn judge(&self, findings: &BTreeMap<String, Vec<Finding>>) -> Result<Verdict> {
        let Some(found) = findings.get(&self.number) else { return Ok(Verdict::NotMeasured) };
        ensure!(
            found.len() == self.bounds.len(),
            "{} has {} bars, and {} figures were measured for it",
            self.number,
            self.bounds.len(),
            found.len()
        );
        let mut kept = true;
        for (bound, finding) in self.bounds.iter().zip(found) {
            ensure!(
                bound.unit.starts_with(&finding.unit),
                "{} is promised in {:?} and was measured in {:?}",
                self.number,
                bound.unit,
                finding.unit
            );
            kept &= bound.holds(finding.value);
        }
        let shown: Vec<String> =
            found.iter().map(|finding| amount(finding.value, &finding.unit)).collect();
        let shown = shown.join("; ");
        Ok(if kept { Verdict::Kept(shown) } else { Verdict::Missed(shown) })
    }
}

impl Bound {
    fn holds(&self, value: f64) -> bool {
        match self.side {
            Side::AtMost => value <= self.value,
            Side::AtLeast => value >= self.value,
        }
    }
}
