//! `povmeter genesis`: what a chain specification comes to.

use crate::{error::CliError, options::VersionArg, progress};
use clap::Args;
use povmeter::Root;
use povmeter_store::MemoryStore;
use povmeter_workload::{commit_state, genesis_hash, ChainSpec, ChainSpecError};
use serde::Serialize;
use sp_core::H256;
use std::path::PathBuf;

/// Which chain specification, and how its state is laid out.
#[derive(Args, Debug)]
pub(crate) struct GenesisArgs {
    /// A raw chain specification, as it is or packed with gzip
    file: PathBuf,
    /// The version of the state's layout
    #[arg(long, value_enum, default_value_t = VersionArg::V1)]
    state_version: VersionArg,
    /// Fail if the state has another root than this one
    #[arg(long, value_name = "0xHEX", value_parser = parse_root)]
    expect_root: Option<Root>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_root(text: &str) -> Result<Root, String> {
    let mut bytes = [0; 32];
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode_to_slice(digits, &mut bytes)
        .map_err(|error| format!("expected 32 bytes in hexadecimal: {error}"))?;
    Ok(Root::from(bytes))
}

/// What is known about a genesis state.
#[derive(Serialize)]
struct Genesis {
    what: &'static str,
    name: Option<String>,
    id: Option<String>,
    entries: usize,
    child_tries: usize,
    child_entries: usize,
    state_version: u8,
    state_root: String,
    genesis_hash: String,
}

/// The report on the genesis state.
///
/// # Errors
/// A [`CliError`] if the file holds no such state, or the state has not the root expected.
pub(crate) fn run(args: &GenesisArgs) -> Result<String, CliError> {
    let spec = progress::during("reading the chain specification", || {
        ChainSpec::read(&args.file)
    });
    let spec = spec.map_err(|source| match source {
        // Names the file itself.
        ChainSpecError::File(error) => error.into(),
        source => CliError::ChainSpec {
            path: args.file.clone(),
            source,
        },
    })?;
    let root = progress::during("computing the state root", || {
        commit_state(
            &mut MemoryStore::new(),
            &spec.top,
            &spec.children,
            args.state_version.version(),
            args.expect_root,
        )
    })?;
    let genesis = Genesis {
        what: "genesis",
        entries: spec.top.len(),
        child_tries: spec.children.len(),
        child_entries: spec.children.values().map(|entries| entries.len()).sum(),
        state_version: args.state_version.number(),
        state_root: root.to_string(),
        genesis_hash: format!("{:?}", genesis_hash(H256(root.into()))),
        name: spec.name,
        id: spec.id,
    };
    if args.json {
        return Ok(serde_json::to_string_pretty(&genesis)?);
    }
    Ok(genesis.lines().join("\n"))
}

impl Genesis {
    fn lines(&self) -> Vec<String> {
        let line = |name: &str, text: &str| format!("{name:<16} {text}");
        let name = self.name.as_deref().unwrap_or("a plain state");
        let mut lines = vec![
            line("chain", name),
            line("entries", &self.entries.to_string()),
        ];
        if self.child_tries > 0 {
            let (tries, entries) = (self.child_tries, self.child_entries);
            lines.push(line(
                "child tries",
                &format!("{tries} with {entries} entries"),
            ));
        }
        lines.push(line("state version", &self.state_version.to_string()));
        lines.push(line("state root", &self.state_root));
        lines.push(line("genesis hash", &self.genesis_hash));
        lines
    }
}
