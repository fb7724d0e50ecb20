//! `--report DIR`: the results of a command as a page that needs nothing but a browser.
//!
//! A command fills a [`Page`]: facts, then sections of notes, charts, tables and pictures. To show
//! more, push another [`Section`]. [`ReportFolder`] turns the page into one `index.html`, and each of
//! its charts into an `.svg` of its own beside it.
//!
//! ```text
//! open the folder before any work      an unusable path is an error at once
//! fill a page
//! write the page and its charts        replace files of an earlier report, and no others
//! ```

mod args;
mod attribution_part;
mod axis;
mod bars;
mod block_page;
mod bytes;
mod cache_page;
mod chain_page;
mod chart;
mod compare_page;
#[cfg(feature = "wasm")]
mod dry_run_page;
mod estimator_page;
mod folder;
mod growth;
mod lines;
mod number;
mod origin;
mod overlay_page;
mod page;
mod parallel_page;
mod plot;
mod pool_page;
#[cfg(feature = "wasm")]
mod replay_page;
mod root_page;
mod svg;
#[cfg(feature = "wasm")]
mod validation_page;

pub(crate) use block_page::CHARTS as BLOCK_CHARTS;
pub(crate) use cache_page::CHARTS as CACHE_CHARTS;
pub(crate) use chain_page::CHARTS as CHAIN_CHARTS;
pub(crate) use compare_page::CHARTS as COMPARE_CHARTS;
#[cfg(feature = "wasm")]
pub(crate) use dry_run_page::CHARTS as DRY_RUN_CHARTS;
pub(crate) use estimator_page::CHARTS as ESTIMATOR_CHARTS;
pub(crate) use overlay_page::CHARTS as OVERLAY_CHARTS;
pub(crate) use parallel_page::CHARTS as PARALLEL_CHARTS;
pub(crate) use pool_page::CHARTS as POOL_CHARTS;
#[cfg(feature = "wasm")]
pub(crate) use replay_page::CHARTS as REPLAY_CHARTS;
pub(crate) use root_page::CHARTS as ROOT_CHARTS;
#[cfg(feature = "wasm")]
pub(crate) use validation_page::CHARTS as VALIDATION_CHARTS;

pub(crate) use args::ReportArgs;
pub(crate) use bytes::ByteCount;
pub(crate) use folder::{write, ReportError, ReportFolder};
pub(crate) use growth::{Growth, Step};
