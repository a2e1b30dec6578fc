//! The time of checking code by a policy before it runs.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use silica_policy::{CODE_BYTES_MAX, Policy, Preset};

use super::Bench;
use crate::interleave::{Lane, interleave};
use crate::results::{Better, Row, Table};
use crate::statistics::{Samples, Summary};

/// A cell of typical size and content.
const TYPICAL: &str = "\
import pandas as pd
import matplotlib.pyplot as plt

df = pd.read_csv('sales.csv', parse_dates=['date'])
df = df.dropna(subset=['amount'])
df['month'] = df['date'].dt.to_period('M')
monthly = df.groupby('month')['amount'].agg(['sum', 'mean', 'count'])
monthly['growth'] = monthly['sum'].pct_change() * 100
best = monthly['sum'].idxmax()
print(f'best month: {best} with {monthly.loc[best, \"sum\"]:,.2f}')
fig, ax = plt.subplots(figsize=(10, 4))
ax.bar(monthly.index.astype(str), monthly['sum'], color='steelblue')
ax.set_title('Sales by month')
ax.set_ylabel('EUR')
plt.xticks(rotation=45)
plt.tight_layout()
plt.savefig('sales.png', dpi=120)
monthly.tail(12)
";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let longest = longest();
    let policy = Policy::preset(Preset::Data);
    let check = |code: &str| {
        let start = Instant::now();
        let report = policy.check(code);
        let took = start.elapsed();
        ensure!(report.findings.is_empty(), "the text is harmless");
        Ok(took)
    };
    let mut table = Table::new("policy", "ms", Better::Less);
    for (number, name, code) in
        [("P22", "a cell of 18 lines", TYPICAL), ("P23", "1 MiB of Python", &longest)]
    {
        // Not in turn with Python, which would leave caches in a state that cells do not meet.
        let lane = vec![Lane::new(name, true, || check(code))];
        let Some(ours) = interleave("policy", lane, bench.effort()).rows.pop() else { continue };
        let python = parsed_by_python(bench, code)?;
        bench.results.promise(number, ours.summary.p50, "ms");
        bench.results.promise(number, ours.summary.p50 / python.p50, "×");
        let who = format!("{name}, only parsed, by Python's own ast");
        table.rows.extend([ours, Row { who, ours: false, summary: python }]);
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Returns how long Python takes to parse a text, without its startup.
fn parsed_by_python(bench: &Bench, code: &str) -> Result<Summary> {
    let path = bench.place.path().join("policy.txt");
    std::fs::write(&path, code)?;
    let script = bench.place.driver("parse.py")?;
    let samples = bench.effort().samples.to_string();
    let output = bench.plain.script(&script).arg(&path).arg(samples).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let times: Vec<f64> = serde_json::from_slice(&output.stdout)?;
    times.into_iter().collect::<Samples>().summary().context("it gave no times")
}

/// Returns a text of many cells with different names.
fn longest() -> String {
    let mut longest = String::new();
    for index in 0.. {
        let cell = TYPICAL.replace("monthly", &format!("monthly_{index}"));
        if longest.len() + cell.len() > CODE_BYTES_MAX {
            break;
        }
        longest.push_str(&cell);
    }
    longest
}
