//! Sandboxes, kernels, templates and the pool, on top of the jail.

pub mod template;
