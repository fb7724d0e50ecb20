//! What a validation cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of validation, by case.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValidationReport {
    /// Measured rounds after one warm-up.
    pub rounds: u32,
    /// Bytes of the runtime in wasm with the stock `validate_block`, not compressed.
    pub stock_blob_bytes: usize,
    /// Bytes of the same runtime with povmeter's.
    pub ours_blob_bytes: usize,
    /// One row for each case.
    pub rows: Vec<ValidationRow>,
    /// Whether both give the same result in each case.
    pub same_results: bool,
    /// Whether blocks whose sizes include what the root needs are valid under that rule, and refused by
    /// the stock function wherever the sizes lead to another block.
    pub roles: bool,
}

/// The cost of one case.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValidationRow {
    /// What the blocks hold.
    pub case: String,
    /// Accounts in the parent state.
    pub accounts: u32,
    /// Blocks in the PoV.
    pub blocks: usize,
    /// Bytes of the encoded PoV, not compressed.
    pub pov_bytes: usize,
    /// Processor time of the stock function in milliseconds, with the making of the instance: median.
    pub stock_ms: f64,
    /// Its least and its most.
    pub stock_range_ms: [f64; 2],
    /// Processor time of povmeter's, with the sizes of stock nodes: median.
    pub ours_ms: f64,
    /// Its least and its most.
    pub ours_range_ms: [f64; 2],
    /// `ours_ms` to `stock_ms`.
    pub ratio: f64,
    /// Processor time of povmeter's with sizes that include what the root needs: median.
    pub with_root_ms: f64,
    /// The most pages of wasm memory, 64 KiB each, of the stock function.
    pub stock_pages: u32,
    /// Those of povmeter's.
    pub ours_pages: u32,
}
