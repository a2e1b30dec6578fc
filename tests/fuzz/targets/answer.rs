//! Answers of the process that reads for the host: its decoder must never panic, whatever a guest writes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_engine::fuzzing::answer(data));
