//! The entry points of the fuzzers. Each panics if something is wrong.

use crate::{compare_stock_nodes, run_case, Case};
use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, BlockError, CompactProof, Consensus, LoadError, NodeHash,
    NodePrefix, NodeSource, ProofError, Root, SourceError, StateVersion, StorageProof, TrieId,
};
use povmeter_delta_root::Blake2b256;
use std::error::Error;

/// Runs the case that `bytes` describe on povmeter and on the peer, in both accountings.
///
/// # Panics
/// If the two differ.
pub fn fuzz_block(bytes: &[u8]) {
    let case = Case::from_bytes(bytes);
    agree::<Consensus>(&case);
    agree::<Advisory>(&case);
    let asking = case.asking_for_child_roots(bytes.len() as u64);
    agree::<Consensus>(&asking);
    agree::<Advisory>(&asking);
}

fn agree<A: Accounting>(case: &Case) {
    let agrees = run_case::<A>(case).and_then(|_| compare_stock_nodes::<A>(case));
    if let Err(mismatch) = agrees {
        let mut text = mismatch.to_string();
        let mut below = mismatch.source();
        while let Some(error) = below {
            let message = error.to_string();
            // Some messages already end with that of their source.
            if !text.ends_with(&message) {
                text = format!("{text}: {message}");
            }
            below = error.source();
        }
        panic!("sizes proven: {}: {text}\n{case}", A::PROVEN);
    }
}

/// Decodes `bytes` as a proof of either form and executes a block from it.
///
/// # Panics
/// If a decoded proof does not encode to the length that it tells, or the compact size that a block
/// tells is not that of its proof.
pub fn fuzz_proof(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let which = usize::from(*which);
    if let Ok(proof) = StorageProof::decode(bytes) {
        assert_eq!(proof.encode().len() as u64, proof.encoded_bytes());
        assert_eq!(
            StorageProof::decode(&proof.encode()).ok(),
            Some(proof.clone())
        );
        if let Some(node) = proof.nodes().get(which % proof.nodes().len().max(1)) {
            let root = Root::from(*Blake2b256::hash(node).as_bytes());
            // An error is right, too, because the input decides whether these nodes can be packed.
            let _ = proof.to_compact(root);
            // Any node may be the root here, so these may not be tries of a state, and sizes are not
            // checked.
            let nodes = proof.to_source();
            let _ = block_on::<_, Consensus>(&nodes, root);
            let _ = block_on::<_, Advisory>(&nodes, root);
        }
    }
    if let Ok(proof) = CompactProof::decode(bytes) {
        assert_eq!(proof.encode().len() as u64, proof.encoded_bytes());
        assert_eq!(
            CompactProof::decode(&proof.encode()).ok(),
            Some(proof.clone())
        );
        let mut root = Root::EMPTY;
        let mut nodes = proof.to_source(root);
        // No input has a given root by chance; the error names the root that it has.
        if let Err(ProofError::WrongRoot { found, .. }) = nodes {
            root = found;
            nodes = proof.to_source(root);
        }
        if let Ok(nodes) = nodes {
            execute(&nodes, root);
        }
    }
}

/// Serves pieces of `bytes` as nodes, one for every hash, and executes a block from them.
///
/// # Panics
/// If povmeter panics.
pub fn fuzz_node(bytes: &[u8]) {
    let nodes = AnyNodes::new(bytes);
    let root = Root::from([0; 32]);
    block_on::<_, Consensus>(&nodes, root);
    block_on::<_, Advisory>(&nodes, root);
}

/// Has a node for every hash, so that tries may contain themselves.
struct AnyNodes(Vec<Bytes>);

impl AnyNodes {
    /// Cuts `bytes` into nodes. Two bytes before each node tell its length.
    fn new(mut bytes: &[u8]) -> Self {
        let mut nodes = Vec::new();
        while let [high, low, rest @ ..] = bytes {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let (node, rest) = rest.split_at(length.min(rest.len()));
            nodes.push(Bytes::copy_from_slice(node));
            bytes = rest;
        }
        Self(nodes)
    }
}

impl NodeSource for AnyNodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let which = usize::from(hash.as_bytes()[0]) % self.0.len().max(1);
        Ok(self.0.get(which).cloned())
    }
}

/// Executes a block from nodes with the right hashes, and checks the compact sizes.
fn execute(nodes: &impl NodeSource, root: Root) {
    let sizes = [
        block_on::<_, Consensus>(nodes, root),
        block_on::<_, Advisory>(nodes, root),
    ];
    for size in sizes.into_iter().flatten() {
        assert_eq!(size.told, size.packed, "bytes of the compact proof");
    }
}

/// Bytes of a compact proof.
struct CompactBytes {
    told: u64,
    packed: u64,
}

/// Keys to read and write besides those that a walk finds.
const KEYS: [&[u8]; 5] = [b"", &[0x00], &[0x11, 0x12], &[0xf0; 33], b":code"];
/// Steps of a walk. There is a limit, because a trie that contains itself has endless keys.
const STEPS: usize = 40;

/// Whether a call met a corrupt node. Then the tries are not those of a state, and a compact proof may
/// leave out nodes that no walk can reach.
#[derive(Default)]
struct Damage(bool);

impl Damage {
    /// Notes damage and returns the result.
    fn of<T>(&mut self, result: Result<T, BlockError>) -> Result<T, BlockError> {
        self.0 |= matches!(&result, Err(BlockError::Load(LoadError::Corrupt { .. })));
        result
    }
}

/// Makes calls of every kind, also after an error, which is a right result here. Returns the
/// compact sizes; `None` after damage or without a compact proof.
fn block_on<S: NodeSource, A: Accounting>(source: S, root: Root) -> Option<CompactBytes> {
    let mut block = Block::with_accounting(source, root, A::default());
    let mut damage = Damage::default();
    let mut keys: Vec<Vec<u8>> = KEYS.map(<[u8]>::to_vec).to_vec();
    for trie in [TrieId::Top, TrieId::Child(b"c")] {
        let mut at = Vec::new();
        for _ in 0..STEPS {
            match damage.of(block.next_key(trie, &at)) {
                Ok(Some(next)) => at = next,
                _ => break,
            }
            keys.push(at.clone());
        }
        for key in &keys {
            let _ = damage.of(block.get(trie, key).map(|value| value.map(<[u8]>::len)));
            let _ = damage.of(block.value_hash(trie, key));
            let _ = damage.of(block.exists(trie, key));
        }
        let _ = change(&mut block, trie, &keys, &mut damage);
    }
    let _ = damage.of(block.child_root(b"c", StateVersion::V0));
    let told = block.compact_proof_bytes();
    let packed = block.recorded_proof().to_compact(root);
    let _ = block.root(StateVersion::V0).map(|update| update.root);
    let _ = block.seal(StateVersion::V1);
    match (told, packed) {
        (Ok(told), Ok(packed)) if !damage.0 => Some(CompactBytes {
            told,
            packed: packed.encoded_bytes(),
        }),
        _ => None,
    }
}

/// Writes and deletes in nested transactions, and asks for a size in each.
fn change<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    trie: TrieId<'_>,
    keys: &[Vec<u8>],
    damage: &mut Damage,
) -> Result<(), BlockError> {
    for (at, key) in keys.iter().enumerate() {
        block.start_transaction();
        // The block refuses a write to the key of a child's root, and fails at a corrupt node.
        let _ = damage.of(match at % 3 {
            0 => block.set(trie, key, &[7; 40]),
            1 => block.append(TrieId::Top, key, &[1]),
            _ => block.remove(trie, key),
        });
        let _ = damage.of(block.proof_size());
        match at % 4 {
            0 => block.rollback_transaction()?,
            _ => block.commit_transaction()?,
        }
    }
    block.start_transaction();
    let _ = damage.of(block.clear_prefix(trie, &[0x11], Some(20), None));
    let _ = damage.of(block.proof_size());
    let _ = block.root(StateVersion::V1).map(|update| update.root);
    block.commit_transaction()
}
