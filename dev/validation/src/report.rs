//! What a validation cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of validation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValidationReport {
    /// Number of measured rounds, after one that is not measured.
    pub rounds: u32,
    /// Bytes of the wasm runtime with the stock `validate_block`, not compressed.
    pub stock_blob_bytes: usize,
    /// Bytes of the wasm runtime with povmeter's `validate_block`, not compressed.
    pub ours_blob_bytes: usize,
    /// One row for each case.
    pub rows: Vec<ValidationRow>,
    /// Whether both functions return the same result in each case.
    pub same_results: bool,
    /// Whether blocks whose sizes include what the root needs are valid under that rule, and refused by
    /// the stock function wherever the sizes lead to another block.
    pub roles: bool,
}

/// The cost of one case.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValidationRow {
    /// What the blocks contain.
    pub case: String,
    /// Accounts in the parent state.
    pub accounts: u32,
    /// Blocks in the PoV.
    pub blocks: usize,
    /// Bytes of the encoded PoV, not compressed.
    pub pov_bytes: usize,
    /// Processor time of the stock function in milliseconds, including the time to make the instance: median.
    pub stock_ms: f64,
    /// The least and the most processor time of the stock function in the rounds.
    pub stock_range_ms: [f64; 2],
    /// Processor time of povmeter's function in milliseconds, with the sizes of stock nodes: median.
    pub ours_ms: f64,
    /// The least and the most processor time of povmeter's function in the rounds.
    pub ours_range_ms: [f64; 2],
    /// `ours_ms` divided by `stock_ms`.
    pub ratio: f64,
    /// Processor time of povmeter's function in milliseconds, with sizes that include what the root needs: median.
    pub with_root_ms: f64,
    /// The most pages of wasm memory, 64 KiB each, of the stock function.
    pub stock_pages: u32,
    /// The most pages of wasm memory, 64 KiB each, of povmeter's function.
    pub ours_pages: u32,
}
