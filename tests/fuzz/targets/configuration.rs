//! The server's configuration, as a file and as flags.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| silica::fuzzing::configuration(text));
