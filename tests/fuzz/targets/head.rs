//! Targets of CONNECT and paths of requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_egress::fuzzing::head(data));
