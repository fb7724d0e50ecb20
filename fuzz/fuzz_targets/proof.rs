//! Fuzzes bytes decoded as proofs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| povmeter_dev_oracle::fuzzing::fuzz_proof(bytes));
