//! Fuzzes bytes served as nodes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| povmeter_dev_oracle::fuzzing::fuzz_node(bytes));
