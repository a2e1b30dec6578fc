//! The server of one connection: its tools, its resources, and the sandbox it has by default.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Extensions,
    Implementation, InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceTemplate, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::api::{Accept, Api, ApiRequest, Method};
use crate::arguments::{
    ApprovalStatus, CloseSession, FileEncoding, Language, ListFiles, ReadFile, RunCode, RunPython,
    WriteFile,
};
use crate::calls::{CallError, create, encoded, is_id, json_call, read_file};
use crate::run::{Program, run};
use crate::{render, tools};

/// How long the sandbox that a call makes by default lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxLife {
    /// As long as the connection.
    Connection,
    /// Until it is idle for too long, or closed: each request is a connection of its own. A client that
    /// sends `initialize` has a session, and its sandbox lives as long as that.
    Request,
}

/// Finds the API, with the key of its client, for a request.
type FindApi<A> = Arc<dyn Fn(&Extensions) -> Option<A> + Send + Sync>;

/// The server of one connection.
pub struct McpServer<A: Api> {
    find_api: FindApi<A>,
    /// Whether the default sandbox lives as long as the connection.
    connected: AtomicBool,
    default: Mutex<Option<Default<A>>>,
}

/// The sandbox of calls that name none. Dropping it ends it.
struct Default<A: Api> {
    api: A,
    session: String,
}

impl<A: Api> Drop for Default<A> {
    fn drop(&mut self) {
        let api = self.api.clone();
        let path = format!("/v1/sandboxes/{}", self.session);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // An error is that the sandbox has ended; and if the API is not reachable, its time ends it.
            runtime.spawn(async move { drop(json_call(&api, Method::Delete, path, None).await) });
        }
    }
}

/// What a tool returns: a result for the model either way.
type ToolResult = Result<CallToolResult, CallError>;

impl<A: Api> McpServer<A> {
    /// Serves a connection with the API that `find_api` returns for the extensions of each request.
    pub fn new(
        life: SandboxLife,
        find_api: impl Fn(&Extensions) -> Option<A> + Send + Sync + 'static,
    ) -> Self {
        Self {
            find_api: Arc::new(find_api),
            connected: AtomicBool::new(life == SandboxLife::Connection),
            default: Mutex::new(None),
        }
    }

    /// Ends the default sandbox, and returns when it has ended.
    pub async fn close(&self) {
        let default = self.default.lock().await.take();
        if let Some(default) = default {
            let path = format!("/v1/sandboxes/{}", default.session);
            // As for `Drop`, which then finds that it has ended.
            let _ = json_call(&default.api, Method::Delete, path, None).await;
        }
    }

    fn api(&self, context: &RequestContext<RoleServer>) -> Result<A, ErrorData> {
        (self.find_api)(&context.extensions)
            .ok_or_else(|| ErrorData::internal_error("the request has no key", None))
    }

    /// Returns the session that a call names, or the default one, which is made if it is not there.
    async fn session(&self, api: &A, named: Option<String>) -> Result<String, CallError> {
        if let Some(named) = named {
            let unknown = || CallError::Failed(format!("there is no session {named:?}"));
            return is_id(&named).then(|| named.clone()).ok_or_else(unknown);
        }
        if !self.connected.load(Ordering::Relaxed) {
            return create(api).await;
        }
        let mut default = self.default.lock().await;
        if let Some(default) = &*default {
            return Ok(default.session.clone());
        }
        let session = create(api).await?;
        *default = Some(Default { api: api.clone(), session: session.clone() });
        Ok(session)
    }

    /// Forgets the default session if it is this one.
    async fn forget(&self, session: &str) -> bool {
        let mut default = self.default.lock().await;
        let is_default = default.as_ref().is_some_and(|default| default.session == session);
        if is_default {
            *default = None;
        }
        is_default
    }

    async fn run(
        &self,
        api: &A,
        named: Option<String>,
        program: Program,
        context: &RequestContext<RoleServer>,
    ) -> ToolResult {
        let session = self.session(api, named).await?;
        match run(api, &session, &program, context).await {
            // The default session ended of itself: it was idle, or ran out of memory.
            Err(error) if error.is_gone() && self.forget(&session).await => {
                let session = self.session(api, None).await?;
                let mut result = run(api, &session, &program, context).await?;
                let words = "The earlier session has ended: its variables and files are gone.";
                result.content.insert(0, ContentBlock::text(words));
                Ok(result)
            }
            result => result,
        }
    }

    async fn list_files(&self, api: &A, arguments: ListFiles) -> ToolResult {
        let session = self.session(api, arguments.session_id).await?;
        let path = encoded(arguments.path.as_deref().unwrap_or("/workspace"));
        let path = format!("/v1/sandboxes/{session}/files?path={path}");
        Ok(render::listing(&json_call(api, Method::Get, path, None).await?))
    }

    async fn read_file(&self, api: &A, arguments: ReadFile) -> ToolResult {
        let session = self.session(api, arguments.session_id).await?;
        let bytes = read_file(api, &session, &arguments.path).await?;
        Ok(render::file(&session, &arguments.path, bytes))
    }

    async fn write_file(&self, api: &A, arguments: WriteFile) -> ToolResult {
        let body = match arguments.encoding {
            FileEncoding::Text => arguments.content.into_bytes(),
            FileEncoding::Base64 => STANDARD
                .decode(arguments.content.trim())
                .map_err(|error| CallError::Failed(format!("content: {error}")))?,
        };
        let session = self.session(api, arguments.session_id).await?;
        let path = encoded(&arguments.path);
        let path = format!("/v1/sandboxes/{session}/files/content?path={path}");
        let bytes = body.len();
        let request = ApiRequest { method: Method::Put, path, accept: Accept::Whole, body };
        crate::calls::finished(api.send(request).await?).await?;
        let text = format!("wrote {bytes} bytes to {}\nsession_id: {session}", arguments.path);
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    async fn close_session(&self, api: &A, arguments: CloseSession) -> ToolResult {
        let session = match arguments.session_id {
            Some(named) => self.session(api, Some(named)).await?,
            None => match &*self.default.lock().await {
                Some(default) => default.session.clone(),
                None => return Ok(render::failure("this connection has no session")),
            },
        };
        json_call(api, Method::Delete, format!("/v1/sandboxes/{session}"), None).await?;
        self.forget(&session).await;
        let text = format!("session {session} has ended");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    async fn approval_status(&self, api: &A, arguments: ApprovalStatus) -> ToolResult {
        let id = arguments.approval_id;
        if !is_id(&id) {
            return Ok(render::failure(format!("there is no approval {id:?}")));
        }
        let path = format!("/v1/approvals/{id}");
        let approval = json_call(api, Method::Get, path, None).await?;
        let text = |name: &str| approval[name].as_str().filter(|id| is_id(id)).map(str::to_owned);
        if let (Some("approved"), Some(sandbox), Some(cell)) =
            (approval["state"].as_str(), text("sandbox"), text("cell"))
        {
            let path = format!("/v1/sandboxes/{sandbox}/cells/{cell}?wait=60");
            let ended = json_call(api, Method::Get, path, None).await?;
            if ended["state"] == "done" {
                return Ok(render::cell(&sandbox, &ended));
            }
        }
        let state = approval["state"].as_str().unwrap_or_default();
        let reason = approval["reason"].as_str().map(|reason| format!(": {reason}"));
        let text = format!("approval {id} is {state}{}", reason.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.is_error = Some(matches!(state, "denied" | "expired"));
        result.structured_content = Some(approval);
        Ok(result)
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ToolResult, ErrorData> {
        let api = &self.api(context)?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(match &*request.name {
            "run_python" => {
                let RunPython { code, session_id, timeout_seconds } = parsed(arguments)?;
                let program = Program { language: Language::Python, text: code, timeout_seconds };
                self.run(api, session_id, program, context).await
            }
            "run_code" => {
                let RunCode { language, code, session_id, timeout_seconds } = parsed(arguments)?;
                let program = Program { language, text: code, timeout_seconds };
                self.run(api, session_id, program, context).await
            }
            "list_files" => self.list_files(api, parsed(arguments)?).await,
            "read_file" => self.read_file(api, parsed(arguments)?).await,
            "write_file" => self.write_file(api, parsed(arguments)?).await,
            "close_session" => self.close_session(api, parsed(arguments)?).await,
            "approval_status" => self.approval_status(api, parsed(arguments)?).await,
            name => {
                let name: String = name.chars().take(NAME_CHARS_MAX).collect();
                return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
            }
        })
    }
}

/// How much of an unknown name is repeated in an error.
const NAME_CHARS_MAX: usize = 100;

/// Parses the arguments of a tool.
fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, ErrorData> {
    serde_json::from_value(arguments)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

impl<A: Api> ServerHandler for McpServer<A> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("silica", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        self.connected.store(true, Ordering::Relaxed);
        Ok(result)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = self.call(request, &context).await?;
        let mut result = result.unwrap_or_else(|error| render::refusal(&error));
        if context.protocol_version().is_some_and(|version| version < ProtocolVersion::V_2025_06_18)
        {
            result.content.retain(|block| !matches!(block, ContentBlock::ResourceLink(_)));
        }
        Ok(result.into())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("sandbox://{session_id}/{+path}", "file")
            .with_description("A file of a session");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing = || ErrorData::resource_not_found("no such resource", None);
        let (session, path) = render::parse_uri(&request.uri).ok_or_else(missing)?;
        let api = self.api(&context)?;
        let bytes = read_file(&api, &session, &path).await.map_err(|error| match error {
            CallError::Refused(problem) => ErrorData::resource_not_found(
                problem["detail"].as_str().unwrap_or_default().to_owned(),
                None,
            ),
            CallError::Failed(text) => ErrorData::internal_error(text, None),
        })?;
        Ok(ReadResourceResult::new(vec![render::contents(&session, &path, bytes)]).into())
    }
}
