//! Packets between engine, launcher, master and entering processes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| silica_jail::fuzzing::packet(data));
