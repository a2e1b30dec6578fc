//! Tests of `crates/jail`: namespaces, groups, filters and the processes of a zone.

mod containment;
mod entering;
pub(crate) mod failing;
mod forks;
pub(crate) mod init_pool;
mod leftovers;
mod ordinary_user;
