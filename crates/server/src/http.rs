//! What every facade needs of HTTP: sockets, the checks around each request, callers, bodies,
//! streams, transfers of files, and errors.
//!
//! Nothing here knows a route or the JSON of a facade.

pub(crate) mod auth;
pub(crate) mod break_off;
pub(crate) mod connection;
pub(crate) mod dialect;
pub(crate) mod download;
pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod in_flight;
pub(crate) mod json;
pub(crate) mod listen;
pub(crate) mod long_answer;
mod patient;
pub(crate) mod payload;
pub(crate) mod problem;
pub(crate) mod returnable;
pub(crate) mod session;
pub(crate) mod startup;
pub(crate) mod stream;
pub(crate) mod transfer;
pub(crate) mod upload;
