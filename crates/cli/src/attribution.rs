//! The attribution of a proof's bytes: its options, and the block that is built for it.

use crate::{
    attribution_files, attribution_report::AttributionReport, checks::Check, error::CliError,
    parent_state::ParentState, progress, runtime_form::RuntimeForm,
};
use clap::Args;
use povmeter_attribution::{BlockAttribution, ByteTally, Names, StorageName};
use povmeter_dev_data::read_file;
use povmeter_dev_runtime::{
    adds_up, build_block_with, runtime_names, AttributedBlock, BlockOutcome, Plan,
};
use std::path::PathBuf;

/// How to report the attribution. Any of these options asks for it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AttributionArgs {
    /// Attribute each byte to an extrinsic, item and cause
    #[arg(long)]
    attribute: bool,
    /// Rows of each attribution table [default: 15]
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// File with names of storage items, one per line
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Write the attribution as folded stacks
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Draw the attribution as a flame graph in SVG
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<PathBuf>,
}

/// Rows of a table by default.
const TOP: usize = 15;

impl AttributionArgs {
    /// The attribution that the options ask for, with the user's names read; `None` if none asks.
    ///
    /// # Errors
    /// A [`CliError`] if the names can't be read, or the folder of a file to write does not exist.
    pub(crate) fn prepare(&self) -> Result<Option<Attributing>, CliError> {
        let Self {
            attribute,
            top,
            names,
            folded,
            flamegraph,
        } = self;
        let files = [names, folded, flamegraph];
        if !attribute && top.is_none() && files.iter().all(|file| file.is_none()) {
            return Ok(None);
        }
        // Checked now, because the run may take long.
        for path in [folded, flamegraph].into_iter().flatten() {
            attribution_files::check_folder(path)?;
        }
        let table = names.as_ref().map(|path| {
            let table = String::from_utf8_lossy(&read_file(path)?).into_owned();
            let read = Names::default().read(&table);
            read.map_err(|source| CliError::Names {
                path: path.clone(),
                source,
            })?;
            Ok::<_, CliError>(table)
        });
        Ok(Some(Attributing {
            top: top.unwrap_or(TOP),
            table: table.transpose()?.unwrap_or_default(),
            folded: folded.clone(),
            flamegraph: flamegraph.clone(),
        }))
    }
}

/// The attribution that the options ask for.
pub(crate) struct Attributing {
    top: usize,
    /// The user's table of names, which is valid.
    table: String,
    folded: Option<PathBuf>,
    flamegraph: Option<PathBuf>,
}

impl Attributing {
    /// The well-known names, then those of the runtime, then the user's.
    pub(crate) fn names(&self, of_runtime: impl IntoIterator<Item = StorageName>) -> Names {
        let mut names = Names::well_known();
        of_runtime.into_iter().for_each(|name| names.add(name));
        // No error: `prepare` read the same table.
        let _ = names.read(&self.table);
        names
    }

    /// Builds the block of `plan` again with attribution, writes the files that the options name, and
    /// returns the report with its check. The report has a flame graph if it is `for_page`. `outcome`
    /// is of the block without attribution.
    ///
    /// # Errors
    /// A [`CliError`] if the block can't be built or a file can't be written.
    pub(crate) fn of_block(
        &self,
        runtime: &RuntimeForm,
        state: &ParentState,
        plan: &Plan,
        outcome: &BlockOutcome,
        for_page: bool,
    ) -> Result<(AttributionReport, Check), CliError> {
        let mut noted = BlockAttribution::default();
        let host = AttributedBlock::new(state.nodes.clone(), plan, &mut noted);
        let bar = progress::bar(plan.extrinsics().len(), "attributing bytes");
        let again = build_block_with(runtime, host, plan, |_| bar.step());
        let again = again.map_err(CliError::build("povmeter"))?;
        drop(bar);
        let (holds, detail) = adds_up(&noted, &again.built.proof, &outcome.built.proof);
        let check = Check {
            name: "attribution adds up".to_owned(),
            holds,
            detail,
        };
        let tally = ByteTally::of(&noted, &self.names(runtime_names()));
        self.write(&tally)?;
        let mut report = AttributionReport::new(&tally, self.top);
        if for_page {
            report.draw(&tally);
        }
        let nodes = outcome.built.proof.iter_nodes();
        let nodes = nodes.map(|node| node.len() as u64).sum();
        Ok((report.with_overhead(&outcome.sizes, nodes), check))
    }

    /// The report on `tally`.
    #[cfg(feature = "wasm")]
    pub(crate) fn report(&self, tally: &ByteTally) -> AttributionReport {
        AttributionReport::new(tally, self.top)
    }

    /// Writes the files that the options name.
    ///
    /// # Errors
    /// A [`CliError`] if one can't be written.
    pub(crate) fn write(&self, tally: &ByteTally) -> Result<(), CliError> {
        if let Some(path) = &self.folded {
            attribution_files::write_folded(path, tally)?;
        }
        if let Some(path) = &self.flamegraph {
            attribution_files::write_flamegraph(path, tally)?;
        }
        Ok(())
    }
}
