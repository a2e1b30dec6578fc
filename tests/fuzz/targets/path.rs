//! Paths from clients: what is accepted lies in a writable place and has no way out of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| silica_engine::fuzzing::path(text));
