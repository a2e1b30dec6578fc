//! Samples, rows and how they are shown.

use std::time::Duration;

use serde_json::{Value, json};

/// Times of one thing, in milliseconds, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        let value = time.as_secs_f64() * 1e3;
        let at = self.0.partition_point(|&other| other < value);
        self.0.insert(at, value);
    }

    /// The value below which this share of the samples lies.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    fn json(&self) -> Value {
        json!({
            "samples": self.0.len(),
            "p50": self.p50(),
            "p90": self.quantile(0.9),
            "p99": self.quantile(0.99),
            "min": self.quantile(0.0),
        })
    }
}

/// What a row promises: a value that must not be exceeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) value: f64,
    pub(crate) bar: f64,
    pub(crate) unit: &'static str,
}

/// One measure.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: Option<Samples>,
    pub(crate) baseline: Option<Samples>,
    pub(crate) promise: Promise,
    pub(crate) note: String,
}

impl Row {
    /// A ratio of medians with its bar.
    pub(crate) fn ratio(name: &'static str, ours: Samples, baseline: Samples, bar: f64) -> Self {
        let promise = Promise { value: ours.p50() / baseline.p50(), bar, unit: "x" };
        let (ours, baseline) = (Some(ours), Some(baseline));
        Self { name, ours, baseline, promise, note: String::new() }
    }

    /// A median in milliseconds with its bar.
    pub(crate) fn time(name: &'static str, ours: Samples, bar: f64) -> Self {
        let promise = Promise { value: ours.p50(), bar, unit: "ms" };
        Self { name, ours: Some(ours), baseline: None, promise, note: String::new() }
    }

    /// A plain number with its bar.
    pub(crate) fn number(name: &'static str, promise: Promise, note: String) -> Self {
        Self { name, ours: None, baseline: None, promise, note }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.promise.value <= self.promise.bar
    }
}

pub(crate) fn print_table(rows: &[Row]) {
    println!(
        "{:<44} {:>10} {:>9} {:>9} {:>9} {:>10}  ",
        "measure", "value", "bar", "p50 ms", "p99 ms", "plain p50"
    );
    for row in rows {
        let show = |samples: &Option<Samples>, share| {
            samples
                .as_ref()
                .map_or(String::new(), |samples| format!("{:.2}", samples.quantile(share)))
        };
        let Promise { value, bar, unit } = row.promise;
        println!(
            "{:<44} {:>10} {:>9} {:>9} {:>9} {:>10}  {}{}",
            row.name,
            format!("{value:.3} {unit}"),
            format!("{bar}"),
            show(&row.ours, 0.5),
            show(&row.ours, 0.99),
            show(&row.baseline, 0.5),
            if row.is_kept() { "" } else { "MISSED " },
            row.note,
        );
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load at the end: {}", load.trim());
}

pub(crate) fn to_json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "name": row.name,
            "value": row.promise.value,
            "bar": row.promise.bar,
            "unit": row.promise.unit,
            "kept": row.is_kept(),
            "ours_ms": row.ours.as_ref().map(Samples::json),
            "plain_ms": row.baseline.as_ref().map(Samples::json),
            "note": row.note,
        })
    };
    json!({
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}
