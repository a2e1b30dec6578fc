//! Templates: what a sandbox starts from.
