//! Cells: submitted for a client, and their events as messages.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use silica_domain::{Bundle, CommKind, CommMessage, Outcome};
use silica_engine::CellSetup;
use silica_sessions::{
    Cell, CellEnd, CellRequest, KernelState, LogEvent, LogRead, OutputText, SessionError,
};
use std::sync::Arc;

use super::framing::Received;
use super::kernel::{FIRST_KERNEL, JupyterKernel};
use super::message::{Channel, KernelMessage, Parent};
use super::requests::{ExecuteContent, STDIN};
use crate::facade::limits::field;
use crate::http::payload::{JsonText, PayloadValue};

/// The version that clients are told. Code sees that of its template.
pub(super) const PYTHON_VERSION: &str = "3";

/// The most expressions of one request.
const EXPRESSIONS_MAX: usize = 16;

/// One request to run something, and where its messages go.
pub(super) struct Execution<'a> {
    pub(super) kernel: &'a Arc<JupyterKernel>,
    pub(super) socket: u64,
    pub(super) parent: &'a Parent,
    pub(super) channel: Channel,
}

/// What is shown of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Everything; its number is this.
    All(u64),
    /// What it prints.
    Output,
    /// Nothing but what it asks for.
    Nothing,
}

/// An exception, in the form of messages.
#[derive(Clone, Debug)]
struct Raised {
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

impl Raised {
    fn new(name: &str, value: String) -> Self {
        let traceback = vec![format!("{name}: {value}")];
        Self { ename: name.to_owned(), evalue: value, traceback }
    }

    fn json(&self) -> Value {
        json!({"ename": self.ename, "evalue": self.evalue, "traceback": self.traceback})
    }
}

/// How a cell ended, for a reply.
struct Ended {
    raised: Option<Raised>,
    main: Option<Arc<Bundle>>,
}

impl Execution<'_> {
    /// Runs code and answers. Returns whether cells that wait are not to be run.
    pub(super) async fn run(&self, content: ExecuteContent) -> bool {
        let kernel = self.kernel;
        let stored = content.store_history && !content.silent;
        let count = if stored { kernel.begin_input(&content.code) } else { kernel.count() };
        if !content.silent {
            let input = json!({"code": content.code, "execution_count": count});
            kernel.publish("execute_input", self.parent, &input).await;
        }
        let shown = if content.silent { Shown::Output } else { Shown::All(count) };
        let setup = CellSetup { input: content.allow_stdin, ..CellSetup::default() };
        let ended = if content.code.trim().is_empty() {
            Ended { raised: None, main: None }
        } else {
            self.cell(content.code, setup, shown).await
        };
        let Some(raised) = ended.raised else {
            let mut values = serde_json::Map::new();
            for (name, code) in
                content.user_expressions.unwrap_or_default().into_iter().take(EXPRESSIONS_MAX)
            {
                values.insert(name, self.expression(code).await);
            }
            let reply = json!({
                "status": "ok", "execution_count": count, "user_expressions": values, "payload": [],
            });
            self.reply("execute_reply", &reply).await;
            return false;
        };
        let mut reply = raised.json();
        reply["status"] = "error".into();
        reply["execution_count"] = count.into();
        reply["user_expressions"] = json!({});
        reply["payload"] = json!([]);
        self.reply("execute_reply", &reply).await;
        content.stop_on_error
    }

    /// Answers a request whose content is not that of one.
    pub(super) async fn refuse_content(&self) -> bool {
        let mut reply =
            Raised::new("ValueError", "the content of the request is not valid".to_owned()).json();
        reply["status"] = "error".into();
        reply["execution_count"] = self.kernel.count().into();
        self.reply("execute_reply", &reply).await;
        false
    }

    /// Evaluates an expression for the reply.
    async fn expression(&self, code: String) -> Value {
        let ended = self.cell(code, CellSetup::default(), Shown::Nothing).await;
        match (ended.raised, ended.main) {
            (Some(raised), _) => {
                let mut value = raised.json();
                value["status"] = "error".into();
                value
            }
            (None, main) => {
                let text = main.as_ref().and_then(|main| main.get("text/plain"));
                let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
                let data = text.map_or_else(|| json!({}), |text| json!({"text/plain": text}));
                json!({"status": "ok", "data": data, "metadata": {}})
            }
        }
    }

    /// Delivers a message of a comm to the code, as a cell of its own.
    pub(super) async fn comm(&self, received: &Received) {
        let kind = match received.header.msg_type.as_str() {
            "comm_open" => CommKind::Open,
            "comm_close" => CommKind::Close,
            _ => CommKind::Message,
        };
        let Ok(content) = serde_json::from_str::<CommContent>(received.content.get()) else {
            return;
        };
        match kind {
            CommKind::Open => self.kernel.add_comm(&content.comm_id, &content.target_name),
            CommKind::Close => self.kernel.remove_comm(&content.comm_id),
            CommKind::Message => {}
        }
        let comm = CommMessage {
            kind,
            id: content.comm_id,
            target: content.target_name,
            data: content.data.map_or_else(|| "{}".to_owned(), |data| data.get().to_owned()),
            metadata: received
                .metadata
                .as_ref()
                .map_or_else(String::new, |raw| raw.get().to_owned()),
            buffers: received.buffers.iter().map(|buffer| buffer.to_vec()).collect(),
        };
        let setup = CellSetup { comm: Some(Arc::new(comm)), ..CellSetup::default() };
        self.cell(String::new(), setup, Shown::Output).await;
    }

    async fn reply(&self, kind: &'static str, content: &Value) {
        let message = KernelMessage::new(self.channel, kind, self.parent, content);
        self.kernel.reply(self.socket, message).await;
    }

    /// Runs a cell to its end, and publishes what happens.
    async fn cell(&self, code: String, setup: CellSetup, shown: Shown) -> Ended {
        let request = CellRequest {
            code: code.into(),
            kernel: Some(FIRST_KERNEL),
            setup,
            // Clients of Jupyter interrupt what takes too long for them.
            timeout: Some(self.kernel.session.timeout_max()),
            policy: None,
        };
        let submitted = self.kernel.session.submit(request).await;
        let end = match submitted {
            Ok(cell) => self.follow(&cell, shown).await,
            Err(error) => Err(error),
        };
        let ended = match end {
            Ok((raised, main, end)) => Ended { raised: raised.or_else(|| loss(&end)), main },
            Err(error) => Ended { raised: Some(refusal(&error)), main: None },
        };
        if let (Some(raised), true) = (&ended.raised, shown != Shown::Nothing) {
            self.kernel.publish("error", self.parent, &raised.json()).await;
        }
        ended
    }

    async fn follow(
        &self,
        cell: &Arc<Cell>,
        shown: Shown,
    ) -> Result<(Option<Raised>, Option<Arc<Bundle>>, Arc<CellEnd>), SessionError> {
        self.kernel.set_current(Some((Arc::clone(cell), self.socket)));
        let mut reader = cell.log.read(0);
        let mut raised = None;
        let mut main = None;
        let followed = async {
            cell.begun().await?;
            while let Some(read) = reader.next().await {
                let LogRead::Event(_, event) = read else { continue };
                match event {
                    LogEvent::Error(error) => {
                        raised = Some(Raised {
                            ename: error.name.clone(),
                            evalue: error.value.clone(),
                            traceback: error.traceback.clone(),
                        });
                    }
                    LogEvent::Result(bundle) => {
                        if bundle.main {
                            main = Some(Arc::clone(&bundle));
                        }
                        self.result(&bundle, shown).await;
                    }
                    event => self.event(event, shown).await,
                }
            }
            cell.done().await
        };
        let end = followed.await;
        self.kernel.set_current(None);
        Ok((raised, main, end?))
    }

    async fn event(&self, event: LogEvent, shown: Shown) {
        let kernel = self.kernel;
        match event {
            LogEvent::Stdout(text) if shown != Shown::Nothing => {
                kernel
                    .publish("stream", self.parent, &Stream { name: "stdout", text: &text })
                    .await;
            }
            LogEvent::Stderr(text) if shown != Shown::Nothing => {
                kernel
                    .publish("stream", self.parent, &Stream { name: "stderr", text: &text })
                    .await;
            }
            LogEvent::Approval(record) if record.decided_at.is_none() => {
                let text =
                    format!("A person has to approve this code; the approval is {}.\n", record.id);
                let content = json!({"name": "stderr", "text": text});
                kernel.publish("stream", self.parent, &content).await;
            }
            LogEvent::Input { prompt, password } => {
                let content = json!({"prompt": &*prompt, "password": password});
                let message = KernelMessage::new(STDIN, "input_request", self.parent, &content);
                kernel.reply(self.socket, message).await;
            }
            LogEvent::Clear { wait } => {
                kernel.publish("clear_output", self.parent, &json!({"wait": wait})).await;
            }
            LogEvent::Comm(comm) => self.comm_out(&comm).await,
            _ => {}
        }
    }

    async fn comm_out(&self, comm: &CommMessage) {
        let kind = match comm.kind {
            CommKind::Open => {
                self.kernel.add_comm(&comm.id, &comm.target);
                "comm_open"
            }
            CommKind::Message => "comm_msg",
            CommKind::Close => {
                self.kernel.remove_comm(&comm.id);
                "comm_close"
            }
        };
        let content = CommOut {
            comm_id: &comm.id,
            target_name: (comm.kind == CommKind::Open).then_some(&*comm.target),
            data: JsonText(&comm.data),
        };
        let mut message = KernelMessage::new(Channel::Iopub, kind, self.parent, &content);
        if let Ok(metadata) = serde_json::from_str::<Box<RawValue>>(&comm.metadata) {
            message.metadata = metadata;
        }
        message.buffers = comm.buffers.iter().map(|buffer| buffer.clone().into()).collect();
        self.kernel.publish_message(message).await;
    }

    async fn result(&self, bundle: &Arc<Bundle>, shown: Shown) {
        let count = match shown {
            Shown::All(count) => count,
            Shown::Output if !bundle.main => 0,
            Shown::Output | Shown::Nothing => return,
        };
        let updates = bundle.display.as_ref().is_some_and(|display| display.update);
        let kind = match (bundle.main, updates) {
            (true, _) => "execute_result",
            (false, true) => "update_display_data",
            (false, false) => "display_data",
        };
        let content = ResultContent {
            data: Payloads(bundle),
            metadata: Metadata(bundle),
            execution_count: bundle.main.then_some(count),
            transient: (!bundle.main).then_some(Transient {
                display_id: bundle.display.as_ref().map(|display| &*display.id),
            }),
        };
        self.kernel.publish(kind, self.parent, &content).await;
    }
}

/// Returns the exception for a cell that ended without raising one, and not well.
fn loss(end: &CellEnd) -> Option<Raised> {
    let outcome = end.report.outcome;
    let name = match outcome {
        Outcome::Ok | Outcome::Raised => return None,
        Outcome::Exited(0) if end.kernel == KernelState::Ready => return None,
        Outcome::Exited(_) => "SystemExit",
        Outcome::Interrupted => "KeyboardInterrupt",
        Outcome::TimedOut => "TimeoutError",
        Outcome::OutOfMemory => "MemoryError",
        Outcome::Denied => "PermissionError",
        Outcome::CpuExceeded
        | Outcome::Crashed(_)
        | Outcome::Vanished(_)
        | Outcome::Disconnected
        | Outcome::SandboxDied => "KernelDied",
    };
    let words = outcome.explain(&end.limits, field).unwrap_or_else(|| outcome.name().to_owned());
    let value = match &end.lost {
        Some(lost) => format!("{words}; {lost}"),
        None => words,
    };
    Some(Raised::new(name, value))
}

/// Returns the exception for a cell that is not run.
fn refusal(error: &SessionError) -> Raised {
    let name = match error {
        SessionError::Blocked(_) => "PolicyBlocked",
        SessionError::Refused(_) => "QuotaExceeded",
        SessionError::Ended { .. } => "KernelDied",
        _ => "KernelError",
    };
    // The words for clients, without the causes that name files of the host.
    let problem = crate::http::problem::Problem::from(match error {
        SessionError::Blocked(checked) => SessionError::Blocked(checked.clone()),
        other => return Raised::new(name, other.to_string()),
    });
    Raised::new(name, problem.detail().to_owned())
}

#[derive(Deserialize)]
struct CommContent {
    comm_id: String,
    #[serde(default)]
    target_name: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct CommOut<'a> {
    comm_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_name: Option<&'a str>,
    data: JsonText<'a>,
}

/// Content of `stream`.
struct Stream<'a> {
    name: &'static str,
    text: &'a OutputText,
}

impl Serialize for Stream<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", self.name)?;
        match self.text {
            OutputText::Utf8(text) => map.serialize_entry("text", &**text)?,
            OutputText::Bytes(bytes) => {
                map.serialize_entry("text", &String::from_utf8_lossy(bytes))?;
            }
        }
        map.end()
    }
}

/// Content of `execute_result`, `display_data` and `update_display_data`.
#[derive(Serialize)]
struct ResultContent<'a> {
    data: Payloads<'a>,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transient: Option<Transient<'a>>,
}

#[derive(Serialize)]
struct Transient<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    display_id: Option<&'a str>,
}

/// The data of a result by MIME type. What only clients of Silica know is left out.
struct Payloads<'a>(&'a Bundle);

impl fmt::Debug for Payloads<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Payloads")
    }
}

impl Serialize for Payloads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = |mime: &str| !mime.starts_with("application/vnd.silica.");
        let payloads = self.0.payloads.iter().filter(|payload| known(&payload.mime));
        serializer.collect_map(payloads.map(|payload| (&payload.mime, PayloadValue(payload))))
    }
}

/// The metadata of a result.
struct Metadata<'a>(&'a Bundle);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = JsonText(&self.0.metadata);
        if text.is_valid() {
            text.serialize(serializer)
        } else {
            serializer.serialize_map(Some(0))?.end()
        }
    }
}
