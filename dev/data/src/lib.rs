//! Readers of chain specifications, real blocks and recorded traces, and the replay of blocks.

mod chain_spec;
mod data_files;
mod embedded_version;
mod real_blocks;
mod trace;
mod trace_line;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use chain_spec::{genesis_hash, ChainSpec, ChainSpecError};
pub use data_files::{
    data_dir, expect_data, read_file, read_file_up_to, DataFolderError, FileError, FILE_LIMIT,
};
pub use embedded_version::{embedded_state_version, EmbeddedVersionError};
pub use real_blocks::{block_files, RealBlock, RealBlocks, RealBlocksError, RealHeader};
pub use trace::{read_trace, Trace, TraceError, TraceLineError, TracePhase, TraceRecord};
