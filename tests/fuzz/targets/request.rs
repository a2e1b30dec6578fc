//! Bodies and queries of HTTP requests, as every type that the server reads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_server::fuzzing::request(data));
