//! What is written down of an execution, before it begins and after it has ended.

use silica_domain::Limits;
use silica_engine::Changes;
use silica_store::approvals::ApprovalRecord;
use silica_store::audit::{Activity, Begin, ChangedFile, Finish, Output, Ticket, Usage};
use silica_store::{Digest, ExecutionId, SandboxId, Store, StoreError, Tenant, Write};

use crate::approval::Checked;
use crate::cell::CellEnd;
use crate::command::CommandEnded;
use crate::session::Session;

/// What writes that something begins; it must not begin before that is written.
pub(crate) fn begin(
    store: &Store,
    tenant: &Tenant,
    sandbox: &SandboxId,
    activity: Activity,
    code: &str,
    limits: &Limits,
) -> Result<Write<Ticket>, StoreError> {
    let mut begin = Begin::new(ExecutionId::random()?, tenant.clone(), activity);
    begin.sandbox = Some(sandbox.clone());
    begin.code = Some(code.to_owned());
    begin.limits = Some(limits.clone());
    Ok(store.audit().begin(&begin))
}

/// The same for a cell, with what the check said and who approved it.
pub(crate) fn begin_cell(
    session: &Session,
    code: &str,
    limits: &Limits,
    checked: &Checked,
    approval: Option<&ApprovalRecord>,
) -> Result<Write<Ticket>, StoreError> {
    let activity = if session.is_single() { Activity::Run } else { Activity::Cell };
    let mut begin = Begin::new(ExecutionId::random()?, session.tenant().clone(), activity);
    begin.sandbox = Some(session.id().clone());
    begin.code = Some(code.to_owned());
    begin.check = Some(checked.line());
    begin.limits = Some(limits.clone());
    if let Some(approval) = approval {
        begin.details.insert("approval".to_owned(), approval.id.to_string());
        let by = approval.decided_by.as_ref().map(ToString::to_string);
        begin.details.insert("approved_by".to_owned(), by.unwrap_or_default());
        begin.details.insert("approved_sha256".to_owned(), approval.sha256.to_string());
    }
    Ok(session.store().audit().begin(&begin))
}

/// Writes how something ended, along with whatever is written next. If that fails the log says what
/// is true: that it is not finished.
pub(crate) fn finish(store: &Store, ticket: Ticket, finish: &Finish) {
    store.audit().finish(ticket, finish).put_aside(|error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the end of an execution could not be recorded");
    });
}

pub(crate) fn of_cell(end: &CellEnd) -> Finish {
    let report = &end.report;
    let mut finish = Finish::from(report.outcome);
    finish.error = report.error.as_ref().map(|error| error.name.clone());
    let kept = [report.stdout.clone().into_bytes(), report.stderr.clone().into_bytes()].concat();
    finish.output = Some(Output {
        sha256: Digest::of(&kept),
        stdout_bytes: report.stdout.total(),
        stderr_bytes: report.stderr.total(),
    });
    finish.files = changed(&end.files);
    finish.usage = Some(Usage {
        wall_ms: report.duration.as_millis() as u64,
        cpu_ms: report.cpu.map(|cpu| cpu.as_millis() as u64),
        memory_peak_bytes: report.memory_peak_bytes,
    });
    finish
}

pub(crate) fn of_command(end: &CommandEnded) -> Finish {
    let mut finish = Finish::new(end.outcome.name());
    let kept = [end.stdout.clone().into_bytes(), end.stderr.clone().into_bytes()].concat();
    finish.output = Some(Output {
        sha256: Digest::of(&kept),
        stdout_bytes: end.stdout.total(),
        stderr_bytes: end.stderr.total(),
    });
    let wall_ms = end.duration.as_millis() as u64;
    finish.usage = Some(Usage { wall_ms, cpu_ms: None, memory_peak_bytes: None });
    finish.details.insert("exit_code".to_owned(), end.outcome.exit_code().to_string());
    finish
}

fn changed(changes: &Changes) -> Vec<ChangedFile> {
    let lists = [
        (&changes.created, "created"),
        (&changes.changed, "changed"),
        (&changes.removed, "removed"),
    ];
    let all =
        lists.into_iter().flat_map(|(list, change)| list.iter().map(move |file| (file, change)));
    all.map(|(file, change)| ChangedFile {
        path: file.path.clone(),
        bytes: file.size,
        change: change.to_owned(),
    })
    .collect()
}
