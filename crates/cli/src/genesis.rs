//! `povmeter genesis`: the state root and genesis hash of a chain specification.

use crate::{
    error::{chain, CliError},
    one_line::one_line,
    options::{parse_root, VersionArg},
    output::{printed, CommandResult, HexHash},
    progress,
};
use clap::Args;
use povmeter::Root;
use povmeter_dev_data::{embedded_state_version, genesis_hash, ChainSpec};
use povmeter_dev_runtime::commit_state;
use povmeter_store::MemoryStore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sp_core::{storage::StateVersion, H256};
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
    /// State version of the runtime: 0 or 1 [default: as its code tells; 0 if the code is too old to tell it, 1 without readable code]
    #[arg(long, value_enum, value_name = "V", hide_possible_values = true)]
    state_version: Option<VersionArg>,
    /// Fail if the state root is not this one
    #[arg(long, value_name = "0xHEX", value_parser = parse_root)]
    expect_root: Option<Root>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a state version is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VersionFrom {
    // The user gave it.
    Option,
    // The code of the runtime tells it.
    Runtime,
    // Nothing tells it.
    Assumption,
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
    /// What the version is from; null in results of earlier versions.
    #[serde(default)]
    pub(crate) state_version_from: Option<VersionFrom>,
    /// Why the version in the runtime can't be read.
    #[serde(skip)]
    pub(crate) unreadable: Option<String>,
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
    let (version, from, unreadable) = match args.state_version {
        Some(version) => (version, VersionFrom::Option, None),
        None => version_of(&spec),
    };
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
        state_version_from: Some(from),
        unreadable,
        state_root: root.into(),
        genesis_hash: genesis_hash(root).into(),
        name: spec.name,
        id: spec.id,
    };
    printed(&genesis, args.json, Vec::new())
}

/// The version that the runtime of `spec` tells, or the assumed one, and why the code can't be read.
fn version_of(spec: &ChainSpec) -> (VersionArg, VersionFrom, Option<String>) {
    let code = spec.top.get(&b":code"[..]);
    match code.map(|code| embedded_state_version(code)).transpose() {
        Ok(Some(Some(StateVersion::V0))) => (VersionArg::V0, VersionFrom::Runtime, None),
        Ok(Some(Some(StateVersion::V1))) => (VersionArg::V1, VersionFrom::Runtime, None),
        // Builds embed their version for longer than there is a version 1.
        Ok(Some(None)) => (VersionArg::V0, VersionFrom::Assumption, None),
        Ok(None) => (VersionArg::V1, VersionFrom::Assumption, None),
        Err(error) => {
            let reason = Some(chain(&error));
            (VersionArg::V1, VersionFrom::Assumption, reason)
        }
    }
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
            let entries = match self.child_entries {
                1 => "1 entry".to_owned(),
                more => format!("{more} entries"),
            };
            let tries = self.child_tries;
            line("child tries", &format!("{tries} with {entries}"))?;
        }
        let from = match self.state_version_from {
            Some(VersionFrom::Assumption) => {
                let other = 1 - self.state_version.min(1);
                format!(", assumed; if the hash is not the chain's: --state-version {other}")
            }
            Some(VersionFrom::Runtime) => ", as the runtime tells".to_owned(),
            Some(VersionFrom::Option) | None => String::new(),
        };
        line("state version", &format!("{}{from}", self.state_version))?;
        if let Some(reason) = &self.unreadable {
            let text = format!("can't tell the state version; {}", one_line(reason));
            line("runtime", &text)?;
        }
        line("state root", &self.state_root)?;
        write!(f, "{:<16} {}", "genesis hash", self.genesis_hash)
    }
}
