//! What each table and each curve of the document shows, and how it is drawn.

use std::fmt::Write as _;

use super::{PICTURES, Page, cell};
use crate::peers::PLAIN;
use crate::report::plot::{Bar, LineChart, Scale, bars, lines};
use crate::report::words::{amount, digits};
use crate::results::{Better, Results, Row, Table};

/// One comparison of the document.
pub(super) struct Section {
    pub(super) table: &'static str,
    pub(super) title: &'static str,
    about: &'static str,
}

impl Section {
    /// How a heading of this title is linked to.
    pub(super) fn anchor(&self) -> String {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        self.title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    }
}

/// The comparisons with others, in order.
pub(super) const COMPARISONS: [Section; 18] = [
    Section {
        table: "start-print",
        title: "Start and print(1)",
        about: "From nothing to the output of `print(1)` in a place of its own. `silica run` is the whole binary, started for one piece of code.",
    },
    Section {
        table: "start-pandas",
        title: "Start and use pandas",
        about: "From nothing to `describe()` of a small DataFrame in a place of its own. Silica forks an interpreter that has imported pandas already.",
    },
    Section {
        table: "warm",
        title: "Round trip in a live session",
        about: "`print(1)` in a session that is there already, ten in a row from each before it is the next one's turn. Plain python3 is the floor: code through a pipe, no server, no isolation, nothing recorded. Only those are here that have sessions of their own.",
    },
    Section {
        table: "warm-alone",
        title: "The same, one at a time",
        about: "One round trip from each in turn, so that the caches of the processors hold nothing of the next contender.",
    },
    Section {
        table: "crowd",
        title: "A hundred at once",
        about: "A hundred new places asked for at the same moment, until all have printed.",
    },
    Section {
        table: "rate-1",
        title: "Made, used and ended in a second by one client",
        about: "Create, `print(1)`, destroy, one after the other.",
    },
    Section { table: "rate-4", title: "The same by four clients", about: "Four at a time." },
    Section { table: "rate-16", title: "The same by sixteen clients", about: "Sixteen at a time." },
    Section {
        table: "memory-private",
        title: "Memory of an idle place, its own",
        about: "What one more place adds in memory that no other process uses, after it has run one piece of code: all processes that belong to it, and what servers and monitors grow by.",
    },
    Section {
        table: "memory-pss",
        title: "Memory of an idle place, with its share",
        about: "The same with its share of pages that several use (PSS).",
    },
    Section {
        table: "memory-pandas",
        title: "Memory of an idle place that has imported pandas",
        about: "The same as the first after `import pandas`. Silica's sandboxes share what their template has imported ahead.",
    },
    Section {
        table: "inside-cpu",
        title: "Processor-bound code",
        about: "A loop of Python, timed by itself.",
    },
    Section {
        table: "inside-pandas",
        title: "pandas-bound code",
        about: "Grouping, sorting and joining 100 000 rows, timed by itself.",
    },
    Section {
        table: "inside-io",
        title: "System calls",
        about: "480 small files written, looked at, read and removed in memory, and 4800 round trips through a pipe, timed by itself.",
    },
    Section {
        table: "live-cpu",
        title: "Processor-bound code, live",
        about: "An eighth of the loop above in a live sandbox and in a live interpreter, sample by sample in turn. What is promised of code inside ÷ outside is taken from here.",
    },
    Section {
        table: "live-pandas",
        title: "pandas-bound code, live",
        about: "The same with one round of grouping, sorting and joining.",
    },
    Section {
        table: "live-io",
        title: "System calls, live",
        about: "The same with 60 files and 600 round trips through a pipe.",
    },
    Section {
        table: "stdout",
        title: "What code prints",
        about: "5 MB written to stdout in a live place, until the last byte is with the client. Plain python3 and the containers write straight into the client's pipe.",
    },
];

/// Tables about Silica alone.
const OWN: [Section; 11] = [
    Section {
        table: "files",
        title: "Files in and out",
        about: "A large CSV file over HTTP into a sandbox's memory and back, beside the same bytes through a bare socket.",
    },
    Section {
        table: "warm-parts",
        title: "What a round trip holds",
        about: "`print(1)` in a live session, a request that asks for nothing, and a line through a pipe to a bare interpreter, ten in a row of each in turn. The first holds the other two.",
    },
    Section {
        table: "stages-calls",
        title: "A sandbox's life, call by call",
        about: "What a client waits for over HTTP when nothing is kept ready.",
    },
    Section {
        table: "stages-engine",
        title: "The same below HTTP",
        about: "The engine as a library, in the caller's process.",
    },
    Section {
        table: "whole-life",
        title: "Create, print(1), delete",
        about: "From the pool, over HTTP, the delete included; beside a start of plain Python.",
    },
    Section {
        table: "floor",
        title: "Where the time of a life goes",
        about: "Lives a second by sixteen clients, and of the parts of a life, each with all processors busy with nothing else: to make and end an empty sandbox, which is namespaces (but for the network, whose namespaces serve again), control groups and mounts of its own; to fork an interpreter with the template's modules, have it print and end; to answer three empty requests. A life needs all of it, and entering the jail, filters, memory that is counted and the audit log come on top. The empty sandboxes are made by a program in C that makes the calls and nothing more. So the last line is what the kernel, CPython and HTTP take by themselves: nobody who gives every life a sandbox and an interpreter of its own makes more of them on this machine.",
    },
    Section {
        table: "library-shell",
        title: "Making a shell",
        about: "The isolated place alone, without an interpreter. One at a time it is mostly made ahead, up to the point where its customer has a say; of 64 at once three quarters are not, and that line counts the whole making and the ending.",
    },
    Section {
        table: "e2b",
        title: "By E2B's own SDK",
        about: "E2B's Python SDK, unchanged, against Silica and against a server on loopback that says the same words and does nothing.",
    },
    Section {
        table: "interpret",
        title: "Around a model",
        about: "What `POST /interpret` adds to a model that answers at once, and how soon its first word is passed on.",
    },
    Section {
        table: "policy",
        title: "Reading code before it runs",
        about: "The check by the preset `data`.",
    },
    Section {
        table: "idle",
        title: "Beside idle sandboxes",
        about: "`print(1)` in a live sandbox, alone and with many that do nothing.",
    },
];

/// One curve of the document.
struct Growth {
    curve: &'static str,
    title: &'static str,
    about: &'static str,
    across: &'static str,
    scale_across: Scale,
    scale_up: Scale,
}

const GROWTHS: [Growth; 9] = [
    Growth {
        curve: "growth-sandboxes",
        title: "With the number of sandboxes",
        about: "One more sandbox on demand, and a cell in one that lives, while so many others live.",
        across: "live sandboxes",
        scale_across: Scale::Logarithmic,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "memory-growth",
        title: "Memory with the number of sandboxes",
        about: "What so many idle sandboxes use together, server included.",
        across: "idle sandboxes",
        scale_across: Scale::Straight,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "load-sandboxes",
        title: "Memory of the server with the number of sandboxes",
        about: "The resident memory of the server's own process; sandboxes have theirs beside it.",
        across: "idle sandboxes of one key",
        scale_across: Scale::Straight,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "load-kept",
        title: "Memory of the server with what cells have printed",
        about: "Cells of one key print 60 MB each, and no client reads it; `quota.kept_bytes` bounds what is kept.",
        across: "MB printed",
        scale_across: Scale::Straight,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "load-streams",
        title: "Memory of the server with the number of streams",
        about: "Clients of one key read the events of a cell that runs.",
        across: "open streams",
        scale_across: Scale::Straight,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "growth-heap",
        title: "With what a template holds",
        about: "Create on demand and `print(1)`, from a zygote that holds so many megabytes of Python objects.",
        across: "MB held by the zygote",
        scale_across: Scale::Straight,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "growth-cells",
        title: "With the number of cells",
        about: "`print(1)` in a kernel that has run so many cells.",
        across: "cells run in one kernel",
        scale_across: Scale::Logarithmic,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "growth-cells-memory",
        title: "Memory of the server with the number of cells",
        about: "The server's resident memory meanwhile.",
        across: "cells run in one kernel",
        scale_across: Scale::Logarithmic,
        scale_up: Scale::Straight,
    },
    Growth {
        curve: "growth-audit",
        title: "With the length of the audit log",
        about: "With so many records: the start of the server, a search for the newest, and `print(1)`, which adds two.",
        across: "records in the log",
        scale_across: Scale::Logarithmic,
        scale_up: Scale::Logarithmic,
    },
];

pub(super) fn all(page: &mut Page, results: &Results) {
    page.text.push_str("## Side by side\n\n");
    for section in &COMPARISONS {
        if let Some(table) = results.table(section.table) {
            comparison(page, section, table);
        }
    }
    page.text.push_str("## Silica alone\n\n");
    for section in &OWN {
        if let Some(table) = results.table(section.table) {
            let _ = write!(page.text, "### {}\n\n{}\n\n", section.title, section.about);
            figures(&mut page.text, table);
        }
    }
    steps(&mut page.text, results);
    page.text.push_str("## How costs grow\n\n");
    for growth in &GROWTHS {
        curve(page, growth, results);
    }
}

fn comparison(page: &mut Page, section: &Section, table: &Table) {
    let _ = write!(page.text, "### {}\n\n{}\n\n", section.title, section.about);
    if !table.rows.is_empty() {
        let hint = match table.better {
            Better::Less => "less is better; thin line: to the 99th percentile",
            Better::More => "more is better",
        };
        let picture = bars(section.title, hint, &table.unit, &contenders(table));
        add_picture(page, section.table, section.title, picture);
    }
    figures(&mut page.text, table);
    if !table.absent.is_empty() {
        let reason =
            |absent: &crate::results::Absent| format!("{} ({})", absent.who, cell(&absent.reason));
        let reasons: Vec<String> = table.absent.iter().map(reason).collect();
        let _ = write!(page.text, "Not in it: {}.\n\n", reasons.join(", "));
    }
}

fn add_picture(page: &mut Page, name: &str, title: &str, picture: String) {
    let _ = write!(page.text, "![{title}]({PICTURES}/{name}.svg)\n\n");
    page.pictures.push((format!("{name}.svg"), picture));
}

/// Sorts rows, the best first.
fn in_order(table: &Table) -> Vec<&Row> {
    let mut rows: Vec<&Row> = table.rows.iter().collect();
    rows.sort_by(|one, other| one.summary.p50.total_cmp(&other.summary.p50));
    if table.better == Better::More {
        rows.reverse();
    }
    rows
}

fn contenders(table: &Table) -> Vec<Bar> {
    let bar = |row: &Row| Bar {
        label: row.who.clone(),
        value: row.summary.p50,
        reach: if table.better == Better::Less { row.summary.p99 } else { row.summary.p50 },
        ours: row.ours,
    };
    in_order(table).into_iter().map(bar).collect()
}

/// All figures of a table. Quantiles of what was measured once say nothing and are left out.
fn figures(text: &mut String, table: &Table) {
    let plain = table.row(PLAIN);
    let many = table.rows.iter().any(|row| row.summary.count > 1);
    let mut head = vec!["", "p50"];
    if many {
        head.extend(["p90", "p99", "samples"]);
    }
    if plain.is_some() {
        head.push("÷ plain");
    }
    let _ = writeln!(text, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for row in in_order(table) {
        let name = if row.ours { format!("**{}**", row.who) } else { row.who.clone() };
        let show = |value: f64| amount(value, &table.unit);
        let summary = &row.summary;
        let mut cells = vec![name, show(summary.p50)];
        if many {
            cells.extend([show(summary.p90), show(summary.p99), summary.count.to_string()]);
        }
        if let Some(plain) = plain {
            cells.push(digits(summary.p50 / plain.summary.p50));
        }
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// The steps of a create: when each is reached and what lies between it and the next.
fn steps(text: &mut String, results: &Results) {
    let parts =
        [("steps-shell", "the shell is made"), ("steps-enter", "the interpreter enters it")];
    if !parts.iter().any(|(name, _)| results.table(name).is_some()) {
        return;
    }
    text.push_str(
        "### A create, step by step\n\n\
         A create is made to fail at each of its steps; the time until it has failed is the time until that step. What\n\
         lies between two is what the first one costs, a few hundredths of a millisecond of noise included. The shell and\n\
         the interpreter's way towards it go on at the same time.\n\n",
    );
    for (name, title) in parts {
        let Some(table) = results.table(name) else { continue };
        let _ =
            write!(text, "While {title}:\n\n| step | reached after | it takes |\n|---|---|---|\n");
        for pair in table.rows.windows(2) {
            let (here, next) = (pair[0].summary.p50, pair[1].summary.p50);
            let takes = amount((next - here).max(0.0), "ms");
            let _ = writeln!(text, "| {} | {} | {takes} |", pair[0].who, amount(here, "ms"));
        }
        if let Some(end) = table.rows.last() {
            let _ =
                writeln!(text, "| done, and said hello | {} | |", amount(end.summary.p50, "ms"));
        }
        text.push('\n');
    }
}

fn curve(page: &mut Page, growth: &Growth, results: &Results) {
    let Some(curve) = results.curve(growth.curve) else { return };
    let _ = write!(page.text, "### {}\n\n{}\n\n", growth.title, growth.about);
    let chart = LineChart {
        title: growth.title,
        hint: "less is better; flat is best",
        unit: &curve.unit,
        across: growth.across,
        scale_across: growth.scale_across,
        scale_up: growth.scale_up,
    };
    let picture = lines(chart, &curve.lines);
    add_picture(page, growth.curve, growth.title, picture);
    let marks: Vec<f64> = curve
        .lines
        .first()
        .map_or(Vec::new(), |line| line.points.iter().map(|point| point.0).collect());
    let across: Vec<String> = marks.iter().map(|mark| digits_plain(*mark)).collect();
    let _ = writeln!(page.text, "| {} | {} |", growth.across, across.join(" | "));
    let _ = writeln!(page.text, "|{}", "---|".repeat(marks.len() + 1));
    for line in &curve.lines {
        let values: Vec<String> =
            line.points.iter().map(|point| amount(point.1, &curve.unit)).collect();
        let _ = writeln!(page.text, "| {} | {} |", line.label, values.join(" | "));
    }
    page.text.push('\n');
}

/// A count, without digits behind a point.
fn digits_plain(value: f64) -> String {
    crate::report::words::tick(value)
}
