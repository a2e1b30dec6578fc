//! How long reading code takes before it runs.

use std::time::Instant;

use anyhow::{Result, ensure};
use silica_policy::{CODE_BYTES_MAX, Policy, Preset};

use super::Bench;
use crate::interleave::{Lane, interleave};

/// A cell of the size and kind that is asked for all day.
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

#[expect(clippy::unnecessary_wraps, reason = "every measure may fail")]
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
    // One after the other: a cell that follows a whole mebibyte finds cold caches, which no cell does.
    let cell = vec![Lane::new("a cell of 18 lines", true, || check(TYPICAL))];
    let mut table = interleave("policy", cell, bench.effort());
    let long = vec![Lane::new("1 MiB of Python", true, || check(&longest))];
    table.rows.extend(interleave("policy", long, bench.effort()).rows);
    for (number, row) in ["P22", "P23"].into_iter().zip(&table.rows) {
        bench.results.promise(number, row.summary.p50, "ms");
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Many cells one after the other, with names that differ.
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
