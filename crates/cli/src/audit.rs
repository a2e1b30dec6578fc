//! `silica audit`: shows, searches, exports and verifies the audit log.

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use clap::{Args, Subcommand, value_parser};
use serde_json::{Value, json};
use silica_store::audit::{
    BeginBody, Execution, ExportError, Fault, FinishBody, Follow, Head, NoteBody, Noted, NotedHead,
    Record, RecordKind, SEARCH_MAX, Search, Summary, TAIL_MAX, Verdict, verify_export,
};
use silica_store::{Access, SandboxId, Tenant, Timestamp};

use crate::{home, show};

/// How long `tail --follow` waits between two reads of the log.
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);
/// The most characters of code and details on one line.
const TEXT_CHARS_MAX: usize = 80;

/// Arguments of `silica audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the last records
    Tail {
        /// How many, at most 1000
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
        #[arg(value_parser = value_parser!(u64).range(..=TAIL_MAX as u64))]
        count: u64,
        /// Show new records as they are written, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Find executions, newest first
    Search(Box<SearchArgs>),
    /// Write the whole log as JSON lines, which `verify --file` can check
    Export {
        /// A new file; standard output if none is given
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Check that no record was changed, moved or removed; the exit code is 1 if one was
    Verify {
        /// A head noted earlier, which must still be in the log
        #[arg(long, value_name = "SEQ:HASH")]
        head: Option<NotedHead>,
        /// Check an exported log instead of the one in use
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// Of the key with this id
    #[arg(long, value_name = "KEY", value_parser = Tenant::parse)]
    tenant: Option<Tenant>,
    /// In this sandbox
    #[arg(long, value_name = "ID", value_parser = SandboxId::parse)]
    sandbox: Option<SandboxId>,
    /// With this outcome: ok, raised, timed_out, unfinished …
    #[arg(long)]
    outcome: Option<String>,
    /// With this text in the code
    #[arg(long)]
    text: Option<String>,
    /// Begun at this time or later: 2026-11-15, 2026-11-15T09:30:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Begun before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// How many at most, up to 1000
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u64).range(1..=SEARCH_MAX as u64))]
    count: u64,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: AuditArgs) -> Result<i32> {
    // A log that is missing is no reason to complain, but it is neither whole nor exported.
    let only_looks = matches!(&arguments.action, Action::Tail { .. } | Action::Search(_));
    if only_looks && !home::database()?.exists() {
        let place = home::home()?;
        say!("silica: there is no audit log yet in {}", place.path().display());
        say!("silica: silica serve starts one; SILICA_HOME is its directory");
        return Ok(0);
    }
    match arguments.action {
        Action::Tail { count, follow, json } => tail(count, follow, json)?,
        Action::Search(arguments) => search(*arguments)?,
        Action::Export { output } => export(output.as_deref())?,
        Action::Verify { head, file, json } => return verify(head, file.as_deref(), json),
    }
    Ok(0)
}

fn tail(count: u64, follow: bool, as_json: bool) -> Result<()> {
    let store = home::store(Access::ReadOnly)?;
    let records = store.audit().tail(count as usize).wait()?;
    let seen = match records.last() {
        Some(last) => last.seq,
        None => store.audit().head().wait()?.seq,
    };
    if !as_json {
        show::line(record_line("SEQ", "TIME", "KIND", "TENANT", "SANDBOX", "WHAT"))?;
    }
    records.iter().try_for_each(|record| show_record(record, as_json))?;
    if follow { show_new(store.audit().follow(seen), as_json) } else { Ok(()) }
}

/// Shows new records until the program is interrupted or stdout is closed.
fn show_new(mut new: Follow, as_json: bool) -> Result<()> {
    loop {
        new.poll()?.iter().try_for_each(|record| show_record(record, as_json))?;
        std::thread::sleep(FOLLOW_PAUSE);
    }
}

fn record_line(
    seq: &str,
    time: &str,
    kind: &str,
    tenant: &str,
    sandbox: &str,
    what: &str,
) -> String {
    format!("{seq:>7}  {time:<20}  {kind:<6}  {tenant:<16}  {sandbox:<24}  {what}")
}

fn show_record(record: &Record, as_json: bool) -> Result<()> {
    if as_json {
        let mut object = serde_json::to_value(record)?;
        // A body is JSON unless the log was tampered with; it is embedded as an object, not as
        // text.
        if let Ok(body) = serde_json::from_str(&record.body) {
            object["body"] = body;
        }
        return show::line(object);
    }
    let column = |text: &Option<String>| show::plain(text.as_deref().unwrap_or("-"), 64);
    show::line(record_line(
        &record.seq.to_string(),
        &show::moment(record.time),
        record.kind.name(),
        &column(&record.tenant),
        &column(&record.sandbox),
        &what(record),
    ))
}

/// Returns the body of a record on one line.
fn what(record: &Record) -> String {
    let text = match record.kind {
        RecordKind::Begin => serde_json::from_str(&record.body).map(|body| begun(&body)),
        RecordKind::Finish => serde_json::from_str(&record.body).map(|body| finished(&body)),
        RecordKind::Note => serde_json::from_str(&record.body).map(|body| noted(&body)),
    };
    show::plain(&text.unwrap_or_else(|_| record.body.clone()), TEXT_CHARS_MAX)
}

fn begun(body: &BeginBody) -> String {
    format!("{} {}", body.activity, code(body))
}

fn code(body: &BeginBody) -> String {
    match &body.code {
        Some(code) => match &code.text {
            Some(text) => text.clone(),
            None => format!("{} bytes, SHA-256 {}", code.bytes, code.sha256),
        },
        None => details(&body.details),
    }
}

fn finished(body: &FinishBody) -> String {
    let error = body.error.as_ref().map(|error| format!(" {error}")).unwrap_or_default();
    format!("{}{error} {}", body.outcome, details(&body.details)).trim_end().to_owned()
}

fn noted(body: &NoteBody) -> String {
    format!("{} {}", body.event, details(&body.details)).trim_end().to_owned()
}

fn details<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs: Vec<String> =
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

fn search(arguments: SearchArgs) -> Result<()> {
    let search = Search {
        tenant: arguments.tenant,
        sandbox: arguments.sandbox,
        outcome: arguments.outcome,
        text: arguments.text,
        since: arguments.since,
        until: arguments.until,
        limit: Some(arguments.count as usize),
    };
    let found = home::store(Access::ReadOnly)?.audit().search(&search).wait()?;
    if arguments.json {
        return found.iter().try_for_each(|one| show::line(serde_json::to_string(one)?));
    }
    if found.is_empty() {
        say!("silica: no execution matches");
        return Ok(());
    }
    show::line(execution_line("BEGUN", "EXECUTION", "TENANT", "OUTCOME", "MS", "CODE"))?;
    found.iter().try_for_each(show_execution)
}

fn execution_line(
    begun: &str,
    execution: &str,
    tenant: &str,
    outcome: &str,
    millis: &str,
    code: &str,
) -> String {
    format!("{begun:<20}  {execution:<24}  {tenant:<16}  {outcome:<13} {millis:>8}  {code}")
}

fn show_execution(execution: &Execution) -> Result<()> {
    let millis = execution.finish.as_ref().and_then(|finish| finish.usage.as_ref());
    let code = format!("{} {}", execution.begin.activity, code(&execution.begin));
    show::line(execution_line(
        &show::moment(execution.begun_at),
        &show::plain(&execution.execution, 64),
        &show::plain(execution.tenant.as_deref().unwrap_or("-"), 64),
        &show::plain(&execution.outcome, 64),
        &millis.map_or_else(|| "-".to_owned(), |usage| usage.wall_ms.to_string()),
        &show::plain(&code, TEXT_CHARS_MAX),
    ))
}

fn export(output: Option<&Path>) -> Result<()> {
    let store = home::store(Access::ReadOnly)?;
    let write = |to: &mut dyn Write| store.audit().export(to).map_err(flatten);
    let (head, place) = match output {
        None => {
            (write(&mut BufWriter::new(std::io::stdout().lock()))?, "standard output".to_owned())
        }
        Some(path) => (export_to(path, write)?, path.display().to_string()),
    };
    say!("silica: wrote the audit log to {place}");
    say!("silica: its head is {head}");
    Ok(())
}

/// Writes a new file that only its owner can read; removes it if writing fails.
fn export_to(path: &Path, write: impl Fn(&mut dyn Write) -> Result<Head>) -> Result<Head> {
    let cannot = || format!("cannot write {}", path.display());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.with_context(cannot)?;
    let mut writer = BufWriter::new(&file);
    let written = write(&mut writer).and_then(|head| {
        writer.flush().and_then(|()| file.sync_all()).map(|()| head).map_err(Error::from)
    });
    if written.is_err() {
        // The error of writing is reported; one of removing the rest would not help.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(cannot)
}

/// Returns the error of the store if there is one, since `main` prints advice for it.
fn flatten(error: ExportError) -> Error {
    match error {
        ExportError::Store(error) => error.into(),
        error => error.into(),
    }
}

fn verify(head: Option<NotedHead>, file: Option<&Path>, as_json: bool) -> Result<i32> {
    let verdict = match file {
        None => home::store(Access::ReadOnly)?.audit().verify(head).wait()?,
        Some(path) => {
            let cannot = || format!("cannot check {}", path.display());
            let opened = std::fs::File::open(path).with_context(cannot)?;
            verify_export(&home::database()?, &mut BufReader::new(opened), head)
                .map_err(flatten)
                .with_context(cannot)?
        }
    };
    match (&verdict, as_json) {
        (Verdict::Whole(summary), true) => show::line(summary_json(summary))?,
        (Verdict::Whole(summary), false) => show_summary(summary)?,
        (Verdict::Broken(fault), true) => show::line(fault_json(fault)?)?,
        (Verdict::Broken(fault), false) => {
            say!("silica: the audit log was TAMPERED WITH or damaged: {fault}");
        }
    }
    Ok(i32::from(matches!(verdict, Verdict::Broken(_))))
}

fn show_summary(summary: &Summary) -> Result<()> {
    let Summary { records, first, head, .. } = summary;
    match first {
        Some(first) => show::line(format_args!(
            "The log is whole: {records} records, {first} to {}.",
            head.seq
        ))?,
        None => show::line("The log is whole: it has no records.")?,
    }
    if let Some(anchor) = &summary.anchor {
        let seq = anchor.seq;
        let time = show::moment(anchor.pruned_at);
        show::line(format_args!("Records up to {seq} were pruned, the last of them {time}."))?;
    }
    if summary.unfinished > 0 {
        let ids: Vec<String> =
            summary.unfinished_ids.iter().map(|id| show::plain(id, 64)).collect();
        let count = summary.unfinished;
        let ids = ids.join(" ");
        show::line(format_args!("Executions without an end: {count}: {ids}"))?;
    }
    match summary.noted {
        Some(Noted::Found) => show::line("The noted head is in the log.")?,
        Some(Noted::Pruned) => {
            show::line("The record of the noted head was pruned, so it cannot be checked.")?;
        }
        None => {}
    }
    show::line(format_args!("The head of the log; note it elsewhere for --head:\n{head}"))
}

fn summary_json(summary: &Summary) -> Value {
    json!({
        "whole": true,
        "records": summary.records,
        "first": summary.first,
        "head": summary.head.to_string(),
        "unfinished": summary.unfinished,
        "unfinished_ids": summary.unfinished_ids,
        "pruned_up_to": summary.anchor.map(|anchor| anchor.seq),
        "noted": summary.noted.map(|noted| match noted {
            Noted::Found => "found",
            Noted::Pruned => "pruned",
        }),
    })
}

fn fault_json(fault: &Fault) -> Result<Value> {
    let mut object = json!({"whole": false, "message": fault.to_string()});
    if let (Value::Object(object), Value::Object(more)) =
        (&mut object, serde_json::to_value(fault)?)
    {
        object.extend(more);
    }
    Ok(object)
}

/// Parses a time, or a duration before now.
fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    ago(text).map(|duration| Timestamp::now().before(duration)).map_err(|error| error.to_string())
}

/// Parses a duration such as `90s`, `30m`, `2h` or `7d`.
fn ago(text: &str) -> Result<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let read = |(unit, seconds): (&str, u64)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(seconds).map(Duration::from_secs)
    };
    match units.into_iter().find_map(read) {
        Some(duration) => Ok(duration),
        None => bail!(
            "{text:?} is not a time; write for example 2026-11-15, 2026-11-15T09:30:00Z, or 2h for two \
             hours ago"
        ),
    }
}
