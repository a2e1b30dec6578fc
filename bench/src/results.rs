//! The results of a run, as a file. The document and the checks are made from it alone.
//!
//! It is written atomically after every measure, so an aborted run keeps its results so far.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::noise::Noise;
use crate::statistics::Summary;

/// The form of the file; another one is not read.
pub(crate) const FORMAT: u32 = 2;

/// Everything of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) format: u32,
    /// When it began, in UTC: `2026-11-16T05:12:40Z`.
    pub(crate) began: String,
    /// How long it took.
    pub(crate) seconds: f64,
    /// What was measured: the commit, with a mark if files were changed since.
    pub(crate) commit: String,
    /// Whether few samples were taken, to see that everything works.
    pub(crate) quick: bool,
    pub(crate) machine: Machine,
    pub(crate) noise: Noise,
    pub(crate) peers: Vec<PeerState>,
    pub(crate) tables: Vec<Table>,
    pub(crate) curves: Vec<Curve>,
    /// What was measured for each promise of the specification, by its number.
    pub(crate) promises: BTreeMap<String, Vec<Finding>>,
    /// Measures that failed, with the reason.
    pub(crate) failures: Vec<Failure>,
}

/// A peer that Silica is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerState {
    pub(crate) name: String,
    /// What it is, in a few words.
    pub(crate) what: String,
    pub(crate) version: String,
    /// Why it does not run here, if it does not.
    pub(crate) absent: Option<String>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Less,
    More,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// By which the document finds it.
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) rows: Vec<Row>,
    pub(crate) absent: Vec<Absent>,
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) who: String,
    /// Whether it is Silica.
    pub(crate) ours: bool,
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// A contender that is missing from a comparison, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Absent {
    pub(crate) who: String,
    pub(crate) reason: String,
}

/// How something grows with something else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// What is shown by each line, and its unit.
    pub(crate) unit: String,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// Pairs of how much there was and what it cost.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A figure that a promise is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) value: f64,
    pub(crate) unit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) measure: String,
    pub(crate) reason: String,
}

impl Results {
    /// Those of one file.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let form: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is no JSON", path.display()))?;
        let found = form["format"].as_u64();
        ensure!(
            found == Some(u64::from(FORMAT)),
            "{} is not of form {FORMAT}; measure again",
            path.display()
        );
        serde_json::from_value(form).with_context(|| format!("{} lacks a field", path.display()))
    }

    /// Writes them beside the old ones and then in their place.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let beside = path.with_extension("json.tmp");
        let text = serde_json::to_string_pretty(self)? + "\n";
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&beside, text))
            .and_then(|()| std::fs::rename(&beside, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub(crate) fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.name == name)
    }

    /// Notes a figure that a promise is about.
    pub(crate) fn promise(&mut self, number: &str, value: f64, unit: &str) {
        let finding = Finding { value, unit: unit.to_owned() };
        self.promises.entry(number.to_owned()).or_default().push(finding);
    }
}

impl Table {
    pub(crate) fn new(name: &str, unit: &str, better: Better) -> Self {
        let (rows, absent) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), unit: unit.to_owned(), better, rows, absent }
    }

    pub(crate) fn row(&self, who: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.who == who)
    }

    /// Adds what was measured once.
    pub(crate) fn add(&mut self, who: &str, ours: bool, value: f64) {
        self.rows.push(Row { who: who.to_owned(), ours, summary: Summary::once(value) });
    }

    pub(crate) fn add_absent(&mut self, who: &str, reason: &str) {
        self.absent.push(Absent { who: who.to_owned(), reason: reason.to_owned() });
    }

    /// The best of some rows, by median.
    pub(crate) fn best(&self, wanted: impl Fn(&Row) -> bool) -> Option<&Row> {
        let order = |one: &&Row, other: &&Row| one.summary.p50.total_cmp(&other.summary.p50);
        let rows = self.rows.iter().filter(|row| wanted(row));
        match self.better {
            Better::Less => rows.min_by(order),
            Better::More => rows.max_by(order),
        }
    }

    /// How many times better one value is than another.
    pub(crate) fn times_better(&self, one: f64, other: f64) -> f64 {
        match self.better {
            Better::Less => other / one,
            Better::More => one / other,
        }
    }
}

/// The newest file of a directory, by name; names are dates.
pub(crate) fn newest(directory: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter(|path| Results::load(path).is_ok())
        .max()
        .with_context(|| format!("there are no results in {}", directory.display()))
}
