//! `povmeter completions`: what a shell needs to complete commands and options.

use crate::error::CliError;
use clap::{Args, Command};
use clap_complete::Shell;

/// Which shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(povmeter completions bash)               # in ~/.bashrc
  povmeter completions zsh > ~/.zfunc/_povmeter     # ~/.zfunc being in fpath
  povmeter completions fish > ~/.config/fish/completions/povmeter.fish
  povmeter completions elvish >> ~/.config/elvish/rc.elv
  povmeter completions powershell >> $PROFILE")]
pub(crate) struct CompletionsArgs {
    /// The shell to print it for
    shell: Shell,
}

/// The script for the commands below `program`.
///
/// # Errors
/// [`CliError::Completions`] if the script is no text, which it is.
pub(crate) fn run(args: &CompletionsArgs, program: &mut Command) -> Result<String, CliError> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, program, name, &mut script);
    let script = String::from_utf8(script)?;
    Ok(script.trim_end().to_owned())
}
