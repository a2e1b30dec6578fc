//! Frames from a guest: the engine's decoder must never panic, whatever a guest sends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_engine::fuzzing::frame(data));
