//! `povmeter man`: the manual's pages, made from the same texts as `--help`.

use crate::{
    error::CliError,
    output_file::{OutputFile, OutputFileError},
    scratch::EmptyFolder,
};
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
/// [`CliError::OutputFile`] if a page can't be written or another file has its name. Then new pages and a new folder
/// are removed.
pub(crate) fn run(args: &ManArgs, program: Command) -> Result<(), CliError> {
    let folder = &args.folder;
    let failed = |source| CliError::ManFolder {
        path: folder.clone(),
        source,
    };
    let _made = match folder.is_dir() {
        true => None,
        false => Some(EmptyFolder::new(folder).map_err(failed)?),
    };
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let pages = pages(&program, "povmeter")?;
    let open = |(name, text): (String, _)| Page::open(folder, &name, text);
    let pages = pages.into_iter().map(open);
    let pages = pages.collect::<Result<Vec<_>, _>>()?;
    for (at, page) in pages.iter().enumerate() {
        page.file.write(&page.text).inspect_err(|_| {
            for written in pages[..at].iter().filter(|page| page.is_new) {
                // If this fails too, the first error is enough.
                let _ = fs::remove_file(&written.path);
            }
        })?;
    }
    Ok(())
}

/// A page to be written.
struct Page {
    path: PathBuf,
    file: OutputFile,
    /// Whether there is no earlier page.
    is_new: bool,
    text: Vec<u8>,
}

impl Page {
    fn open(folder: &Path, name: &str, text: Vec<u8>) -> Result<Self, OutputFileError> {
        let path = folder.join(format!("{name}.1"));
        let is_new = !path.exists();
        let file = OutputFile::open("the page", &path, |head| head.contains(MARK))?;
        Ok(Self {
            path,
            file,
            is_new,
            text,
        })
    }
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
