//! Policy files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| silica_policy::fuzzing::rules(text));
