//! Code as the policies read it before it runs.
//!
//! The parser panics on some texts, and the check says of those that they cannot be read. libFuzzer
//! ends at every panic, caught or not, unless it is told to wait for those that nobody catches.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |text: &str| silica_policy::fuzzing::code(text)
);
