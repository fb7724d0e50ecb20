//! Checks of a chain: its whole state, and its blocks.

use crate::{
    chain::Chain,
    cli::{Execute, InfoOptions, VerifyOptions},
    error::Error,
    output::print_line,
};
use povmeter_node_runtime::{opaque::Block, Hash, Header};
use sc_client_api::{Backend as _, BlockBackend, TrieCacheContext};
use sp_api::{ApiExt, CallContext, Core, ProvideRuntimeApi};
use sp_blockchain::HeaderBackend;
use sp_core::storage::{well_known_keys::DEFAULT_CHILD_STORAGE_KEY_PREFIX, ChildInfo};
use sp_runtime::traits::{Block as _, Header as _};
use sp_state_machine::{backend::Backend as _, IterArgs};
use sp_trie::proof_size_extension::ProofSizeExt;
use tokio::runtime::Handle;

/// Reads the whole state of the best block, and checks that its nodes have their hashes. Then executes the
/// latest blocks again.
///
/// # Errors
/// The first thing that is missing or wrong; [`Error::TooFewBlocks`] if more blocks are to be executed than the chain
/// has with their parents' states.
pub(crate) fn verify(mut options: VerifyOptions, handle: Handle) -> Result<(), Error> {
    options.chain.check_nodes = true;
    // Nodes from the cache would not be checked.
    options.chain.trie_cache = 0;
    let chain = Chain::open(&options.chain, handle)?;
    print_info(&chain)?;
    let info = chain.client.info();
    let mut header = header(&chain, info.best_number, info.best_hash)?;
    let (entries, children) = read_state(&chain, &header)?;
    print_line(format_args!(
        "state of block {}: {entries} entries, {children} of them in child tries",
        header.number()
    ))?;
    let most = match options.execute {
        Execute::Latest(blocks) => blocks,
        Execute::All => u32::MAX,
    };
    let mut executed = 0;
    while executed < most && *header.number() > 0 {
        let parent = self::header(&chain, *header.number() - 1, *header.parent_hash())?;
        if !chain.backend.have_state_at(parent.hash(), *parent.number()) {
            break;
        }
        execute(&chain, &header)?;
        executed += 1;
        header = parent;
    }
    print_line(format_args!("{executed} blocks executed again"))?;
    match options.execute {
        Execute::Latest(expected) if executed < expected => Err(Error::TooFewBlocks {
            expected,
            found: executed,
        }),
        _ => Ok(()),
    }
}

/// Reads the header of block `number`, and checks that it has the hash by which it was found.
fn header(chain: &Chain, number: u32, expected: Hash) -> Result<Header, Error> {
    let header = chain.client.expect_header(expected)?;
    let found = header.hash();
    if found != expected {
        return Err(Error::Differs {
            what: "hash of the header",
            number,
            expected,
            found,
        });
    }
    Ok(header)
}

/// Reads every entry of the state of a block. Returns how many there are, and how many of them are in child
/// tries.
fn read_state(chain: &Chain, header: &Header) -> Result<(u64, u64), Error> {
    let failed = |reason: String| Error::State {
        number: *header.number(),
        reason,
    };
    let state = chain
        .backend
        .state_at(header.hash(), TrieCacheContext::Untrusted)?;
    let (mut entries, mut in_children) = (0, 0);
    let mut children = Vec::new();
    for pair in state.pairs(IterArgs::default()).map_err(failed)? {
        let (key, _) = pair.map_err(failed)?;
        entries += 1;
        if let Some(name) = key.strip_prefix(DEFAULT_CHILD_STORAGE_KEY_PREFIX) {
            children.push(ChildInfo::new_default(name));
        }
    }
    for child_info in children {
        let mut arguments = IterArgs::default();
        arguments.child_info = Some(child_info);
        for pair in state.pairs(arguments).map_err(failed)? {
            pair.map_err(failed)?;
            in_children += 1;
        }
    }
    Ok((entries + in_children, in_children))
}

/// Executes a block on the state of its parent, and checks its state root.
fn execute(chain: &Chain, header: &Header) -> Result<(), Error> {
    let number = *header.number();
    let parent = *header.parent_hash();
    let failed = |reason: String| Error::Execute { number, reason };
    let (_, extrinsics) = chain
        .client
        .block(header.hash())?
        .ok_or(Error::MissingBlock { number })?
        .block
        .deconstruct();
    let context = CallContext::Onchain { import: true };
    let mut api = chain.client.runtime_api();
    api.set_call_context(context);
    api.record_proof();
    let recorder = api.proof_recorder().expect("a proof is recorded");
    api.register_extension(ProofSizeExt::new(recorder));
    api.execute_block(parent, Block::new(header.clone(), extrinsics).into())
        .map_err(|error| failed(error.to_string()))?;
    let state = chain.backend.state_at(parent, context.into())?;
    let changes = api.into_storage_changes(&state, parent).map_err(failed)?;
    let (expected, found) = (*header.state_root(), changes.transaction_storage_root);
    if expected != found {
        return Err(Error::Differs {
            what: "state root",
            number,
            expected,
            found,
        });
    }
    Ok(())
}

/// Prints the best and the finalized block of a chain.
///
/// # Errors
/// Those of the chain.
pub(crate) fn info(options: &InfoOptions, handle: Handle) -> Result<(), Error> {
    print_info(&Chain::open(&options.chain, handle)?)
}

/// Prints the best and the finalized block.
pub(crate) fn print_info(chain: &Chain) -> Result<(), Error> {
    let info = chain.client.info();
    let root = |hash: Hash| {
        let header = chain.client.header(hash).ok().flatten();
        header.map_or_else(
            || "missing".to_owned(),
            |header| format!("{:?}", header.state_root()),
        )
    };
    print_line(format_args!("genesis {:?}", info.genesis_hash))?;
    print_line(format_args!(
        "best {} {:?} state {}",
        info.best_number,
        info.best_hash,
        root(info.best_hash)
    ))?;
    print_line(format_args!(
        "finalized {} {:?}",
        info.finalized_number, info.finalized_hash
    ))
}
