//! Whose the bytes of a proof are: options, and what is done for them.

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

/// What to say of whose the bytes are, and where. Any of these options asks for it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AttributionArgs {
    /// Say whose each byte of the proof is
    #[arg(long)]
    attribute: bool,
    /// Rows of each table of that [default: 15]
    #[arg(long, value_name = "ROWS")]
    top: Option<usize>,
    /// What storage items are called, one a line
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Write whose the bytes are as folded stacks
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Draw whose the bytes are, in SVG
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<PathBuf>,
}

/// Rows of a table, if nobody says how many.
const TOP: usize = 15;

impl AttributionArgs {
    /// What was asked for, with the user's names read; `None` if nothing was.
    ///
    /// # Errors
    /// A [`CliError`] if the names can't be read, or a file is to be written where no folder is.
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
        // Rather now than after a long run.
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

/// What was asked for.
pub(crate) struct Attributing {
    top: usize,
    /// The user's table of names, which is one.
    table: String,
    folded: Option<PathBuf>,
    flamegraph: Option<PathBuf>,
}

impl Attributing {
    /// The well-known names, then those of the runtime, then the user's.
    pub(crate) fn names(&self, of_runtime: impl IntoIterator<Item = StorageName>) -> Names {
        let mut names = Names::well_known();
        of_runtime.into_iter().for_each(|name| names.add(name));
        // It was read before.
        let _ = names.read(&self.table);
        names
    }

    /// Builds the block of `plan` once more, with notes of who needs what, writes the files that were
    /// asked for, and says what came of it, for a page with a picture; `outcome` is of the block
    /// without notes.
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
        let bar = progress::bar(plan.extrinsics().len(), "noting who needs what");
        let again = build_block_with(runtime, host, plan, |_| bar.step());
        let again = again.map_err(CliError::build("povmeter"))?;
        drop(bar);
        let (holds, detail) = adds_up(&noted, &again.built.proof, &outcome.built.proof);
        let check = Check {
            name: "attribution adds up",
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

    /// Writes the files that were asked for.
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
