//! Formats a report as a table, as a screen and as JSON, all in printable ASCII.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::frame::{BudgetUse, Frame, Row, State};

/// The titles of the columns; the first four contain words, the others numbers.
const TITLES: [&str; 9] =
    ["ID", "OWNER", "TEMPLATE", "STATE", "CELLS", "CPU%", "MEMORY", "AGE", "EXPIRES"];

/// The number of columns that contain words.
const WORDS: usize = 4;

/// The widest entry of a column of words.
const WIDTH_MAX: usize = 24;
/// The narrowest a column of words is made if the screen is too small.
const WIDTH_MIN: usize = 8;

/// The most characters of the address that are shown.
const URL_CHARACTERS_MAX: usize = 100;

/// The gap between two columns.
const GAP: &str = "  ";

/// Returns text in printable ASCII, of at most `most` characters. Other characters could move the
/// cursor, set colours, change the direction of the line or be wider than one column.
pub(super) fn plain(text: &str, most: usize) -> String {
    let harmless = |character: char| match character {
        ' '..='~' => character,
        _ => '?',
    };
    let mut plain: String = text.chars().take(most).map(harmless).collect();
    if text.chars().nth(most).is_some() {
        plain.pop();
        plain.push('~');
    }
    plain
}

/// Returns the table with its titles; each line ends with a newline.
pub(super) fn table(frame: &Frame, url: &str) -> String {
    let mut text = format!("{}\n", summary(frame, url));
    if let Some(line) = budgets(frame) {
        let _ = writeln!(text, "{line}");
    }
    for line in lines(frame, usize::MAX) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the lines that fit on a screen.
pub(super) fn screen(
    frame: &Frame,
    url: &str,
    trouble: Option<&str>,
    rows: usize,
    columns: usize,
) -> Vec<String> {
    let mut all = vec![match trouble {
        Some(trouble) => format!("{trouble}; trying again"),
        None => summary(frame, url),
    }];
    all.extend(budgets(frame));
    all.extend(lines(frame, columns));
    let total = all.len();
    if total > rows {
        all.truncate(rows.saturating_sub(1));
        all.push(format!("and {} more", total - all.len()));
    }
    all.iter().map(|line| plain(line, columns)).collect()
}

fn summary(frame: &Frame, url: &str) -> String {
    let busy = frame.rows.iter().filter(|row| row.state == State::Busy).count();
    let memory: u64 = frame.rows.iter().filter_map(|row| row.memory_bytes).sum();
    let cpu = frame.rows.iter().filter_map(|row| row.cpu_percent).fold(0.0, |sum, cpu| sum + cpu);
    let count = frame.rows.len();
    let memory = size(Some(memory));
    let at = frame.at.to_string();
    // The time of day, to the second.
    let clock = at.get(11..19).unwrap_or(&at);
    let url = plain(url, URL_CHARACTERS_MAX);
    let plural = if count == 1 { "" } else { "es" };
    format!(
        "{url}  {count} sandbox{plural}, {busy} busy, {cpu:.0}% cpu, {memory} memory  {clock} UTC"
    )
}

/// Returns what all keys together hold, in a line; none if the server does not say it.
fn budgets(frame: &Frame) -> Option<String> {
    let shown = |used: &BudgetUse| {
        let name = plain(&used.resource, WIDTH_MAX);
        let is_size = name.ends_with("_bytes");
        let amount = |amount: u64| if is_size { size(Some(amount)) } else { amount.to_string() };
        let most = used.most.map(|most| format!("/{}", amount(most))).unwrap_or_default();
        let short = name.strip_suffix("_bytes").unwrap_or(&name);
        format!("{short} {}{most}", amount(used.held))
    };
    let all: Vec<String> = frame.budgets.iter().map(shown).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn lines(frame: &Frame, columns: usize) -> Vec<String> {
    let mut cells = vec![TITLES.map(str::to_owned)];
    cells.extend(frame.rows.iter().map(entries));
    let mut widths =
        std::array::from_fn(|column| cells.iter().map(|row| row[column].len()).max().unwrap_or(0));
    shrink(&mut widths, columns);
    let line = |row: &[String; TITLES.len()]| {
        let padded = row.iter().zip(widths).enumerate().map(|(column, (entry, width))| {
            let entry = plain(entry, width);
            if column < WORDS { format!("{entry:<width$}") } else { format!("{entry:>width$}") }
        });
        padded.collect::<Vec<_>>().join(GAP)
    };
    cells.iter().map(line).collect()
}

/// Narrows the widest column of words until the line fits, or all have the least width.
fn shrink(widths: &mut [usize; TITLES.len()], columns: usize) {
    let gaps = GAP.len() * (TITLES.len() - 1);
    while widths.iter().sum::<usize>() + gaps > columns {
        let widest = widths[..WORDS].iter_mut().max();
        match widest.filter(|width| **width > WIDTH_MIN) {
            Some(width) => *width -= 1,
            None => return,
        }
    }
}

fn entries(row: &Row) -> [String; TITLES.len()] {
    [
        plain(&row.id, WIDTH_MAX),
        plain(row.shown_owner(), WIDTH_MAX),
        plain(&row.template, WIDTH_MAX),
        row.state.name().to_owned(),
        row.cells_run.to_string(),
        row.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
        size(row.memory_bytes),
        time(Some(row.age_seconds)),
        time(row.expires_seconds),
    ]
}

/// Formats a size as `512K`, `12.5M` or `1.2G`.
fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    let bytes = bytes as f64;
    match bytes {
        ..1_048_576.0 => format!("{:.0}K", bytes / 1024.0),
        ..1_073_741_824.0 => format!("{:.1}M", bytes / 1_048_576.0),
        _ => format!("{:.1}G", bytes / 1_073_741_824.0),
    }
}

/// Formats a duration as `12s`, `2m05s`, `1h02m` or `3d04h`.
fn time(seconds: Option<u64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns the report as one line of JSON in ASCII.
pub(super) fn json(frame: &Frame) -> String {
    let sandboxes: Vec<Value> = frame
        .rows
        .iter()
        .map(|row| {
            json!({
                "id": row.id,
                "owner": row.owner,
                "owner_name": row.owner_name,
                "template": row.template,
                "state": row.state.name(),
                "cells_run": row.cells_run,
                "cpu_percent": row.cpu_percent.map(|percent| (percent * 10.0).round() / 10.0),
                "memory_bytes": row.memory_bytes,
                "age_seconds": row.age_seconds,
                "expires_seconds": row.expires_seconds,
            })
        })
        .collect();
    ascii(&json!({"at": frame.at.to_string(), "sandboxes": sandboxes}).to_string())
}

/// Escapes non-ASCII characters of JSON, which occur only in strings.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}
