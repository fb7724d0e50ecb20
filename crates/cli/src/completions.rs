//! `povmeter completions`: a script with which a shell completes commands and options.

use crate::{error::CliError, output::print};
use clap::{Args, Command};
use clap_complete::Shell;

/// Which shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(povmeter completions bash)               # in ~/.bashrc
  povmeter completions zsh > ~/.zfunc/_povmeter     # with ~/.zfunc in fpath
  povmeter completions fish > ~/.config/fish/completions/povmeter.fish
  povmeter completions elvish >> ~/.config/elvish/rc.elv
  povmeter completions powershell >> $PROFILE")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script for the commands below `program`.
///
/// # Errors
/// [`CliError::Output`] if the script can't be printed. [`CliError::Completions`] if it is not UTF-8, which
/// does not happen.
pub(crate) fn run(args: &CompletionsArgs, program: &mut Command) -> Result<(), CliError> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, program, name, &mut script);
    let script = String::from_utf8(script)?;
    print(script.trim_end())
}
