//! Where blocks and their parent states come from: a file of blocks, a recording, or a running chain.

use crate::{error::CliError, progress, remote_args::BlockIds};
use povmeter_dev_data::{
    wasm::{
        storage_names, ParentState, Replay, ReplayOptions, ReplaySizes, ReplayedBlock, Replayer,
    },
    ChainSpec, ChainSpecError, RealBlock, RealBlocks,
};
use povmeter_dev_runtime::{SharedNodes, UsedKey};
use povmeter_remote::{
    BlockId, RecordedNodes, Recording, RemoteBlock, RemoteKey, RemoteNode, RemoteState,
};
use sp_crypto_hashing::twox_128;
use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::Path,
    sync::{Arc, Mutex},
};

/// Where blocks come from.
pub(crate) enum Origin {
    /// A file of blocks, and the state before its first block.
    File(RealBlocks, ChainSpec),
    /// One recorded block.
    Recording(Box<RealBlock>, String, RecordedNodes, povmeter::Root),
    /// Blocks of a running chain.
    Chain(RemoteNode, BlockIds),
}

/// How many of a file's first bytes tell whether it is a recording.
const START: u64 = 16;

impl Origin {
    /// Opens the file at `path`: a recording, or a file of blocks.
    ///
    /// # Errors
    /// A [`CliError`] if it is neither, or the state file that it names can't be read.
    pub(crate) fn of_file(path: &Path) -> Result<Self, CliError> {
        if is_recording(path) {
            let (block, name, nodes, root) = read_recording(path)?;
            return Ok(Self::Recording(block, name, nodes, root));
        }
        let file = RealBlocks::read(path).map_err(CliError::blocks(path))?;
        let state = file.read_state();
        let state = state.map_err(|error| match error {
            ChainSpecError::File(source) => CliError::StateOfBlocks {
                path: path.to_owned(),
                source,
            },
            error => CliError::chain_spec(&file.state_path)(error),
        })?;
        Ok(Self::File(file, state))
    }

    /// Returns the name of the chain or file.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(file, _) => file.name.clone(),
            Self::Recording(_, name, ..) => name.clone(),
            Self::Chain(node, _) => chain_name(node),
        }
    }

    /// Returns the number of blocks.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::File(file, _) => file.blocks.len(),
            Self::Recording(..) => 1,
            Self::Chain(_, ids) => ids.len(),
        }
    }

    /// Replays the blocks one by one.
    ///
    /// # Errors
    /// A [`CliError`] if the state of a file can't be created. Each block has its own result.
    pub(crate) fn replay(
        self,
        options: ReplayOptions,
        sizes: ReplaySizes,
    ) -> Result<Box<dyn Iterator<Item = Result<ReplayedBlock, CliError>>>, CliError> {
        let mut replayer = Replayer::new(options).with_sizes(sizes.clone());
        Ok(match self {
            Self::File(file, state) => {
                let making = || Replay::new(file, &state, options);
                let replay = progress::during("creating the state", making)?.with_sizes(sizes);
                Box::new(replay.map(|block| block.map_err(CliError::from)))
            }
            Self::Recording(block, _, nodes, root) => {
                let parent = ParentState::new(SharedNodes::new(nodes), root);
                let replayed = replayer.replay(&parent, &block).map_err(CliError::from);
                Box::new(std::iter::once(replayed))
            }
            Self::Chain(node, ids) => {
                let blocks = ids.into_iter();
                Box::new(blocks.map(move |id| {
                    let fetched = RemoteParent::of_block(&node, &id)?;
                    let replayed = replayer.replay(&fetched.parent, &fetched.block);
                    replayed.map_err(|error| fetched.error(error))
                }))
            }
        })
    }
}

/// A chain's name in reports: the address of its node, because the chain's own name costs a request.
pub(crate) fn chain_name(node: &RemoteNode) -> String {
    node.url().to_string()
}

/// Whether the file at `path` begins like a recording. If it can't be read, its next reader says why.
fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).map(|file| file.take(START).read_to_end(&mut start));
    matches!(read, Ok(Ok(_))) && Recording::is_one(&start)
}

/// Reads the recording at `path`: its block, the name of its chain, and the nodes and the root of the parent state.
///
/// # Errors
/// A [`CliError`] if the file is no recording, or a damaged one.
pub(crate) fn read_recording(
    path: &Path,
) -> Result<(Box<RealBlock>, String, RecordedNodes, povmeter::Root), CliError> {
    let recording = Recording::read(path).map_err(|source| CliError::Recording {
        path: path.to_owned(),
        source,
    })?;
    let (nodes, root) = (recording.source(), recording.parent_root);
    let block = RealBlock::from_header(&recording.header, recording.body);
    let block = block.map_err(CliError::blocks(path))?;
    Ok((Box::new(block), recording.name, nodes, root))
}

/// A block of a running chain, and the state that it starts from.
pub(crate) struct RemoteParent {
    pub(crate) fetched: RemoteBlock,
    pub(crate) block: RealBlock,
    pub(crate) state: RemoteState,
    pub(crate) parent: ParentState,
}

impl RemoteParent {
    /// Fetches a block, and the nodes of its parent state that most of its reads need.
    ///
    /// # Errors
    /// A [`CliError`] if the node does not answer, answers wrongly, or has blocks of an unknown form.
    pub(crate) fn of_block(node: &RemoteNode, id: &BlockId) -> Result<Self, CliError> {
        let what = format!("fetching block {id}");
        let (fetched, block, state) = progress::during(what, || {
            let fetched = node.block(id)?;
            let block = RealBlock::from_header(&fetched.header, fetched.body.clone());
            let block = block.map_err(|source| CliError::RemoteBlock(Box::new(source)))?;
            let state = node.parent_state(&fetched)?;
            Ok::<_, CliError>((fetched, block, state))
        })?;
        let parent = remote_state(&state, &block.body)?;
        Ok(Self {
            fetched,
            block,
            state,
            parent,
        })
    }

    /// Returns the node's failure if there is one, because it causes all later errors; else `error`.
    pub(crate) fn error(&self, error: impl Into<CliError>) -> CliError {
        remote_or(&self.state, error)
    }
}

/// Returns the failure of `state` if there is one, else `error`.
pub(crate) fn remote_or(state: &RemoteState, error: impl Into<CliError>) -> CliError {
    state
        .failure()
        .map_or_else(|| error.into(), CliError::Remote)
}

/// Makes a parent state of `state`, and fetches the nodes that most blocks with these extrinsics need.
///
/// # Errors
/// A [`CliError`] if the node does not answer, or the state has no runtime.
pub(crate) fn remote_state(state: &RemoteState, body: &[Vec<u8>]) -> Result<ParentState, CliError> {
    let mut parent = ParentState::new(SharedNodes::new(state.clone()), state.root());
    let known = |key: &[u8]| (None, key.to_vec());
    progress::during("fetching the runtime", || {
        state.prefetch(&[
            known(b":code"),
            known(b":heappages"),
            known(b":extrinsic_index"),
        ])
    })?;
    let runtime = parent.runtime(0).map_err(|error| remote_or(state, error))?;
    progress::during("fetching the first nodes", || {
        // Without names the later reads are slower, but correct.
        let names = storage_names(&runtime).unwrap_or_default();
        let pallets: BTreeSet<String> = names.into_iter().map(|name| name.pallet).collect();
        state.prefetch(&first_keys(pallets, body))
    })?;
    let counter = Mutex::new(progress::counter("nodes of the state"));
    let told = state.clone();
    parent.hints = Some(Arc::new(move |used: UsedKey<'_>| {
        let key: RemoteKey = (used.child.map(<[u8]>::to_vec), used.key.to_vec());
        if used.is_read {
            told.will_read(key);
            if let Ok(counter) = counter.lock() {
                counter.at(told.loaded_nodes() as u64);
            }
        } else {
            told.will_change(key);
        }
    }));
    Ok(parent)
}

/// Items of System that every block uses.
const OF_SYSTEM: [&str; 13] = [
    "Number",
    "ParentHash",
    "Digest",
    "Events",
    "EventCount",
    "EventTopics",
    "ExecutionPhase",
    "LastRuntimeUpgrade",
    "BlockWeight",
    "AllExtrinsicsLen",
    "ExtrinsicCount",
    "ExtrinsicData",
    "BlockHash",
];

/// Returns the prefixes of all pallets, the items of System, and the accounts that sign.
fn first_keys(pallets: BTreeSet<String>, body: &[Vec<u8>]) -> Vec<RemoteKey> {
    let system = twox_128(b"System");
    let pallets = pallets
        .iter()
        .map(|name| twox_128(name.as_bytes()).to_vec());
    let items = OF_SYSTEM.iter();
    let items = items.map(|name| [system, twox_128(name.as_bytes())].concat());
    let accounts = body.iter().filter_map(|extrinsic| {
        // Version 4, signed, with the sender as an account id.
        let [0x84, 0, rest @ ..] = &extrinsic[..] else {
            return None;
        };
        let id = rest.first_chunk::<32>()?;
        let hash = sp_crypto_hashing::blake2_128(id);
        let prefix = [system, twox_128(b"Account")].concat();
        Some([&prefix[..], &hash, id].concat())
    });
    let keys = pallets.chain(items).chain(accounts);
    keys.map(|key| (None, key)).collect()
}
