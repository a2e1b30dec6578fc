//! What `cli` needs of the jail beside sandboxes: becoming a zone, and looking at the host.

pub use silica_jail::cgroup::host::survey;
pub use silica_jail::client::{UseOfHost, is_privileged};
pub use silica_jail::run_zone;
pub use silica_jail::seccomp;
