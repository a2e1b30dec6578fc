//! Frames of WebSockets of Jupyter clients, in both framings.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_server::fuzzing::kernel_message(data));
