//! Silica itself: as a server over HTTP, and as the library below it.

mod client;
mod library;
mod server;

pub(crate) use client::Client;
pub(crate) use library::{Library, cell, join_all};
pub(crate) use server::{Served, Silica};
