//! Single runs, of `POST /v1/run` and of `silica run --json`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use silica_sessions::KernelState;

use super::cell::{Cell, CellEnd, CellRequest};
use super::sandbox::Containment;
use super::{Base64, Detail, EngineRun, Moment};
use crate::http::long_answer::LongText;

/// A single run: its cell, and the files that were asked for
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunReport {
    #[serde(flatten)]
    request: CellRequest,
    #[serde(flatten)]
    end: Option<CellEnd>,
    /// The sandbox of a run that waits for a person, from which its result can be fetched
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    sandbox: Option<String>,
    /// The files that were asked for
    outputs: Vec<Output>,
    /// The containment of the sandbox; from `silica run` only
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Containment")]
    containment: Option<Containment>,
    /// Has the output counted for its key until the response is written.
    #[serde(skip)]
    #[schemars(skip)]
    _counted: Option<Arc<silica_sessions::CellEnd>>,
}

/// A file that was asked for
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Output {
    /// Its path
    pub(crate) path: String,
    /// Its size in bytes
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub(crate) size: Option<u64>,
    /// Its content; `silica run` copies files to the host instead
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Base64")]
    pub(crate) content_base64: Option<Base64>,
    /// Why it could not be read, instead of the content
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(crate) error: Option<String>,
}

impl Output {
    /// A file that was read.
    pub(crate) fn content(path: String, bytes: Vec<u8>) -> Self {
        let size = Some(bytes.len() as u64);
        Self { path, size, content_base64: Some(Base64(bytes)), error: None }
    }

    /// A file that was copied to the host.
    pub(crate) fn copied(path: String, size: u64) -> Self {
        Self { path, size: Some(size), content_base64: None, error: None }
    }

    /// A file that could not be read.
    pub(crate) fn failed(path: String, error: String) -> Self {
        Self { path, size: None, content_base64: None, error: Some(error) }
    }
}

impl LongText for RunReport {
    fn bytes_least(&self) -> u64 {
        let outputs = self.outputs.iter().filter_map(|output| output.size).sum::<u64>();
        outputs + self.end.as_ref().map_or(0, CellEnd::bytes_least)
    }
}

impl RunReport {
    /// Renders a run on a server.
    pub(crate) fn of_session(cell: &silica_sessions::Cell, outputs: Vec<Output>) -> Self {
        let Cell { request, end, _counted: counted } = Cell::new(cell, Detail::Full);
        Self { request, end, sandbox: None, outputs, containment: None, _counted: counted }
    }

    /// Renders a run that waits for a person, in this sandbox.
    pub(crate) fn of_waiting(cell: &silica_sessions::Cell, sandbox: String) -> Self {
        Self { sandbox: Some(sandbox), ..Self::of_session(cell, Vec::new()) }
    }

    /// Renders a run without a server.
    pub(crate) fn of_engine(run: &EngineRun<'_>) -> Self {
        let request = CellRequest::only(Moment(run.created_at));
        let kernel = if run.report.kernel_lives { KernelState::Ready } else { KernelState::Ended };
        let mut end = CellEnd::new(
            run.report,
            &Arc::new(run.files.clone()),
            Detail::Full,
            run.limits,
            run.setting,
        );
        end.kernel_state = kernel.name();
        let outputs = run.outputs.iter().map(|(path, copied)| match copied {
            Ok(bytes) => Output::copied(path.clone(), *bytes),
            Err(error) => Output::failed(path.clone(), error.clone()),
        });
        Self {
            request,
            end: Some(end),
            sandbox: None,
            outputs: outputs.collect(),
            containment: Some(run.containment.into()),
            _counted: None,
        }
    }
}
