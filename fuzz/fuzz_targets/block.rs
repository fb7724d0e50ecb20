//! Fuzzes operations, nesting, boundaries, versions and children against the peer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| povmeter_dev_oracle::fuzzing::fuzz_block(bytes));
