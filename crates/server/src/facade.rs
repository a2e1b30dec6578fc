//! The APIs of this server, one module each: a facade parses requests, calls the sessions and renders
//! the result in its own dialect.

pub(crate) mod e2b;
pub(crate) mod native;
