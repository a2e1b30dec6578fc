//! Descriptions of templates, their locks, names and versions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| silica_templates::fuzzing::description(text));
