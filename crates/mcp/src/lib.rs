//! The Model Context Protocol: tools that run code, over stdio and Streamable HTTP.
//!
//! The tools are calls of the native API, which is reached through [`Api`]: over HTTP, or in the process
//! of the server itself. So quotas, policies, approvals and the audit log are those of that API, and
//! this crate decides nothing. It parses arguments, calls, and renders responses for models.

mod api;
mod arguments;
mod calls;
mod events;
mod render;
mod run;
mod server;
mod tools;

pub use api::{Accept, Api, ApiBody, ApiError, ApiRequest, ApiResponse, Method};
pub use events::{EventReader, EventsError, ServerEvent};
pub use rmcp;
pub use server::{McpServer, SandboxLife};
