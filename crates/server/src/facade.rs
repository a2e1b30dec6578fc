//! The APIs of this server, one module each: a facade parses requests, calls the sessions and renders
//! the result in its own dialect.

pub(crate) mod e2b;
pub(crate) mod jupyter;
pub(crate) mod limits;
pub(crate) mod mcp;
pub(crate) mod native;

use std::sync::Arc;

use crate::dispatch::{Facade, Mount};

/// Returns every facade but the native one, which serves the requests that no other takes.
pub(crate) fn all() -> Vec<(Mount, Arc<dyn Facade>)> {
    let mut facades = e2b::services();
    facades.extend([mcp::service(), jupyter::service()]);
    facades
}
