//! How long reading code takes before it runs.

use std::time::Instant;

use silica_policy::{CODE_BYTES_MAX, Policy, Preset};

use crate::measure::{Row, Samples};

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

const TYPICAL_MS_MAX: f64 = 0.1;
const LONGEST_MS_MAX: f64 = 100.0;

pub(crate) fn run_all(samples: usize) -> Vec<Row> {
    // The longest text is many cells one after the other, with names that differ.
    let mut longest = String::new();
    for index in 0.. {
        let cell = TYPICAL.replace("monthly", &format!("monthly_{index}"));
        if longest.len() + cell.len() > CODE_BYTES_MAX {
            break;
        }
        longest.push_str(&cell);
    }
    vec![
        Row::time("policy: check of a typical cell", time(TYPICAL, samples * 10), TYPICAL_MS_MAX),
        Row::time("policy: check of 1 MiB", time(&longest, samples), LONGEST_MS_MAX),
    ]
}

fn time(code: &str, count: usize) -> Samples {
    let policy = Policy::preset(Preset::Data);
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        let report = policy.check(code);
        samples.push(start.elapsed());
        assert!(report.findings.is_empty(), "the text is harmless");
    }
    samples
}
