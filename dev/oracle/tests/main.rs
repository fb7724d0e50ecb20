//! Random blocks, bad input and named differences, on povmeter and on sp-state-machine.
//!
//! One program, because linking a runtime into each test program takes half a minute.

mod access_counts;
mod bad_input;
mod compact_length;
mod deep_tries;
mod differences;
mod equal_nodes;
mod estimate;
mod failures;
mod fuzz_seeds;
mod in_parallel;
mod lockstep;
mod long_keys;
mod over_count;
mod overlay_peer;
mod povmeter;
mod proof_size_vectors;
mod roles;
mod stock_nodes;
