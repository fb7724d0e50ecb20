//! Help, completions and colours, as a terminal shows them.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

/// Lines of a screen, and columns of a wide and of a narrow one.
const LINES: usize = 40;
const COLUMNS: [usize; 2] = [100, 80];

fn program(args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    program.args(args);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        program.env_remove(variable);
    }
    program
}

#[track_caller]
fn stdout(output: Output) -> String {
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below `command`, as its help lists them.
fn below(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines
        .take_while(|line| !line.is_empty())
        // A line that is indented further continues the line above.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// Every command with its help on a screen of `columns`.
fn all_help(columns: usize) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(command) = open.pop() {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("--help");
        let mut program = program(&args);
        program.env("COLUMNS", columns.to_string());
        let help = stdout(program.output().unwrap());
        for name in below(&help) {
            open.push([command.clone(), vec![name]].concat());
        }
        found.push((command, help));
    }
    found
}

#[test]
fn every_help_fits_a_screen_and_has_an_example() {
    for columns in COLUMNS {
        let all = all_help(columns);
        assert!(all.len() >= 12, "{all:?}");
        for (command, help) in all {
            let lines = help.lines().count();
            assert!(lines <= LINES, "{command:?}: {lines} lines: {help}");
            let (options, examples) = help.split_once("\nExample").unwrap();
            for line in options.lines() {
                let width = line.chars().count();
                assert!(width <= columns, "{command:?}: {width} columns: {line}");
            }
            let longest = examples.lines().map(|line| line.chars().count()).max();
            // Commands to type must not be wrapped.
            assert!(longest <= Some(COLUMNS[1]), "{command:?}: {longest:?}");
            let called = format!("povmeter {}", command.join(" "));
            assert!(
                examples.contains(called.trim_end()),
                "{command:?}: {examples}"
            );
        }
    }
}

#[test]
fn the_short_help_is_the_long_one() {
    for command in [&["block"][..], &["compare", "block"], &["diff"]] {
        let [short, long] = ["-h", "--help"].map(|flag| {
            let args = [command, &[flag]].concat();
            stdout(program(&args).output().unwrap())
        });
        assert_eq!(short, long);
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = stdout(program(&["--version"]).output().unwrap());
    assert_eq!(
        version,
        concat!("povmeter ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn colours_come_if_asked_for_and_never_with_no_color() {
    let coloured = |output: Output| {
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap().contains('\x1b')
    };
    // The output is a pipe, not a terminal.
    for args in [&["--help"][..], &["block", "--no-such-option"]] {
        assert!(!coloured(program(args).output().unwrap()), "{args:?}");
        let mut forced = program(args);
        forced.env("CLICOLOR_FORCE", "1");
        assert!(coloured(forced.output().unwrap()), "{args:?}");
        assert!(
            !coloured(forced.env("NO_COLOR", "1").output().unwrap()),
            "{args:?}"
        );
    }
    // Results and progress have no colours, whatever is asked for.
    let args = "block --accounts 10 --transfers 1 --state memory";
    let mut block = program(&args.split(' ').collect::<Vec<_>>());
    assert!(!coloured(
        block.env("CLICOLOR_FORCE", "1").output().unwrap()
    ));
}

#[test]
fn completions_know_the_commands() {
    for (shell, part) in [
        ("bash", "complete -F _povmeter"),
        ("zsh", "#compdef povmeter"),
        ("fish", "complete -c povmeter"),
        ("elvish", "edit:completion:arg-completer[povmeter]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = stdout(program(&["completions", shell]).output().unwrap());
        for part in [part, "estimator", "fail-above-proof", "completions"] {
            assert!(script.contains(part), "{shell}: no {part}");
        }
    }
    let unknown = program(&["completions", "sh"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8(unknown.stderr)
        .unwrap()
        .contains("powershell"));
}
