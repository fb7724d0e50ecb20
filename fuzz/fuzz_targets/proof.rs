//! Fuzzes bytes taken for proofs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| povmeter_workload::fuzzing::fuzz_proof(bytes));
