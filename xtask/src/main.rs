//! Project chores: `cargo xtask tidy`.
fn main() {}
