//! `povmeter man`: the manual's pages, made from the same texts as `--help`.

use crate::{
    error::CliError,
    output_file::{OutputFile, OutputFileError},
    scratch::EmptyFolder,
    VERSION,
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

/// The page with `usage`, as `--help` shows it, in place of its synopsis. `clap_mangen` lists the options one by one
/// there, and knows neither which of them are required, nor the usage that a command has in place of clap's own.
fn with_synopsis(page: &str, usage: &str) -> String {
    const HEADING: &str = "\n.SH SYNOPSIS\n";
    let usage = usage.strip_prefix("Usage: ").unwrap_or(usage);
    let lines = usage.lines().map(|line| {
        // A name that begins with a dot or a quote would be a request.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        format!("\\&{line}\n")
    });
    let lines: String = lines.collect();
    let parts = page.split_once(HEADING);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once("\n.SH ")?.1)));
    match parts {
        Some((before, after)) => format!("{before}{HEADING}.nf\n{lines}.fi\n.SH {after}"),
        None => page.to_owned(),
    }
}

/// Returns the page of `command` under this `name`, and the pages of the commands below it.
fn pages(command: &Command, name: &str) -> Result<Vec<(String, Vec<u8>)>, CliError> {
    let mut titled = command.clone().display_name(name.to_owned());
    let usage = titled.render_usage().to_string();
    let mut page = Vec::new();
    clap_mangen::Man::new(titled)
        .source(format!("povmeter {}", *VERSION))
        .render(&mut page)
        .map_err(CliError::ManPage)?;
    let page = with_synopsis(&String::from_utf8_lossy(&page), &usage);
    let mut pages = vec![(name.to_owned(), page.into_bytes())];
    for below in command.get_subcommands() {
        pages.extend(self::pages(below, &format!("{name}-{}", below.get_name()))?);
    }
    Ok(pages)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The text of a page without its markup.
    fn plain(page: &[u8]) -> String {
        let page = std::str::from_utf8(page).unwrap();
        page.replace("\\&", "")
            .replace("\\-", "-")
            .replace("\\fR", "")
    }

    #[test]
    fn each_page_has_the_usage_of_its_help() {
        let mut program = crate::Cli::command().disable_help_subcommand(true);
        program.build();
        let pages = pages(&program, "povmeter").unwrap();
        for (name, page) in &pages {
            let text = plain(page);
            let parts = name.split('-');
            let version = format!("\"povmeter {}\"", *VERSION);
            assert!(
                text.lines()
                    .any(|line| line.starts_with(MARK) && line.contains(&version)),
                "{text}"
            );
            let usage = text.split("\n.SH SYNOPSIS\n.nf\n").nth(1).unwrap();
            let (usage, _) = usage.split_once("\n.fi\n.SH DESCRIPTION\n").unwrap();
            // `dry-run` is one word.
            assert_eq!(
                usage
                    .split([' ', '-'])
                    .take(parts.clone().count())
                    .collect::<Vec<_>>(),
                parts.collect::<Vec<_>>()
            );
        }
        let page = pages.iter().find(|(name, _)| name == "povmeter-dry-run");
        let text = plain(&page.unwrap().1);
        assert!(
            text.contains("[OPTIONS] <--extrinsic <HEX>|--runtime <WASM>>\n"),
            "{text}"
        );
    }
}
