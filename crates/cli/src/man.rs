//! `povmeter man`: the manual's pages, made from the same texts as `--help`.

use crate::{error::CliError, output_file::OutputFile};
use clap::{Args, Command};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where to write.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: for `man povmeter` and `man povmeter-compare-block`
  povmeter man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder for the pages, created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// The beginning of each page's title, which marks the page as povmeter's.
const MARK: &str = ".TH povmeter";

/// Writes the pages of `program` and of all commands below it.
///
/// # Errors
/// [`CliError::ManFolder`] if the folder can't be made, [`CliError::ManPage`] if a page can't be made,
/// [`CliError::OutputFile`] if a page can't be written or another file has its name.
pub(crate) fn run(args: &ManArgs, program: Command) -> Result<(), CliError> {
    let folder = &args.folder;
    fs::create_dir_all(folder).map_err(|source| CliError::ManFolder {
        path: folder.clone(),
        source,
    })?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let pages = pages(&program, "povmeter")?;
    let files = pages.iter().map(|(name, _)| open(folder, name));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    for (file, (_, page)) in files.iter().zip(&pages) {
        file.write(page)?;
    }
    Ok(())
}

fn open(folder: &Path, name: &str) -> Result<OutputFile, CliError> {
    let path = folder.join(format!("{name}.1"));
    Ok(OutputFile::open("man", &path, |head| head.contains(MARK))?)
}

/// Returns the page of `command` under this `name`, and the pages of the commands below it.
fn pages(command: &Command, name: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    let titled = command.clone().display_name(name.to_owned());
    let mut page = Vec::new();
    clap_mangen::Man::new(titled)
        .render(&mut page)
        .map_err(CliError::ManPage)?;
    let mut pages = vec![(name.to_owned(), page)];
    for below in command.get_subcommands() {
        pages.extend(self::pages(below, &format!("{name}-{}", below.get_name()))?);
    }
    Ok(pages)
}
