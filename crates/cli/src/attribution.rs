//! The attribution of a proof's bytes: the options, and the block that is built again for it.

use crate::{
    attribution_files, attribution_report::AttributionReport, checks::Check, error::CliError,
    output::all_done, output_file::OutputFile, parent_state::ParentState, progress,
    runtime_form::RuntimeForm, whole_number::whole,
};
use clap::Args;
use povmeter_attribution::{BlockAttribution, ByteTally, Names, StorageName};
use povmeter_dev_data::read_file_up_to;
use povmeter_dev_runtime::{
    adds_up, build_block_with, runtime_names, AttributedBlock, BlockOutcome, Plan,
};
use std::path::{Path, PathBuf};

/// How to report the attribution. Any of these options but `--no-attribute` asks for all of it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AttributionArgs {
    /// Print all tables of what needs which bytes
    #[arg(long)]
    attribute: bool,
    /// Do not find out what needs which bytes
    #[arg(long, conflicts_with_all = ["attribute", "top", "names", "folded", "flamegraph"])]
    no_attribute: bool,
    /// Rows of each attribution table [default: 15]
    #[arg(long, value_name = "ROWS", value_parser = whole::<usize>(0..=1_000_000))]
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

/// Rows of a table without `--top`.
const TOP: usize = 15;
/// Rows of a table if the attribution was not asked for.
const BRIEF: usize = 5;
/// The most bytes of a file of names, unpacked.
const NAMES_LIMIT: u64 = 16 << 20;

impl AttributionArgs {
    /// Returns the attribution that the options ask for, with the user's names read. Without options it is
    /// brief, or `None` if it is not made `by_default`.
    ///
    /// # Errors
    /// A [`CliError`] if the names can't be read, or a file can't be written.
    pub(crate) fn prepare(&self, by_default: bool) -> Result<Option<Attributing>, CliError> {
        let Self {
            attribute,
            no_attribute,
            top,
            names,
            folded,
            flamegraph,
        } = self;
        let files = [names, folded, flamegraph];
        let asked = *attribute || top.is_some() || files.iter().any(|file| file.is_some());
        if *no_attribute || !(asked || by_default) {
            return Ok(None);
        }
        let table = names.as_ref().map(|path| {
            let table = read_file_up_to(path, NAMES_LIMIT)?;
            let table =
                String::from_utf8(table).map_err(|_| CliError::NotText { path: path.clone() })?;
            let read = Names::default().read(&table);
            read.map_err(|source| CliError::Names {
                path: path.clone(),
                source,
            })?;
            Ok::<_, CliError>(table)
        });
        let table = table.transpose()?.unwrap_or_default();
        // Open the files first, because the run may take long.
        let folded = folded.as_deref().map(attribution_files::open_folded);
        let flamegraph = flamegraph
            .as_deref()
            .map(attribution_files::open_flamegraph);
        Ok(Some(Attributing {
            top: top.unwrap_or(if asked { TOP } else { BRIEF }),
            brief: !asked,
            table,
            folded: folded.transpose()?,
            flamegraph: flamegraph.transpose()?,
        }))
    }

    /// The files that these options name, each with its option.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--names", &self.names),
            (attribution_files::FOLDED, &self.folded),
            (attribution_files::FLAMEGRAPH, &self.flamegraph),
        ];
        files
            .into_iter()
            .filter_map(|(option, file)| Some((option, file.as_deref()?)))
    }
}

/// The attribution that the options ask for.
pub(crate) struct Attributing {
    top: usize,
    brief: bool,
    /// The user's table of names, which is valid.
    table: String,
    folded: Option<OutputFile>,
    flamegraph: Option<OutputFile>,
}

impl Attributing {
    /// Returns the well-known names, overridden by the runtime's names, overridden by the user's names.
    pub(crate) fn names(&self, of_runtime: impl IntoIterator<Item = StorageName>) -> Names {
        let mut names = Names::well_known();
        of_runtime.into_iter().for_each(|name| names.add(name));
        // This can't fail, because `prepare` read the same table.
        let _ = names.read(&self.table);
        names
    }

    /// Builds the block of `plan` again with attribution, and returns the report, its check, and the bytes
    /// for [`Attributing::write`]. The report has a flame graph if it is `for_page`. `outcome` is that of
    /// the block without attribution.
    ///
    /// # Errors
    /// A [`CliError`] if the block can't be built.
    pub(crate) fn of_block(
        &self,
        runtime: &RuntimeForm,
        state: &ParentState,
        plan: &Plan,
        outcome: &BlockOutcome,
        for_page: bool,
    ) -> Result<(AttributionReport, Check, ByteTally), CliError> {
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
        let mut report = self.report(&tally);
        if for_page {
            report.draw(&tally);
        }
        let nodes = outcome.built.proof.iter_nodes();
        let nodes = nodes.map(|node| node.len() as u64).sum();
        let report = report.with_overhead(&outcome.sizes, nodes);
        Ok((report, check, tally))
    }

    /// The report on `tally`.
    pub(crate) fn report(&self, tally: &ByteTally) -> AttributionReport {
        let report = AttributionReport::new(tally, self.top);
        match self.brief {
            true => report.brief(),
            false => report,
        }
    }

    /// Writes the files that the options name, each even if the other can't be written.
    ///
    /// # Errors
    /// A [`CliError`] if a file can't be written; see [`all_done`].
    pub(crate) fn write(&self, tally: &ByteTally) -> Result<(), CliError> {
        let folded = self.folded.as_ref();
        let folded = folded.map(|file| attribution_files::write_folded(file, tally));
        let flamegraph = self.flamegraph.as_ref();
        let flamegraph = flamegraph.map(|file| attribution_files::write_flamegraph(file, tally));
        all_done([folded, flamegraph].into_iter().flatten())
    }
}
