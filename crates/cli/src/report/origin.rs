//! The machine, the program and the command that made a page.

use super::page::{Column, Table};
use std::{ffi::OsString, fs, path::Path, thread};

/// Where numbers come from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    command: String,
    processor: String,
    cores: String,
    system: String,
}

impl Origin {
    /// This machine, and the command that this process was started with.
    pub(super) fn here() -> Self {
        Self::of(std::env::args_os())
    }

    /// This machine, and a command with its arguments.
    pub(super) fn of(command: impl IntoIterator<Item = OsString>) -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = field(&info, "model name", ':');
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let name = field(&release, "PRETTY_NAME", '=');
        let name = name.map(|name| name.trim_matches('"').to_owned());
        let system = [
            name,
            Some(format!("{system} {}", kernel.trim()).trim().to_owned()),
        ];
        Self {
            command: command_line(command),
            processor: processor.unwrap_or_else(|| arch.to_owned()),
            cores: thread::available_parallelism()
                .map_or_else(|_| "unknown".to_owned(), |cores| cores.to_string()),
            system: system.into_iter().flatten().collect::<Vec<_>>().join(", "),
        }
    }

    pub(super) fn table(&self) -> Table {
        let profile = if cfg!(debug_assertions) {
            ", built for debugging: times mean nothing"
        } else {
            ""
        };
        let version = format!("povmeter {}{profile}", env!("CARGO_PKG_VERSION"));
        let rows = [
            ("command", &self.command),
            ("program", &version),
            ("processor", &self.processor),
            ("cores", &self.cores),
            ("system", &self.system),
        ];
        let rows = rows.map(|(name, value)| vec![name.to_owned(), value.clone()]);
        Table::new(vec![Column::Text(""), Column::Text("")], rows.to_vec())
    }
}

/// The value after `name` and `separator`, in the first line that has it.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(separator));
    let found = lines.find(|(found, _)| found.trim() == name);
    found.map(|(_, value)| value.trim().to_owned())
}

/// The command as typed into a shell, with the program's name without its path.
fn command_line(command: impl IntoIterator<Item = OsString>) -> String {
    let mut command = command.into_iter();
    let program = command.next().unwrap_or_default();
    let program = Path::new(&program)
        .file_name()
        .unwrap_or_default()
        .to_owned();
    let words = std::iter::once(program).chain(command);
    let words = words.map(|word| quoted(&without_secrets(&word.to_string_lossy())));
    words.collect::<Vec<_>>().join(" ")
}

/// An address without user, password, path and query, because these can hold a key and pages are shared.
fn without_secrets(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let dots = match path.len() > 1 {
        true => "/...",
        false => "",
    };
    format!("{scheme}://{host}{dots}")
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_an_address_is_not_on_the_page() {
        for (word, shown) in [
            ("wss://me:secret@host:443/v1/KEY?a=b", "wss://host:443/..."),
            ("--url=wss://host/KEY", "--url=wss://host/..."),
            ("ws://127.0.0.1:9944", "ws://127.0.0.1:9944"),
            ("ws://127.0.0.1:9944/", "ws://127.0.0.1:9944"),
            ("wss://host?KEY", "wss://host/..."),
            ("state/v1", "state/v1"),
        ] {
            assert_eq!(
                command_line(["p".into(), word.into()]),
                format!("p {shown}")
            );
        }
    }

    #[test]
    fn a_command_can_be_given_to_a_shell_again() {
        let command = [
            "/a b/povmeter",
            "block",
            "--db",
            "my state",
            "it's",
            "",
            "a=1,2",
        ];
        assert_eq!(
            command_line(command.map(Into::into)),
            r"povmeter block --db 'my state' 'it'\''s' '' a=1,2"
        );
    }

    #[test]
    fn fields_of_files() {
        let info = "processor\t: 0\nmodel name\t: A Processor: fast\nmodel name\t: B\n";
        let found = field(info, "model name", ':');
        assert_eq!(found.as_deref(), Some("A Processor: fast"));
        assert_eq!(field(info, "model", ':'), None);
    }

    #[test]
    fn everything_is_said() {
        let table = Origin::of(["povmeter".into()]).table();
        assert!(table.rows.iter().all(|row| !row[1].is_empty()), "{table:?}");
    }
}
