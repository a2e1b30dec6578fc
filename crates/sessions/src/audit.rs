//! What the store keeps of executions and sandboxes: conversions from the types of this crate.

use serde_json::{Value, json};
use silica_domain::Limits;
use silica_engine::{Changes, HeadTail};
use silica_policy::Finding;
use silica_store::approvals::ApprovalRecord;
use silica_store::audit::{Activity, Begin, Finish, Output, RecordedFile, RecordedUsage, Ticket};
use silica_store::{Digest, ExecutionId, StoreError, Write};

use crate::approval::CheckResult;
use crate::cell::CellEnd;
use crate::command::{CommandEnded, CommandInvocation};
use crate::error::SessionError;
use crate::session::{Purpose, Session, UsageSample};

/// Records that a command begins. It must not start before the write is done.
pub(crate) fn begin_command(
    session: &Session,
    line: &CommandInvocation,
    limits: &Limits,
) -> Result<Write<Ticket>, SessionError> {
    let begin = begin(session, Activity::Command, &line.display(), limits)?;
    within_quota(session, session.services.store.audit().begin(&begin))
}

/// Records that a cell begins. It must not run before the write is done.
pub(crate) fn begin_cell(
    session: &Session,
    code: &str,
    limits: &Limits,
    checked: &CheckResult,
) -> Result<Write<Ticket>, SessionError> {
    let begin = checked_cell(session, code, limits, checked)?;
    within_quota(session, session.services.store.audit().begin(&begin))
}

/// Records that an operation on a whole sandbox begins.
pub(crate) fn begin_operation(
    session: &Session,
    activity: Activity,
) -> Result<Write<Ticket>, SessionError> {
    let mut begin = Begin::new(ExecutionId::random()?, session.tenant().clone(), activity);
    begin.sandbox = Some(session.id().clone());
    within_quota(session, session.services.store.audit().begin(&begin))
}

/// Refuses an execution whose record is more than its owner may have recorded now.
fn within_quota(session: &Session, begin: Write<Ticket>) -> Result<Write<Ticket>, SessionError> {
    session.services.admission.record(session.tenant(), begin.bytes())?;
    Ok(begin)
}

/// Records that a cell begins that a person approved. It must not run before the write is done. It is recorded even
/// if its owner has used up the quota meanwhile.
pub(crate) fn begin_approved_cell(
    session: &Session,
    code: &str,
    limits: &Limits,
    checked: &CheckResult,
    approval: &ApprovalRecord,
) -> Result<Write<Ticket>, StoreError> {
    let mut begin = checked_cell(session, code, limits, checked)?;
    begin.details.insert("approval".to_owned(), approval.id.to_string());
    let by = approval.decided_by.as_ref().map(ToString::to_string);
    begin.details.insert("approved_by".to_owned(), by.unwrap_or_default());
    begin.details.insert("approved_sha256".to_owned(), approval.sha256.to_string());
    let begin = session.services.store.audit().begin(&begin);
    session.services.admission.charge_record(session.tenant(), begin.bytes());
    Ok(begin)
}

fn checked_cell(
    session: &Session,
    code: &str,
    limits: &Limits,
    checked: &CheckResult,
) -> Result<Begin, StoreError> {
    let activity = match session.purpose {
        Purpose::Session => Activity::Cell,
        Purpose::SingleRun => Activity::Run,
    };
    let mut begin = begin(session, activity, code, limits)?;
    begin.check = Some(checked.line());
    Ok(begin)
}

fn begin(
    session: &Session,
    activity: Activity,
    code: &str,
    limits: &Limits,
) -> Result<Begin, StoreError> {
    let mut begin = Begin::new(ExecutionId::random()?, session.tenant().clone(), activity);
    begin.sandbox = Some(session.id().clone());
    begin.code = Some(code.to_owned());
    begin.limits = Some(limits.clone());
    Ok(begin)
}

/// Records how an execution ended, together with the next write. If that fails, the audit log says what is
/// true: that the execution is not finished.
pub(crate) fn finish(session: &Session, ticket: Ticket, finish: &Finish) {
    let finish = session.services.store.audit().finish(ticket, finish);
    session.services.admission.charge_record(session.tenant(), finish.bytes());
    finish.put_aside(|error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the end of an execution could not be recorded");
    });
}

pub(crate) fn of_cell(end: &CellEnd) -> Finish {
    let report = &end.report;
    let mut finish = Finish::from(report.outcome);
    finish.error = report.error.as_ref().map(|error| error.name.clone());
    finish.output = Some(output(&report.stdout, &report.stderr));
    finish.files = changed_files(&end.files);
    finish.usage = Some(RecordedUsage {
        wall_ms: report.duration.as_millis() as u64,
        cpu_ms: report.cpu.map(|cpu| cpu.as_millis() as u64),
        memory_peak_bytes: report.memory_peak_bytes,
    });
    finish
}

pub(crate) fn of_command(end: &CommandEnded) -> Finish {
    let mut finish = Finish::new(end.outcome.name());
    finish.output = Some(output(&end.stdout, &end.stderr));
    let wall_ms = end.duration.as_millis() as u64;
    finish.usage = Some(RecordedUsage { wall_ms, cpu_ms: None, memory_peak_bytes: None });
    finish.details.insert("exit_code".to_owned(), end.outcome.exit_code().to_string());
    finish
}

fn output(stdout: &HeadTail, stderr: &HeadTail) -> Output {
    let pieces = [stdout.pieces(), stderr.pieces()];
    let sha256 = Digest::of_pieces(pieces.iter().flatten());
    Output { sha256, stdout_bytes: stdout.total(), stderr_bytes: stderr.total() }
}

fn changed_files(changes: &Changes) -> Vec<RecordedFile> {
    let lists = [
        (&changes.created, "created"),
        (&changes.changed, "changed"),
        (&changes.removed, "removed"),
    ];
    let all =
        lists.into_iter().flat_map(|(list, change)| list.iter().map(move |file| (file, change)));
    all.map(|(file, change)| RecordedFile {
        path: file.path.clone(),
        bytes: file.size,
        change: change.to_owned(),
    })
    .collect()
}

/// Returns the usage of a sandbox in the form of sandbox records.
pub(crate) fn usage_json(usage: &UsageSample) -> Value {
    json!({
        "cpu_ms": usage.cpu_ms,
        "memory_peak_bytes": usage.memory_peak_bytes,
        "disk_bytes": usage.disk_bytes,
    })
}

/// Returns findings in the form of approval records, which is that of the API.
pub(crate) fn findings_json(findings: &[Finding]) -> Value {
    json!(findings)
}
