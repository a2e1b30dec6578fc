//! The APIs of this server, one module each: a facade parses requests, calls the sessions and renders
//! the result in its own dialect.

pub(crate) mod e2b;
pub(crate) mod jupyter;
pub(crate) mod limits;
pub(crate) mod mcp;
pub(crate) mod native;
mod port_hosts;

use std::sync::Arc;

use crate::dispatch::{Facade, Mount};
use crate::ports::domain::PortDomain;

/// Returns every facade but the native one, which serves the requests that no other takes.
pub(crate) fn all(port_domain: Option<PortDomain>) -> Vec<(Mount, Arc<dyn Facade>)> {
    let hosts = port_domain.map(|domain| {
        let facade: Arc<dyn Facade> = Arc::new(port_hosts::PortHosts(domain.clone()));
        (Mount::Hosts(domain), facade)
    });
    // First: under these host names nothing else answers.
    let facades = hosts.into_iter().chain(e2b::services());
    facades.chain([mcp::service(), jupyter::service()]).collect()
}
