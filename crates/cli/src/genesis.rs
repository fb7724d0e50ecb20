//! `povmeter genesis`: the state root and genesis hash of a chain specification.

use crate::{
    error::CliError,
    one_line::one_line,
    options::{parse_root, VersionArg},
    output::{printed, CommandResult, HexHash},
    progress,
};
use clap::Args;
use povmeter::Root;
use povmeter_dev_data::{genesis_hash, ChainSpec};
use povmeter_dev_runtime::commit_state;
use povmeter_store::MemoryStore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::H256;
use std::{fmt, path::PathBuf};

/// Which chain specification, and its state version.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: an old chain, checked against its known root
  povmeter genesis polkadot.json.gz --state-version 0 --expect-root 0x29d0..")]
pub(crate) struct GenesisArgs {
    /// A raw chain specification, plain or gzipped
    #[arg(value_name = "SPEC.json")]
    file: PathBuf,
    /// State version of the runtime: 0 or 1. Without it 1 is assumed; many chains began with 0
    #[arg(long, value_enum, value_name = "V", hide_possible_values = true)]
    state_version: Option<VersionArg>,
    /// Fail if the state root is not this one
    #[arg(long, value_name = "0xHEX", value_parser = parse_root)]
    expect_root: Option<Root>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The genesis state of a chain specification.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Genesis {
    /// Name of the chain; null if the file holds a plain state.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) name: Option<String>,
    /// Id of the chain; null if the file holds a plain state.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) id: Option<String>,
    /// Entries of the top trie.
    pub(crate) entries: usize,
    /// Child tries.
    pub(crate) child_tries: usize,
    /// Entries of all child tries.
    pub(crate) child_entries: usize,
    /// The version of the state's layout.
    #[schemars(extend("enum" = VersionArg::NUMBERS))]
    pub(crate) state_version: u8,
    /// Whether the version was not given.
    #[serde(skip)]
    pub(crate) version_is_assumed: bool,
    /// Root of the state.
    pub(crate) state_root: HexHash,
    /// Hash of the genesis block.
    pub(crate) genesis_hash: HexHash,
}

impl CommandResult for Genesis {
    const COMMAND: &'static str = "genesis";
    const WHAT: &'static str = "genesis";
    const SCHEMA: u64 = 1;
}

/// Prints the report on the genesis state.
///
/// # Errors
/// A [`CliError`] if the file holds no genesis state, or its root is not the expected one.
pub(crate) fn run(args: &GenesisArgs) -> Result<(), CliError> {
    let spec = progress::during("reading the chain specification", || {
        ChainSpec::read(&args.file)
    });
    let spec = spec.map_err(CliError::chain_spec(&args.file))?;
    let version = args.state_version.unwrap_or(VersionArg::V1);
    let root = progress::during("computing the state root", || {
        commit_state(
            &mut MemoryStore::new(),
            &spec.top,
            &spec.children,
            version.version(),
            args.expect_root,
        )
    })?;
    let root = H256(root.into());
    let genesis = Genesis {
        entries: spec.top.len(),
        child_tries: spec.children.len(),
        child_entries: spec.children.values().map(|entries| entries.len()).sum(),
        state_version: version.number(),
        version_is_assumed: args.state_version.is_none(),
        state_root: root.into(),
        genesis_hash: genesis_hash(root).into(),
        name: spec.name,
        id: spec.id,
    };
    printed(&genesis, args.json, Vec::new())
}

impl fmt::Display for Genesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &dyn fmt::Display| writeln!(f, "{name:<16} {text}");
        line(
            "chain",
            &one_line(self.name.as_deref().unwrap_or("a plain state")),
        )?;
        line("entries", &self.entries)?;
        if self.child_tries > 0 {
            let (tries, entries) = (self.child_tries, self.child_entries);
            line("child tries", &format!("{tries} with {entries} entries"))?;
        }
        let assumed = match self.version_is_assumed {
            true => ", assumed; if the hash is not the chain's: --state-version 0",
            false => "",
        };
        line("state version", &format!("{}{assumed}", self.state_version))?;
        line("state root", &self.state_root)?;
        write!(f, "{:<16} {}", "genesis hash", self.genesis_hash)
    }
}
