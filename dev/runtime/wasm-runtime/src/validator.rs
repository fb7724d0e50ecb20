//! A validator without an operating system: it runs the calls of a runtime on a compact proof with the
//! core crates. It is also compiled natively, so that both results can be compared.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use codec::{Decode, DecodeWithMemTracking, Encode};
use povmeter::{
    Block, BlockError, CompactProof, NodeSource, Root, StateVersion, StorageProof, TrieId,
};

/// The storage key of a child trie, `None` for the top trie.
pub type Trie = Option<Vec<u8>>;

/// One call on a block.
#[derive(
    Clone, Debug, PartialEq, Eq, Encode, Decode, DecodeWithMemTracking, scale_info::TypeInfo,
)]
pub enum Step {
    Start,
    Commit,
    Rollback,
    Enter,
    Exit,
    Set(Trie, Vec<u8>, Vec<u8>),
    Remove(Trie, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Get(Trie, Vec<u8>),
    Hash(Trie, Vec<u8>),
    Exists(Trie, Vec<u8>),
    Next(Trie, Vec<u8>),
    Clear(Trie, Vec<u8>, Option<u32>, Option<Vec<u8>>),
    Root,
    Size,
    ChildRoot(Vec<u8>),
}

/// The result of a block: the proof sizes asked for, and the root.
pub type Outcome = (Vec<u64>, [u8; 32]);

fn id(trie: &Trie) -> TrieId<'_> {
    trie.as_deref().map_or(TrieId::Top, TrieId::Child)
}

fn version(number: u8) -> StateVersion {
    match number {
        0 => StateVersion::V0,
        _ => StateVersion::V1,
    }
}

/// Runs `steps` on the state that `source` holds; returns the result and the proof.
pub fn execute<S: NodeSource>(
    source: S,
    root: Root,
    state_version: u8,
    steps: &[Step],
) -> Result<(Outcome, StorageProof), BlockError> {
    let mut block: Block<S> = Block::new(source, root);
    let version = version(state_version);
    let mut sizes = Vec::new();
    for step in steps {
        match step {
            Step::Start => block.start_transaction(),
            Step::Commit => block.commit_transaction()?,
            Step::Rollback => block.rollback_transaction()?,
            Step::Enter => block.enter_runtime()?,
            Step::Exit => _ = block.exit_runtime()?,
            Step::Set(trie, key, value) => block.set(id(trie), key, value)?,
            Step::Remove(trie, key) => block.remove(id(trie), key)?,
            Step::Append(key, element) => block.append(TrieId::Top, key, element)?,
            Step::Get(trie, key) => _ = block.get(id(trie), key)?,
            Step::Hash(trie, key) => _ = block.value_hash(id(trie), key)?,
            Step::Exists(trie, key) => _ = block.exists(id(trie), key)?,
            Step::Next(trie, key) => _ = block.next_key(id(trie), key)?,
            Step::Clear(trie, prefix, limit, cursor) => {
                block.clear_prefix(id(trie), prefix, *limit, cursor.as_deref())?;
            }
            Step::Root => _ = block.root(version)?,
            Step::ChildRoot(child) => _ = block.child_root(child, version)?,
            Step::Size => sizes.push(block.proof_size()?.total_bytes()),
        }
    }
    let sealed = block.seal(version)?;
    let outcome = (sizes, *sealed.update().root.as_bytes());
    Ok((outcome, sealed.proof().clone()))
}

/// Runs `steps` on a compact proof alone.
pub fn validate(
    root: [u8; 32],
    proof: &[u8],
    state_version: u8,
    steps: &[Step],
) -> Result<Outcome, String> {
    let root = Root::from(root);
    let nodes = CompactProof::decode(proof).and_then(|proof| proof.to_source(root));
    let nodes = nodes.map_err(|error| error.to_string())?;
    let executed = execute(nodes, root, state_version, steps);
    executed
        .map(|(outcome, _)| outcome)
        .map_err(|error| error.to_string())
}
